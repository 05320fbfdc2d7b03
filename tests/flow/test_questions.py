"""Questions of plugins, in every tier: who is asked, who may answer, and what becomes of them; and
words of the session's model, for those that may have them."""
# also on PostgreSQL
import json
import socket
import threading

from harness import PATIENCE, Daemon, FlowTest, UnixConnection, main, wait_for
from models import Provider
from test_events import Reader
from test_turns import KEY, calls, says

PROJECT = """version: 1
name: shop
primary:
  model: m0
  prompt: You sell fruit.
  plugins:
    asks: { package: asks }
"""
ACCEPT = {"action": "accept", "content": {"color": "red"}}


class Later:
    """A call of a tool that somebody else has to answer for."""

    def __init__(self, world, tool, session=None):
        self.answer = None
        path = f"/sessions/{session or world.session}/tools/{world.plugin}.{tool}"
        self.thread = threading.Thread(
            target=lambda: setattr(self, "answer", world.daemon.api("POST", path, {})), daemon=True)
        self.thread.start()

    def result(self):
        self.thread.join(PATIENCE)
        assert self.answer is not None and self.answer[0] == 200, self.answer
        return self.answer[1]["result"]


class World:
    plugin = "asks"

    def __init__(self, plugin="asks", era=None, config=None, providers=(), grant=()):
        self.plugin, self.grant = plugin, grant
        self.daemon = Daemon([plugin], config)
        if era is not None:
            path = f"{self.daemon.home}/plugins/{plugin}/kaged-plugin.yaml"
            with open(path) as file:
                text = file.read().replace("ERA: legacy", f"ERA: {era}")
            with open(path, "w") as file:
                file.write(text.replace("capabilities: []", f"capabilities: {json.dumps(list(grant))}"))
        self.root = self.daemon.write_project("shop", PROJECT.replace("asks", plugin))
        self.daemon.write_local("".join(
            f'[providers.p{i}]\nkind = "openai"\nbase_url = "{url}"\napi_key = "{KEY}"\nretries = 0\n'
            f'[models.m{i}]\nprovider = "p{i}"\nmodel = "gpt"\n' for i, url in enumerate(providers)))

    def __enter__(self):
        self.daemon.__enter__()
        if self.plugin != "asks":
            digest = wait_for(lambda: self.daemon.api("GET", f"/plugins/{self.plugin}/tools")[1]["waits"],
                              "tools that wait for a yes")
            self.daemon.api("POST", f"/plugins/{self.plugin}/tools", {"approve": digest})
            self.daemon.wait_state(self.plugin, "running")
        status, answer = self.daemon.api("POST", "/projects", {"path": self.root})
        assert status in (200, 201), answer
        self.session = self.new_session()
        return self

    def __exit__(self, *exception):
        self.daemon.__exit__(*exception)

    def new_session(self):
        status, answer = self.daemon.api("POST", "/projects/shop/sessions", {})
        assert status == 201, answer
        return answer["id"]

    def questions(self, query=""):
        status, answer = self.daemon.api("GET", f"/sessions/{self.session}/questions{query}")
        assert status == 200, answer
        return answer["questions"]

    def questions_of(self, session):
        return self.daemon.api("GET", f"/sessions/{session}/questions")[1]["questions"]

    def logged(self, word):
        wait_for(lambda: word in self.daemon.cli("plugin", "logs", "asks")[1], word)

    def open(self, count=1):
        return wait_for(lambda: (lambda all: len(all) == count and all)(self.questions()),
                        f"{count} questions")

    def answer(self, question, answer):
        return self.daemon.api("POST", f"/sessions/{self.session}/questions/{question['id']}", answer)


