"""MCP servers in cages: both eras, what the operator approves of their tools, and calls of them."""
import json

from harness import Daemon, FlowTest, main, wait_for

PROJECT = """version: 1
name: shop
primary:
  model: m0
  prompt: You sell fruit.
  plugins:
    server: { package: mcp-server }
"""


class Server:
    """A daemon with the server of one era, running."""

    def __init__(self, era="legacy"):
        self.daemon = Daemon(["mcp-server"])
        self.daemon.edit_manifest("mcp-server", "ERA: legacy", f"ERA: {era}")
        self.root = self.daemon.write_project("shop", PROJECT)

    def __enter__(self):
        self.daemon.__enter__()
        return self

    def __exit__(self, *exception):
        self.daemon.__exit__(*exception)

    def tools(self):
        status, answer = self.daemon.api("GET", "/plugins/mcp-server/tools")
        assert status == 200, answer
        return answer

    def states(self):
        return {tool["name"]: tool["state"] for tool in self.tools()["tools"]}

    def waits(self):
        return wait_for(lambda: self.tools()["waits"], "tools that wait for a yes")

    def approve(self):
        status, answer = self.daemon.api("POST", "/plugins/mcp-server/tools",
                                         {"approve": self.waits()})
        assert status == 200, answer
        self.daemon.wait_state("mcp-server", "running")

    def session(self):
        status, answer = self.daemon.api("POST", "/projects", {"path": self.root})
        assert status in (200, 201), answer
        status, answer = self.daemon.api("POST", "/projects/shop/sessions", {})
        assert status == 201, answer
        return answer["id"]

    def use(self, session, tool, arguments):
        return self.daemon.api("POST", f"/sessions/{session}/tools/mcp-server.{tool}", arguments)


class McpTest(FlowTest):
    def refuses(self, server, session, tool, arguments, words):
        status, answer = server.use(session, tool, arguments)
        self.assertEqual((status, answer["is_error"]), (200, True), answer)
        self.assertIn(words, answer["result"])

    def test_tools_are_offered_to_nobody_before_a_yes(self):
        with Server() as server:
            server.waits()
            self.assertEqual(server.states(), {"getSum": "new", "mutate": "new"})
            session = server.session()
            self.refuses(server, session, "getSum", {"a": 1, "b": 2}, "has no tool")
            status, answer = server.daemon.api("POST", "/plugins/mcp-server/tools",
                                               {"approve": "sha256:other"})
            self.assertEqual(status, 409, answer)

    def check_calls(self, era):
        with Server(era) as server:
            server.approve()
            self.assertEqual(server.states(), {"getSum": "approved", "mutate": "approved"})
            session = server.session()
            status, answer = server.use(session, "getSum", {"a": 1, "b": 2})
            self.assertEqual(status, 200, answer)
            self.assertIn('"sum": 3', json.dumps(answer))
            self.refuses(server, session, "getSum", {"a": "x"}, "the params")
            self.refuses(server, session, "getSum", {"a": 6, "b": 7}, "structuredContent")
            return server.daemon.call("mcp-server", "resources%2Fread", {"uri": "test:told"})

    def test_a_legacy_server_is_called_in_its_cage(self):
        told = self.check_calls("legacy")["contents"][0]["text"]
        # Which era it is was approved with its tools: nobody asks again.
        self.assertEqual([message["method"] for message in json.loads(told)][:3],
                         ["initialize", "notifications/initialized", "tools/list"])

    def test_a_modern_server_is_called_in_its_cage(self):
        told = json.loads(self.check_calls("modern")["contents"][0]["text"])
        self.assertNotIn("initialize", [message["method"] for message in told])
        self.assertTrue(all("_meta" in message["params"] for message in told if "id" in message))

    def test_a_tool_that_changed_is_offered_as_it_was_approved(self):
        with Server() as server:
            server.approve()
            session = server.session()
            status, answer = server.use(session, "mutate", {})
            self.assertEqual(status, 200, answer)
            server.waits()
            self.assertEqual(server.states(),
                             {"getSum": "changed", "mutate": "approved", "hidden": "new"})
            tool = server.tools()["tools"][0]
            self.assertEqual(tool["description"], "Adds two numbers.")
            self.assertIn("invisible", tool["now"]["danger"])
            self.assertNotIn("title", tool["more"])
            self.assertEqual(tool["now"]["more"]["title"], "Sums")
            _, _, err = server.daemon.cli("plugin", "tools", "mcp-server", "--approve")
            self.assertIn("now: Adds two numbers.", err)
            self.assertIn('title: "Sums"', err)
            self.refuses(server, session, "hidden", {}, "has no tool")
            status, answer = server.use(session, "getSum", {"a": 1, "b": 2})
            self.assertEqual(status, 200, answer)
            server.daemon.wait_audit("plugin.tools_held", "mcp-server")

    def test_a_tool_that_is_off_is_offered_to_nobody(self):
        with Server() as server:
            server.approve()
            code, out, err = server.daemon.cli("plugin", "tools", "mcp-server", "--off", "getSum")
            self.assertEqual(code, 0, err)
            self.assertEqual(server.states(), {"getSum": "off", "mutate": "approved"})
            session = server.session()
            self.refuses(server, session, "getSum", {"a": 1, "b": 2}, "has no tool")
            code, out, err = server.daemon.cli("plugin", "tools", "mcp-server", "--on", "getSum")
            self.assertEqual(code, 0, err)
            self.assertEqual(server.states(), {"getSum": "approved", "mutate": "approved"})

    def test_settings_are_in_the_words_that_a_server_is_started_with(self):
        with Server() as server:
            def team():
                return server.daemon.try_call("mcp-server", "resources%2Fread", {"uri": "test:team"})
            self.assertEqual(team()[1]["contents"][0]["text"], "blue")
            with open(server.daemon.home + "/local.toml", "a") as file:
                file.write('[plugins.mcp-server.config]\nteam = "re}d"\n')
            code, out, err = server.daemon.cli("reload")
            self.assertEqual(code, 0, err)
            wait_for(lambda: team()[0] == 200 and team()[1]["contents"][0]["text"] == "re}d",
                     "a restart with the new setting")

    def test_the_command_shows_every_word_before_it_asks(self):
        with Server() as server:
            server.waits()
            code, out, err = server.daemon.cli("plugin", "tools", "mcp-server", "--approve")
            self.assertEqual(code, 5, err)  # no terminal, and no --yes
            self.assertIn("Adds two numbers.", err)
            self.assertIn('"destructiveHint":true', err)
            self.assertIn('outputSchema: {"type":"object","properties":{"sum"', err)
            self.assertNotIn("    \n", err)
            code, out, err = server.daemon.cli("plugin", "tools", "mcp-server", "--approve", "--yes")
            self.assertEqual(code, 0, err)
            self.assertEqual(server.states(), {"getSum": "approved", "mutate": "approved"})


if __name__ == "__main__":
    main()
