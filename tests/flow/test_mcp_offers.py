"""What MCP servers offer beside tools, in both eras: resources, prompts, completion, logs; progress,
and that who leaves ends the work."""
import http.client
import json
import socket

from harness import PATIENCE, Daemon, FlowTest, main, wait_for
from test_events import Reader

PROJECT = """version: 1
name: shop
primary:
  model: m0
  prompt: You sell fruit.
  plugins:
    rich: { package: mcp-rich }
"""


class Rich:
    """A daemon with the server of one era, whose tools are approved."""

    def __init__(self, era="legacy"):
        self.daemon = Daemon(["mcp-rich"])
        self.daemon.edit_manifest("mcp-rich", "ERA: legacy", f"ERA: {era}")
        self.root = self.daemon.write_project("shop", PROJECT)

    def __enter__(self):
        self.daemon.__enter__()
        return self

    def __exit__(self, *exception):
        self.daemon.__exit__(*exception)

    def ask(self, method, rest, body=None, status=200):
        got, answer = self.daemon.api(method, "/plugins/mcp-rich" + rest, body)
        assert got == status, answer
        return answer

    def told(self):
        return json.loads(self.ask("GET", "/resources?uri=test:told")["contents"][0]["text"])

    def session(self):
        digest = wait_for(lambda: self.ask("GET", "/tools")["waits"], "tools that wait for a yes")
        self.ask("POST", "/tools", {"approve": digest})
        self.daemon.wait_state("mcp-rich", "running")
        status, answer = self.daemon.api("POST", "/projects", {"path": self.root})
        assert status in (200, 201), answer
        status, answer = self.daemon.api("POST", "/projects/shop/sessions", {})
        assert status == 201, answer
        return answer["id"]

    def use(self, session, tool, status=200):
        got, answer = self.daemon.api("POST", f"/sessions/{session}/tools/mcp-rich.{tool}", {})
        assert got == status, answer
        return answer

    def leave(self, path, body=None):
        """Asks, and goes away once the server has it."""
        before = len(self.told())
        connection = http.client.HTTPConnection("localhost", timeout=PATIENCE)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(self.daemon.socket)
        connection.request("GET" if body is None else "POST", "/api/v1" + path, body=body)
        wait_for(lambda: any(message.get("method") in ("tools/call", "resources/read") and
                             "wait" in json.dumps(message["params"])
                             for message in self.told()[before:]), "the call")
        connection.close()


class OffersTest(FlowTest):
    def check_offers(self, era):
        with Rich(era) as rich:
            resources = rich.ask("GET", "/resources")["resources"]
            self.assertEqual([item["name"] for item in resources],
                             ["told", "one", "two", "bytes", "broken"])
            templates = rich.ask("GET", "/resources?templates=true")["resourceTemplates"]
            self.assertEqual(templates, [{"uriTemplate": "test:{name}", "name": "any"}])
            read = rich.ask("GET", "/resources?uri=test:one")
            self.assertEqual(read["contents"][0]["text"], "this is test:one\nand more")
            prompt = rich.ask("POST", "/prompts", {"name": "greet", "arguments": {"whom": "Anna"}})
            self.assertEqual(prompt["messages"][0]["content"]["text"], "Greet Anna.")
            self.assertEqual(rich.ask("GET", "/prompts")["prompts"][0]["name"], "greet")
            done = rich.ask("POST", "/completion", {
                "ref": {"type": "ref/prompt", "name": "greet"},
                "argument": {"name": "whom", "value": "an"}})
            self.assertEqual(done["completion"]["values"], ["anna", "anton"])

    def test_a_legacy_server_offers_resources_prompts_and_completion(self):
        self.check_offers("legacy")

    def test_a_modern_server_offers_resources_prompts_and_completion(self):
        self.check_offers("modern")

    def test_bytes_that_are_not_base64_are_an_error_in_words(self):
        with Rich() as rich:
            good = rich.ask("GET", "/resources?uri=test:bytes")
            self.assertEqual(good["contents"][0]["blob"], "AAEC/w==")
            bad = rich.ask("GET", "/resources?uri=test:broken", status=500)
            self.assertIn("not base64", bad["error"]["message"])
            answer = rich.use(rich.session(), "bytes")
            self.assertTrue(answer["is_error"])
            self.assertIn("not base64", answer["result"])

    def test_a_link_to_a_file_of_the_host_is_only_text(self):
        with Rich() as rich:
            answer = rich.use(rich.session(), "link")
            self.assertEqual(answer["result"]["content"],
                             [{"type": "resource_link", "uri": "file:///etc/passwd", "name": "link"}])

    def test_commands_show_what_is_offered(self):
        with Rich() as rich:
            cli = rich.daemon.cli
            code, out, err = cli("plugin", "resources", "mcp-rich")
            self.assertEqual(code, 0, err)
            self.assertIn("test:two", out)
            code, out, err = cli("plugin", "resources", "mcp-rich", "test:one")
            self.assertEqual((code, out), (0, "this is test:one\nand more\n"), err)
            code, out, err = cli("plugin", "resources", "mcp-rich", "test:bytes")
            self.assertIn("image/png, 8 bytes of base64", out)
            code, out, err = cli("plugin", "prompts", "mcp-rich")
            self.assertIn("whom [how]", out)
            code, out, err = cli("plugin", "prompts", "mcp-rich", "greet", '{"whom": "Bert"}')
            self.assertEqual((code, out), (0, "user: Greet Bert.\n"), err)

    def test_a_plugin_that_is_not_a_server_says_so(self):
        with Daemon(["echo"]) as daemon:
            code, out, err = daemon.cli("plugin", "prompts", "echo")
            self.assertEqual(code, 1)
            self.assertIn("is not an MCP server", err)