class QuestionsTest(FlowTest):
    def test_whoever_is_attached_answers_and_the_answer_has_to_fit(self):
        with World() as world:
            reader = Reader(world.daemon, "?type=question")
            later = Later(world, "color")
            question, = world.open()
            self.assertEqual((question["plugin"], question["kind"], question["title"]),
                             ("asks", "form", "Which color?"))
            self.assertEqual(question["schema"]["required"], ["color"])
            for wrong in ({"action": "accept"}, {"action": "accept", "content": {"color": "green"}},
                          {"action": "accept", "content": {"color": "red", "more": 1}}):
                status, answer = world.answer(question, wrong)
                self.assertEqual(status, 422, answer)
            status, answer = world.answer(question, ACCEPT)
            self.assertEqual((status, answer), (200, {"id": question["id"], "state": "accept"}))
            self.assertEqual(later.result(), ACCEPT)
            self.assertEqual(world.answer(question, ACCEPT)[0], 404)
            self.assertEqual(world.questions(), [])
            kept, = world.questions("?all=true")
            self.assertEqual(kept["state"], "accept")
            self.assertIsNotNone(kept["answered_by"])
            self.assertEqual([reader.until(type="question")[1]["state"] for _ in range(2)],
                             ["open", "accept"])
            world.daemon.wait_audit("plugin.asked", "asks")
            world.daemon.wait_audit("plugin.answered", "asks")

    def test_a_question_that_nobody_answers_is_cancelled(self):
        with World(config={"limits.question_ms": 1000}) as world:
            self.assertEqual(Later(world, "color").result(), {"action": "cancel"})
            self.assertIn("nobody answered in time", world.daemon.log())
            self.assertEqual(world.questions("?all=true")[0]["state"], "cancel")

    def test_the_deadline_of_a_call_stands_still_while_it_is_asked(self):
        with World(config={"limits.call_timeout_ms": 10_000}) as world:
            later = Later(world, "page")
            question, = world.open()
            self.assertEqual(question["url"], "https://example.org/sign-in")
            threading.Event().wait(11)  # longer than the call has
            self.assertEqual(world.answer(question, {"action": "accept"})[0], 200)
            self.assertEqual(later.result(), {"action": "accept"})

    def test_a_caller_without_a_session_is_not_asked(self):
        with World() as world:
            self.assertEqual(world.daemon.call("asks", "asks.color", {}), {"action": "cancel"})

    def test_what_cannot_be_asked_is_an_error(self):
        with World() as world:
            answers = Later(world, "odd").result()
            self.assertEqual([answer["code"] for answer in answers], [-32602] * 5, answers)
            self.assertIn("https://", answers[2]["message"])

    def test_several_questions_wait_side_by_side(self):
        with World() as world:
            later = Later(world, "twice")
            first, second = world.open(2)
            self.assertEqual(world.answer(second, {"action": "decline"})[0], 200)
            self.assertEqual(world.answer(first, {"action": "accept", "content": {"a": 1}})[0], 200)
            self.assertEqual(sorted(answer["action"] for answer in later.result()),
                             ["accept", "decline"])

    def test_calls_of_a_plugin_that_asks_go_one_conversation_at_a_time(self):
        with World() as world:
            first = Later(world, "color")
            question, = world.open()
            other = world.new_session()
            second, same = Later(world, "color", other), Later(world, "color")
            world.open(2)  # of its own conversation another call goes at once
            self.assertEqual(world.questions_of(other), [])
            for question in world.questions():
                self.assertEqual(world.answer(question, ACCEPT)[0], 200)
            self.assertEqual((first.result(), same.result()), (ACCEPT, ACCEPT))
            asked = wait_for(lambda: world.questions_of(other), "the question of the other session")
            self.assertEqual(world.questions(), [])
            status, _ = world.daemon.api(
                "POST", f"/sessions/{other}/questions/{asked[0]['id']}", {"action": "decline"})
            self.assertEqual(status, 200)
            self.assertEqual(second.result(), {"action": "decline"})

    def test_a_call_that_waits_for_its_turn_ends_by_its_own_deadline(self):
        with World(config={"limits.call_timeout_ms": 10000}) as world:
            first = Later(world, "page")
            question, = world.open()
            path = f"/sessions/{world.new_session()}/tools/asks.color"
            status, answer = world.daemon.api("POST", path, {})
            self.assertIn("it worked for another conversation", json.dumps(answer))
            self.assertEqual(world.answer(question, {"action": "accept"})[0], 200)
            self.assertEqual(first.result(), {"action": "accept"})

    def test_who_waits_has_its_turn_after_a_restart_of_the_plugin(self):
        with World() as world:
            waiting = Later(world, "wait")
            world.logged("waits")
            other = world.new_session()
            second = Later(world, "color", other)
            world.daemon.api("POST", "/plugins/asks/restart")
            waiting.thread.join(PATIENCE)
            asked = wait_for(lambda: world.questions_of(other) or second.answer, "its turn")
            if second.answer is None:  # else it came when the plugin was gone already
                world.daemon.api("POST", f"/sessions/{other}/questions/{asked[0]['id']}",
                                 {"action": "decline"})
                self.assertEqual(second.result(), {"action": "decline"})

    def test_commands_list_and_answer(self):
        with World() as world:
            later = Later(world, "color")
            question, = world.open()
            cli = world.daemon.cli
            code, out, err = cli("session", "questions", world.session)
            self.assertEqual(code, 0, err)
            self.assertIn("Which color?", out)
            code, out, err = cli("session", "answer", world.session, question["id"], '{"color": 1}')
            self.assertEqual(code, 6, err)
            code, out, err = cli("session", "answer", world.session, question["id"], '{"color": "blue"}')
            self.assertEqual(code, 0, err)
            self.assertEqual(later.result()["content"], {"color": "blue"})

    def test_a_run_tells_of_questions_and_progress_as_lines(self):
        with Provider(calls({}, name="asks__color"), says("Done.")) as provider, \
                World(providers=[provider.url]) as world:
            connection = UnixConnection(world.daemon.socket, PATIENCE)
            connection.request("POST", f"/api/v1/sessions/{world.session}/runs", '{"text": "go"}')
            told = []
            for line in connection.getresponse():
                told.append(json.loads(line))
                if told[-1]["type"] == "question":
                    self.assertEqual(world.answer(told[-1]["question"], ACCEPT)[0], 200)
            result, = [line for line in told if line["type"] == "tool_result"]
            self.assertEqual(result["result"], ACCEPT)
            self.assertEqual(told[-1]["stop"], "stop")

    def check_server(self, era):
        with World("mcp-rich", era, grant=["kaged:ask"]) as world:
            later = Later(world, "ask")
            question, = world.open()
            self.assertEqual(world.answer(question, {"action": "accept", "content": {"color": 3}})[0], 422)
            self.assertEqual(world.answer(question, ACCEPT)[0], 200)
            self.assertEqual(json.loads(later.result()["content"][0]["text"]), ACCEPT)

    def test_a_legacy_server_asks_by_elicitation(self):
        self.check_server("legacy")

    def test_a_modern_server_asks_in_its_answer(self):
        self.check_server("modern")

    def test_a_server_that_may_not_ask_is_not_offered_it(self):
        with World("mcp-rich", "legacy") as world:
            answer = json.loads(Later(world, "ask").result()["content"][0]["text"])
            self.assertEqual(answer["code"], -32601)
        with World("mcp-rich", "modern") as world:
            self.assertEqual(json.loads(Later(world, "ask").result()["content"][0]["text"]),
                             {"action": "cancel"})
            self.assertIn("not offered", Later(world, "sample").result())

    def test_a_call_that_ends_takes_its_question_with_it(self):
        with World() as world:
            connection = UnixConnection(world.daemon.socket, PATIENCE)
            connection.request("POST", f"/api/v1/sessions/{world.session}/tools/asks.color", "{}")
            world.open()
            connection.close()
            wait_for(lambda: world.questions() == [], "no questions")
            self.assertEqual(world.questions("?all=true")[0]["state"], "cancel")

    def test_who_leaves_is_told_to_a_plugin_of_our_own_protocol(self):
        with World() as world:
            connection = UnixConnection(world.daemon.socket, PATIENCE)
            connection.request("POST", f"/api/v1/sessions/{world.session}/tools/asks.wait", "{}")
            world.logged("waits")
            connection.sock.shutdown(socket.SHUT_RDWR)
            connection.close()
            world.logged("cancelled")
            wait_for(lambda: world.daemon.status("asks")["in_flight"] == 0, "its answer")


