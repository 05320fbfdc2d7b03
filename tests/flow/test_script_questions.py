"""Scripts ask people: in commands, in events, in tools."""
import json

from harness import PATIENCE, FlowTest, UnixConnection, main, wait_for
from test_scripts import Scripted
from test_turns import calls, of, says

ASKS = """
local function command(name, handler)
  kage.register_command{ name = name, description = "", handler = handler }
end
command("pick", function()
  local color = kage.ui.select("Color?", { { label = "red", value = 1 }, "green", { label = "green", value = { 3 } } })
  return kage.json.encode({ color = color })
end)
command("delete", function() return kage.ui.confirm("Delete", "really?") and "deleting" or "kept" end)
command("name", function() return "hello " .. (kage.ui.input("Name?", "Ada") or "nobody") end)
command("note", function()
  local text = kage.ui.editor("Note?", "draft")
  return text and "saved " .. #text .. " chars" or "discarded"
end)
command("two", function() return (kage.ui.input("First?") or "-") .. (kage.ui.input("Second?") or "-") end)
command("ui", function() return tostring(kage.has_ui()) end)
command("wrapped", function()
  local ok, words = pcall(coroutine.wrap(function() return kage.ui.input("x") end))
  return words
end)
command("yields", function() coroutine.yield(1) end)
command("raises", function() kage.ui.input("x") error("after") end)
"""


class Asking(Scripted):
    def lines(self, command, answer):
        """Runs it; each question is answered by what answer, which gets it, returns, or not if that is None."""
        connection = UnixConnection(self.daemon.socket, PATIENCE * 3)
        connection.request("POST", f"/api/v1/sessions/{self.session}/commands/{command}", "{}")
        lines = []
        with connection.getresponse() as response:
            for line in response:
                lines.append(json.loads(line))
                if lines[-1]["type"] == "question":
                    self.answer(lines[-1]["question"], answer(lines[-1]["question"]))
        connection.close()
        return lines

    def answer(self, question, answer):
        if answer is not None:
            status, told = self.daemon.api("POST", f"/sessions/{self.session}/questions/{question['id']}", answer)
            assert status == 200, told

    def said(self, command, answer):
        return self.lines(command, lambda question: answer)[-1]["text"]


def accept(**content):
    return {"action": "accept", "content": content}


class Commands(FlowTest):
    def test_dialogs_ask_and_take_the_answer_or_its_absence(self):
        with Asking({"a": ASKS}) as shop:
            shown = []
            lines = shop.lines("pick", lambda question: shown.append(question) or accept(choice="green (2)"))
            self.assertEqual(lines[-1]["text"], '{"color":[3]}')
            self.assertEqual((shown[0]["title"], shown[0]["schema"]["properties"]["choice"]["enum"]),
                             ("Color?", ["red", "green", "green (2)"]))
            self.assertEqual(shop.said("pick", accept(choice="red")), '{"color":1}')
            self.assertEqual(shop.said("pick", {"action": "cancel"}), "{}")
            self.assertEqual(shop.said("delete", accept()), "deleting")
            self.assertEqual(shop.said("delete", {"action": "decline"}), "kept")
            self.assertEqual(shop.said("name", accept(text="Ada")), "hello Ada")
            self.assertEqual(shop.said("name", accept(text="")), "hello ")
            self.assertEqual(shop.said("name", {"action": "cancel"}), "hello nobody")
            self.assertEqual(shop.said("note", accept(text="thirteen char")), "saved 13 chars")
            self.assertEqual(shop.said("note", {"action": "cancel"}), "discarded")

    def test_a_second_command_is_busy_while_one_waits_and_the_place_is_free_after_an_error(self):
        with Asking({"a": ASKS}) as shop:
            busy = []

            def answer(question):
                busy.append(shop.command("name")[-1])
                return accept(text="x")
            self.assertEqual(shop.lines("name", answer)[-1]["text"], "hello x")
            self.assertTrue(busy[0]["is_error"])
            self.assertIn("busy", busy[0]["text"])
            self.assertIn("after", shop.said("raises", accept(text="x")))
            self.assertEqual(shop.said("name", accept(text="y")), "hello y")

    def test_nobody_answers_and_the_command_goes_on(self):
        with Asking({"a": ASKS}, config={"limits.question_ms": 1000}) as shop:
            self.assertEqual(shop.said("delete", None), "kept")
            wait_for(lambda: "nobody answered in time" in shop.daemon.log(), "the log to say so")

    def test_a_question_is_asked_from_a_handler_alone(self):
        with Asking({"a": ASKS, "b": "kage.ui.confirm('a', 'b')"}) as shop:
            self.assertEqual(shop.text("ui"), "true")
            self.assertIn("nobody to ask", shop.text("wrapped"))
            self.assertIn("yielded", shop.command("yields")[-1]["text"])
            self.assertIn("nobody to ask", shop.daemon.log())

    def test_answers_are_given_beforehand_on_the_command_line(self):
        with Asking({"a": ASKS}) as shop:
            run = shop.daemon.cli
            self.assertEqual(run("session", "command", shop.session, "delete", "--yes")[1], "deleting\n")
            self.assertEqual(run("session", "command", shop.session, "delete", "--answer", "no")[1], "kept\n")
            self.assertEqual(run("session", "command", shop.session, "two", "--answer", "a", "--answer", "b")[1], "ab\n")
            self.assertEqual(run("session", "send", shop.session, "--answer", "red", "/pick")[1], '{"color":1}\n')

    def test_a_session_that_is_closed_ends_the_question(self):
        with Asking({"a": ASKS}) as shop:
            def close(question):
                shop.daemon.api("DELETE", f"/sessions/{shop.session}")
                return None
            self.assertEqual(shop.lines("delete", close)[-1]["type"], "result")


class Turns(FlowTest):
    def test_a_call_of_a_tool_is_made_after_a_yes_and_not_after_a_no(self):
        watches = """
        kage.on("tool_call", function(call)
          if not kage.ui.confirm("Call " .. call.name, "?") then return { block = "the user said no" } end
        end)
        """
        for action, error in (("accept", False), ("decline", True)):
            answers = calls({"acts": {"result": "made"}}), says("done")
            with self.subTest(action), Asking({"a": watches}, *answers) as shop:
                lines = []
                with shop.running("go") as response:
                    for line in response:
                        lines.append(json.loads(line))
                        if lines[-1]["type"] == "question":
                            shop.answer(lines[-1]["question"], {"action": action, "content": {}})
                result, = of(lines, "tool_result")
                self.assertEqual(result["is_error"], error)
                self.assertEqual(of(lines, "end")[0]["stop"], "stop")


if __name__ == "__main__":
    main()