class WorkTest(FlowTest):
    def check_leaving(self, era):
        with Rich(era) as rich:
            session = rich.session()
            for path, body in ((f"/sessions/{session}/tools/mcp-rich.wait", "{}"),
                               ("/plugins/mcp-rich/resources?uri=test:wait", None)):
                before = len(rich.told())
                rich.leave(path, body)
                wait_for(lambda: any(message.get("method") == "notifications/cancelled"
                                     for message in rich.told()[before:]), "a cancel")
            # What was cancelled is not answered, and that is no reason to end the server.
            status = rich.daemon.status("mcp-rich")
            self.assertEqual(status["state"], "running")
            entries = wait_for(
                lambda: [entry for entry in rich.daemon.api(
                    "GET", f"/sessions/{session}/entries")[1]["entries"]
                    if entry["kind"] == "tool_result"], "the result of the call")
            self.assertIn("[CANCELLED]", json.dumps(entries[0]["content"]))

    def test_who_leaves_ends_the_work_of_a_legacy_server(self):
        self.check_leaving("legacy")

    def test_who_leaves_ends_the_work_of_a_modern_server(self):
        self.check_leaving("modern")

    def test_a_cancelled_call_does_not_count_as_hung(self):
        with Rich() as rich:
            rich.daemon.write_config(**{"limits.call_timeout_ms": 10_000})
            code, out, err = rich.daemon.cli("reload")
            self.assertEqual(code, 0, err)
            rich.leave("/plugins/mcp-rich/resources?uri=test:wait")
            wait_for(lambda: any(message.get("method") == "notifications/cancelled"
                                 for message in rich.told()), "a cancel")
            code, out, err = rich.daemon.cli("plugin", "resources", "mcp-rich", "test:wait")
            self.assertEqual(code, 1)  # this one does, and it is restarted
            self.assertIn("no answer within 10000 ms", err)
            rich.daemon.wait_exit("mcp-rich", "timeout")
            self.assertEqual(len(rich.daemon.audit("plugin.crashed", "mcp-rich")), 1)

    def test_progress_is_told_as_it_comes_and_never_falls(self):
        with Rich() as rich:
            session = rich.session()
            reader = Reader(rich.daemon, "?type=progress")
            rich.use(session, "progress")
            told = [reader.until(type="progress")[1] for _ in range(3)]
            self.assertEqual([event["params"]["message"] for event in told],
                             ["step 1", "step 2", "step 3"])
            self.assertEqual(told[0]["session_id"], session)
            self.assertEqual(told[0]["params"], {"progress": 1, "total": 3, "message": "step 1"})

    def test_what_a_server_logs_is_in_its_log_and_an_event(self):
        with Rich() as rich:
            session = rich.session()
            reader = Reader(rich.daemon, "?type=log&event=warning")
            rich.use(session, "log")
            self.assertEqual(reader.until(type="log")[1]["params"]["data"], {"said": "warning"})
            code, out, err = rich.daemon.cli("plugin", "logs", "mcp-rich")
            self.assertIn('warning rich: {"said":"warning"}', out)


if __name__ == "__main__":
    main()