class SamplesTest(FlowTest):
    def test_a_plugin_that_may_asks_the_model_of_the_session(self):
        with Provider(says("A", "pple.")) as provider, World(providers=[provider.url]) as world:
            self.assertEqual(Later(world, "sample").result(), {
                "role": "assistant", "content": {"type": "text", "text": "Apple."}, "model": "m0",
                "stopReason": "endTurn"})
            asked = provider.requests[0][1]
            self.assertEqual(asked["messages"][0], {"role": "system", "content": "Be brief."})
            self.assertEqual(len(asked["messages"]), 2)  # nothing of the session
            purposes = [event.get("purpose") for event in world.daemon.audit("model.asked")]
            self.assertEqual(purposes, ["sample"])

    def test_tokens_and_number_are_bounded(self):
        config = {"limits.sample_tokens": 10, "limits.samples_per_call": 0}
        with World(config=config, providers=["http://127.0.0.1:9/v1"]) as world:
            answer = Later(world, "sample").result()
            self.assertIn("at most 0 times", answer["message"])

    def check_server(self, era):
        with Provider(says("Pear.")) as provider, \
                World("mcp-rich", era, providers=[provider.url], grant=["kaged:sample"]) as world:
            answer = json.loads(Later(world, "sample").result()["content"][0]["text"])
            self.assertEqual(answer["content"]["text"], "Pear.")

    def test_a_legacy_server_samples(self):
        self.check_server("legacy")

    def test_a_modern_server_samples(self):
        self.check_server("modern")


if __name__ == "__main__":
    main()
