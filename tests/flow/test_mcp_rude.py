"""MCP servers that do it wrong: each is bounded and told in words, and others notice nothing."""
import json

from harness import Daemon, FlowTest, main, wait_for
from mcp_client import Client, approve_tools

PROJECT = """version: 1
name: shop
primary:
  model: m0
  prompt: You sell fruit.
  plugins:
    rude: { package: mcp-rude }
"""


class Rude:
    def __init__(self, how, *others):
        self.daemon = Daemon(["mcp-rude", "echo", *others], wait_running=False)
        self.daemon.edit_manifest("mcp-rude", 'RUDE: ""', f'RUDE: "{how}"')
        self.root = self.daemon.write_project("shop", PROJECT)

    def __enter__(self):
        self.daemon.__enter__()
        self.daemon.wait_state("echo", "running")
        return self

    def __exit__(self, *exception):
        assert self.daemon.call("echo", "echo.say", {"text": "still here"}) is not None
        self.daemon.__exit__(*exception)

    def tools(self):
        return self.daemon.api("GET", "/plugins/mcp-rude/tools")[1]

    def approve(self):
        digest = wait_for(lambda: self.tools()["waits"], "tools that wait for a yes")
        status, answer = self.daemon.api("POST", "/plugins/mcp-rude/tools", {"approve": digest})
        assert status == 200, answer
        self.daemon.wait_state("mcp-rude", "running")

    def use(self, tool="plain"):
        status, answer = self.daemon.api("POST", "/projects", {"path": self.root})
        assert status in (200, 201), answer
        session = self.daemon.api("POST", "/projects/shop/sessions", {})[1]["id"]
        status, answer = self.daemon.api("POST", f"/sessions/{session}/tools/mcp-rude.{tool}", {})
        assert status == 200, answer
        return answer

    def told(self):
        answer = self.daemon.call("mcp-rude", "resources%2Fread", {"uri": "test:told"})
        return json.loads(answer["contents"][0]["text"])


class RudeTest(FlowTest):
    def assert_fine(self, answer):
        self.assertEqual((answer["is_error"], answer["result"]["content"][0]["text"]),
                         (False, "fine"), answer)

    def test_garbage_between_answers_is_counted_and_survived(self):
        with Rude("garbage") as rude:
            rude.approve()
            self.assert_fine(rude.use())
            rude.daemon.wait_audit("plugin.stdout_noise", "mcp-rude")
            self.assertEqual(rude.daemon.status("mcp-rude")["state"], "running")

    def test_pages_without_end_are_given_up(self):
        with Rude("pages") as rude:
            wait_for(lambda: "the list has more than 100 pages" in rude.daemon.log(), "the reason")

    def test_of_ten_thousand_tools_the_first_are_offered_and_the_rest_is_told(self):
        with Rude("many") as rude:
            wait_for(lambda: len(rude.tools()["tools"]) == 10_000, "all tools")
            self.assertIn("10000 new", rude.daemon.log())
            rude.approve()
            self.assert_fine(rude.use("tool1023"))
            self.assertIn("has no tool", json.dumps(rude.use("tool1024")))
            self.assertIn("8976 tools are left out: only the first 1024", rude.daemon.log())
            dangers = [tool["danger"] for tool in rude.tools()["tools"]]
            self.assertIsNone(dangers[1023])
            self.assertIn("not offered: only the first 1024", dangers[1024])
            self.assertIsNotNone(rude.daemon.call("echo", "echo.say", {"text": "hi"}))

    def test_a_line_of_16_mib_ends_its_server_alone(self):
        with Rude("line") as rude:
            rude.approve()
            self.assertTrue(rude.use()["is_error"])
            rude.daemon.wait_exit("mcp-rude", "protocol_violation")
            self.assertIn("a line of more than", rude.daemon.log())

    def test_a_schema_that_explodes_costs_its_tool_alone(self):
        with Rude("bomb") as rude:
            rude.approve()
            self.assert_fine(rude.use())
            answer = rude.use("bomb")
            self.assertTrue(answer["is_error"] or "fine" in json.dumps(answer["result"]))

    def test_names_that_look_alike_are_named_as_a_danger(self):
        with Rude("alike") as rude:
            wait_for(lambda: rude.tools()["waits"], "tools that wait for a yes")
            dangers = {tool["name"]: tool["danger"] for tool in rude.tools()["tools"]}
            self.assertEqual({name for name, danger in dangers.items() if danger is None},
                             {"plain", "read_file", "write_file"})
            for name in ("read_fi1e", "Read-File"):
                self.assertIn("looks like that of another tool, read_file", dangers[name])
            self.assertIn("not offered; it has U+0430", dangers["re\u0430d_file"])
            _, out, _ = rude.daemon.cli("plugin", "tools", "mcp-rude")
            self.assertIn("! mcp-rude.read_fi1e\n    DANGER: its name looks like", out)
            rude.approve()
            self.assert_fine(rude.use())

    def test_tools_that_change_all_the_time_are_listed_once_a_second(self):
        with Rude("change") as rude:
            rude.approve()
            began = len([message for message in rude.told() if message["method"] == "tools/list"])
            wait_for(lambda: len([message for message in rude.told()
                                  if message["method"] == "tools/list"]) >= began + 2, "two lists")
            calls = rude.daemon.status("mcp-rude")["in_flight"]
            self.assertLessEqual(calls, 2)
            self.assert_fine(rude.use())

    def test_prompts_by_the_thousand_hide_none_of_anothers(self):
        with Rude("prompts", "mcp-reference") as rude:
            rude.approve()
            approve_tools(rude.daemon)
            client = Client(rude.daemon)
            client.initialize()

            def names():
                return [prompt["name"] for prompt in client.request("prompts/list")["prompts"]]

            def text(name):
                return client.request("prompts/get", {"name": name})["messages"][0]["content"]["text"]
            client.call("mcp-rude__plain")  # lists are those of servers that run
            odd = names()[-1]
            self.assertGreaterEqual(len(names()), 5000)  # the other may run, too
            self.assertIn("simple", text("mcp-reference__test_simple_prompt"))
            self.assertEqual(text(odd), "prompt number 4999")

    def test_requests_that_were_not_offered_are_refused_whatever_their_ids(self):
        with Rude("requests") as rude:
            rude.approve()
            self.assert_fine(rude.use())
            answers = wait_for(lambda: (lambda all: len(all) == 5 and all)(
                [message for message in rude.told() if "method" not in message]), "five answers")
            self.assertEqual({json.dumps(answer["id"]): answer["error"]["code"] for answer in answers},
                             {"1.5": -32601, '"a"': -32601, "0": -32601, "-1": -32601, "2": -32601})

    def test_a_second_answer_is_passed_over(self):
        with Rude("twice") as rude:
            rude.approve()
            for _ in range(3):
                self.assert_fine(rude.use())
            self.assertEqual(rude.daemon.status("mcp-rude")["state"], "running")


if __name__ == "__main__":
    main()
