"""kaged mcp serve: the gateway on stdio, for clients that start a command."""
import json
import os
import signal
import subprocess
from urllib.parse import quote

from harness import KAGED, PATIENCE, Daemon, FlowTest, main, wait_for
from mcp_client import LATEST, MODERN, Client, approve_tools


class Serve:
    """A client that speaks lines with a bridge."""

    def __init__(self, daemon, folder, *arguments, revision=LATEST):
        self.maker = Client(daemon, revision=revision)  # which only makes messages
        self.process = subprocess.Popen(
            [KAGED, "--home", daemon.home, "mcp", "serve", *arguments], cwd=folder,
            env=daemon.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """The exit code, and what it wrote on stderr."""
        if self.process.stdin.closed:
            return None
        self.process.stdin.close()
        code = self.process.wait(PATIENCE)
        words = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        return code, words

    def send(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def receive(self):
        line = self.process.stdout.readline()
        assert line, "the bridge has left"
        return json.loads(line)

    def request(self, method, params=None):
        message = self.maker.make(method, params)
        self.send(message)
        while True:
            answer = self.receive()
            if answer.get("id") == message["id"]:
                assert "result" in answer, answer
                return answer["result"]

    def initialize(self, capabilities=None):
        result = self.request("initialize", {
            "protocolVersion": LATEST, "capabilities": capabilities or {},
            "clientInfo": {"name": "test", "version": "1"}})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result

    def tools(self):
        return {tool["name"] for tool in self.request("tools/list")["tools"]}

    def text(self, name, arguments=None):
        return self.request("tools/call", {"name": name, "arguments": arguments or {}})[
            "content"][0]["text"]


class OfAFolder(FlowTest):
    """A server that reaches into its project has a process for each folder that it is used in."""

    def processes(self, daemon):
        return [plugin["name"] for plugin in daemon.api("GET", "/plugins")[1]["plugins"]
                if "@" in plugin["name"]]

    def say_yes(self, daemon, folder):
        """To the server in that folder: the only thing that is asked."""
        def asked():
            return [one for one in daemon.api("GET", "/consents")[1]["consents"]
                     if one["project_id"].startswith(os.path.basename(folder))]
        consent, = wait_for(asked, "a question")
        code, out, err = daemon.cli("project", "consent", "approve", consent["id"], "--yes")
        self.assertEqual(code, 0, out + err)

    def test_a_server_of_its_project_runs_once_a_folder_after_a_yes_for_each(self):
        daemon = Daemon(["mcp-server", "hears-hooks"])
        daemon.edit_manifest("mcp-server", "capabilities: []", 'capabilities: ["read:fs:project:/"]')
        folders = [os.path.join(daemon.base, "work-" + name) for name in "ab"]
        with daemon:
            for folder in folders:
                os.mkdir(folder)
            with Serve(daemon, folders[0]) as first, Serve(daemon, folders[1]) as second:
                first.initialize()
                self.assertNotIn("mcp-server__getSum", first.tools())  # nobody said yes to any
                self.say_yes(daemon, folders[0])
                approve_tools(daemon, "mcp-server")
                wait_for(lambda: "mcp-server__getSum" in first.tools(), "its tools")
                self.assertEqual(first.text("mcp-server__getSum", {"a": 1, "b": 2}), "3")
                second.initialize()
                # Each project is read again by itself; its clients hear of it as news.
                wait_for(lambda: "mcp-server__getSum" in second.tools(), "its tools in the other")
                self.assertIn("kaged project consent", second.text("mcp-server__getSum",
                                                                   {"a": 1, "b": 2}))
                self.assertIn("x", second.text("hears-hooks__echo", {"text": "x"}))  # as before
                self.assertEqual([name for name in self.processes(daemon)
                                  if name.startswith("mcp-server@work-b")], [])
                self.say_yes(daemon, folders[1])
                wait_for(lambda: second.text("mcp-server__getSum", {"a": 1, "b": 2}) == "3", "a sum")
                names = [name for name in self.processes(daemon) if name.startswith("mcp-server@")]
                self.assertEqual(sorted(name.partition("@work-")[2][0] for name in names), ["a", "b"])
                pids = {daemon.status(name)["pid"] for name in names}
                self.assertEqual((len(pids), None in pids), (2, False))


class ServeTest(FlowTest):
    plugins = ["mcp-reference", "hears-hooks"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        approve_tools(cls.daemon)

    def serve(self, *arguments, **more):
        folder = os.path.join(self.daemon.base, "work")
        os.makedirs(folder, exist_ok=True)
        return Serve(self.daemon, folder, *arguments, **more)

    def test_the_tools_of_every_plugin_are_there_on_stdio(self):
        with self.serve("--no-project") as serve:
            self.assertEqual(serve.initialize()["serverInfo"]["name"], "kaged")
            self.assertIn("hears-hooks__echo", serve.tools())
            self.assertIn("simple", serve.text("mcp-reference__test_simple_text"))
            self.assertEqual(serve.close()[0], 0)

    def test_a_modern_client_is_served_as_well(self):
        with self.serve("--no-project", revision=MODERN) as serve:
            self.assertIn(MODERN, serve.request("server/discover")["supportedVersions"])
            self.assertIn("simple", serve.text("mcp-reference__test_simple_text"))

    def test_one_plugin_has_its_own_names(self):
        with self.serve("--no-project", "--plugin", "mcp-reference") as serve:
            serve.initialize()
            self.assertIn("simple", serve.text("test_simple_text"))

    def test_progress_and_news_come_as_lines(self):
        with self.serve("--no-project", "--plugin", "mcp-reference") as serve:
            serve.initialize()
            serve.send(serve.maker.make("tools/call", {"name": "test_tool_with_progress",
                                                       "_meta": {"progressToken": 7}}))
            progress = [serve.receive()["params"]["progress"] for _ in range(3)]
            self.assertEqual(progress, [0, 50, 100])
            self.assertIn("result", serve.receive())

    def test_a_client_on_stdio_is_asked_what_a_server_wants_to_know(self):
        with self.serve("--no-project", "--plugin", "mcp-reference") as serve:
            serve.initialize({"elicitation": {}})
            serve.send(serve.maker.make("tools/call", {"name": "test_elicitation",
                                                       "arguments": {"message": "Who?"}}))
            asked = serve.receive()
            self.assertEqual(asked["method"], "elicitation/create")
            serve.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}})
            self.assertIn("action=decline", serve.receive()["result"]["content"][0]["text"])

    def test_a_change_of_the_tools_is_told(self):
        with self.serve("--no-project") as serve:
            serve.initialize()
            serve.tools()
            self.daemon.act("hears-hooks", "disable")
            self.addCleanup(self.daemon.act, "hears-hooks", "enable")
            self.assertEqual(serve.receive()["method"], "notifications/tools/list_changed")

    def test_cancelling_works_in_both_eras(self):
        for revision in (LATEST, MODERN):
            with self.serve("--no-project", "--plugin", "mcp-reference",
                            revision=revision) as serve:
                if revision == LATEST:
                    serve.initialize()
                before = int(serve.text("cancelled"))
                message = serve.maker.make("tools/call", {"name": "hang"})
                serve.send(message)
                serve.send({"jsonrpc": "2.0", "method": "notifications/cancelled",
                            "params": {"requestId": message["id"]}})
                wait_for(lambda: int(serve.text("cancelled")) == before + 1, "a cancelled call")

    def test_the_folder_is_the_project(self):
        root = self.daemon.write_project("shop", """version: 1
name: shop
primary:
  model: m0
  plugins:
    notes: { package: hears-hooks }
""")
        with Serve(self.daemon, root) as serve:
            serve.initialize()
            self.assertEqual(serve.tools(), {"hears-hooks__echo", "hears-hooks__die",
                                             "hears-hooks__fails"})
            context = json.loads(serve.text("hears-hooks__echo", {"text": "x"}))["context"]
            self.assertEqual((context["project_id"], context["agent_path"]), ("shop", "primary"))
        with self.serve() as serve:  # without a file
            serve.initialize()
            serve.tools()
        status, answer = self.daemon.api("GET", "/projects")
        self.assertEqual(status, 200)
        self.assertTrue([p for p in answer["projects"] if p["id"].startswith("work-")], answer)

    def answer_roots(self, serve, *folders):
        """What the bridge asks for, and what it says when another project is taken."""
        asked = serve.receive()
        self.assertEqual(asked["method"], "roots/list")
        serve.send({"jsonrpc": "2.0", "id": asked["id"], "result": {
            "roots": [{"uri": "file://" + quote(folder)} for folder in folders]}})

    def test_the_roots_of_a_client_are_the_project_in_place_of_the_folder(self):
        folders = []
        for name in ("fruit", "fish and more"):
            root = self.daemon.write_project(name, f"""version: 1
name: {name.split()[0]}
primary:
  model: m0
  plugins:
    notes: {{ package: hears-hooks }}
""")
            folders.append(root)

        def project(serve):
            words = serve.text("hears-hooks__echo", {"text": "x"})
            return json.loads(words)["context"]["project_id"]
        with self.serve() as serve:
            serve.initialize({"roots": {"listChanged": True}})
            serve.send(serve.maker.make("tools/list"))  # which waits
            self.answer_roots(serve, folders[0])
            self.assertEqual(serve.receive()["method"], "notifications/tools/list_changed")
            tools = serve.receive()["result"]["tools"]
            self.assertEqual(len(tools), 3, tools)
            self.assertEqual(project(serve), "fruit")
            serve.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
            self.answer_roots(serve, folders[1], folders[0])
            self.assertEqual(project(serve), "fish")
            serve.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
            self.answer_roots(serve)  # none: it stays
            self.assertEqual(project(serve), "fish")

    def test_roots_that_are_none_leave_the_folder(self):
        with self.serve() as serve:
            serve.initialize({"roots": {}})
            asked = serve.receive()
            serve.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": [
                {"uri": "https://example.org/x"}, {"uri": "file:///srv/%00"}, {"uri": 3}, {}]}})
            serve.tools()
            serve.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}})  # to nobody
            self.assertTrue(serve.tools())
        with self.serve() as serve:
            serve.initialize({"roots": {}})
            asked = serve.receive()
            serve.send({"jsonrpc": "2.0", "id": asked["id"],
                        "error": {"code": -32603, "message": "no"}})
            self.assertTrue(serve.tools())
        with self.serve() as serve:
            serve.initialize({"roots": {}})  # and it never says them
            self.assertTrue(serve.tools())

    def test_a_folder_of_the_system_is_no_project(self):
        with Serve(self.daemon, "/") as serve:
            serve.initialize()
            self.assertIn("hears-hooks__echo", serve.tools())
            self.assertIn("not used as a project", serve.close()[1])

    def test_a_session_ends_with_its_bridge_also_by_a_signal(self):
        with self.serve("--no-project") as serve:
            serve.initialize()
            serve.process.send_signal(signal.SIGTERM)
            self.assertEqual(serve.close()[0], 0)

    def test_what_is_not_json_is_answered_and_the_bridge_goes_on(self):
        with self.serve("--no-project") as serve:
            serve.initialize()
            serve.process.stdin.write("{\n[]\n\n")
            self.assertIn("simple", serve.text("mcp-reference__test_simple_text"))


class Daemons(FlowTest):
    def test_a_daemon_is_started_and_stays_and_a_new_one_knows_the_client(self):
        daemon = Daemon(["hears-hooks"])
        try:
            daemon.approve()
            with Serve(daemon, daemon.base, "--no-project") as serve:
                serve.initialize()
                self.assertIn("hi", serve.text("hears-hooks__echo", {"text": "hi"}))
                self.assertEqual(daemon.cli("stop")[0], 0)
                self.assertIn("hi", serve.text("hears-hooks__echo", {"text": "hi"}))
            self.assertEqual(daemon.cli("status")[0], 0)
            self.assertEqual(daemon.cli("stop")[0], 0)
            daemon.check_sanitizers()
        finally:
            daemon.cli("stop")
            daemon.discard()


if __name__ == "__main__":
    main()
