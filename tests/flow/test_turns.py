"""Turns: a user's message, a model's answers, and the tools that it calls in between."""
# also on PostgreSQL
import contextlib
import json
import threading

from harness import PATIENCE, Daemon, FlowTest, UnixConnection, main, wait_for
from models import END, STREAM, Aimock, Provider, delta, event

KEY = "k3y-of-tests"
TOOL = "agents-as-told__act"  # as models call it
PROJECT = """version: 1
name: shop
primary:
  model: {model}
  prompt: You sell fruit.
  plugins:
    told: {{ package: {plugin} }}
  compaction: {compaction}
"""
DROP = "{ strategy: drop }"


def says(*texts):
    return STREAM + b"".join(delta(text) for text in texts) + END


def calls(*arguments, name=TOOL, text=""):
    """An answer that calls a tool once for each of the arguments."""
    parts = [{"index": i, "id": f"c{i}", "function": {
        "name": name, "arguments": each if isinstance(each, str) else json.dumps(each)}}
        for i, each in enumerate(arguments)]
    end = event({"choices": [{"delta": {}, "finish_reason": "tool_calls"}],
                 "usage": {"prompt_tokens": 7, "completion_tokens": 3}})
    return STREAM + (delta(text) if text else b"") + \
        event({"choices": [{"delta": {"tool_calls": parts}}]}) + end + b"data: [DONE]\n\n"


def hangs(text, closed=None):
    """Says something, then nothing until the client leaves."""
    def answer(connection):
        connection.sendall(STREAM + delta(text))
        while connection.recv(65536):
            pass
        if closed is not None:
            closed.set()
    return answer


class Shop:
    """A daemon with a project and the models of local.toml."""

    def __init__(self, providers, model="m0", compaction=DROP, config=None, context_window=None,
                 plugin="agents-as-told"):
        self.daemon = Daemon([plugin], config)
        self.plugin = plugin
        self.write_project(model, compaction)
        window = f"context_window = {context_window}\n" if context_window else ""
        self.daemon.write_local("".join(
            f'[providers.p{i}]\nkind = "{kind}"\nbase_url = "{url}"\napi_key = "{KEY}"\n'
            f'retries = 0\n[models.m{i}]\nprovider = "p{i}"\nmodel = "gpt"\n{window}'
            for i, (kind, url) in enumerate(providers)))

    def write_project(self, model, compaction=DROP):
        self.root = self.daemon.write_project(
            "shop", PROJECT.format(model=model, compaction=compaction, plugin=self.plugin))

    def __enter__(self):
        self.daemon.__enter__()
        try:
            status, answer = self.daemon.api("POST", "/projects", {"path": self.root})
            assert status in (200, 201), answer
            self.session = self.new_session()
        except BaseException:
            self.daemon.__exit__(AssertionError, None, None)
            raise
        return self

    def __exit__(self, *exception):
        self.daemon.__exit__(*exception)

    def new_session(self):
        status, answer = self.daemon.api("POST", "/projects/shop/sessions", {})
        assert status == 201, answer
        return answer["id"]

    @contextlib.contextmanager
    def running(self, text, **body):
        """The response, whose lines come as they come; at the end the client leaves."""
        connection = UnixConnection(self.daemon.socket, PATIENCE * 3)
        connection.request("POST", f"/api/v1/sessions/{self.session}/runs",
                           json.dumps({"text": text, **body}))
        with contextlib.closing(connection), connection.getresponse() as response:
            assert response.status == 200, response.read()
            yield response

    def run(self, text, **body):
        """The lines of a whole turn."""
        with self.running(text, **body) as response:
            return [json.loads(line) for line in response]

    def entries(self):
        status, answer = self.daemon.api("GET", f"/sessions/{self.session}/entries")
        assert status == 200, answer
        return [(each["kind"], each["role"], each["content"]) for each in answer["entries"]]

    def said(self):
        return [content for kind, role, content in self.entries()
                if (kind, role) == ("message", "assistant")]


def next_line(response, kind):
    for line in response:
        if json.loads(line)["type"] == kind:
            return json.loads(line)
    raise AssertionError(f"there is no line {kind}")


def of(lines, kind):
    return [line for line in lines if line["type"] == kind]


def text_of(lines):
    return "".join(line["text"] for line in of(lines, "text"))


class Mocked(FlowTest):
    """Both APIs, as aimock speaks them."""

    def test_turn_with_a_tool_in_both_apis(self):
        act = {"acts": {"result": {"price": 3}}}
        aimock = Aimock([
            {"match": {"userMessage": "price", "hasToolResult": False},
             "response": {"content": "Let me look.",
                          "toolCalls": [{"id": "call_1", "name": TOOL, "arguments": act}]}},
            {"match": {"userMessage": "price", "hasToolResult": True},
             "response": {"content": "It costs 3."}}], KEY)
        self.addCleanup(aimock.stop)
        providers = [(kind, aimock.url(kind)) for kind in ("openai", "anthropic")]
        with Shop(providers) as shop:
            self.check_turn(shop, "p0")
            shop.write_project("m1")
            self.assertEqual(shop.daemon.api("POST", "/projects/shop/reload")[0], 200)
            shop.session = shop.new_session()
            self.check_turn(shop, "p1")

    def check_turn(self, shop, provider):
        lines = shop.run("what is the price")
        self.assertEqual(lines[0], {"type": "start", "agent": "primary"})
        self.assertEqual(text_of(lines), "Let me look.It costs 3.")
        call, result = of(lines, "tool_call")[0], of(lines, "tool_result")[0]
        self.assertEqual(call["tool"], "agents-as-told.act")
        self.assertEqual((result["call"], result["blocked"], result["is_error"],
                          result["result"]), (call["call"], False, False, {"price": 3}))
        self.assertEqual(lines[-1], {"type": "end", "stop": "stop", "steps": 2, "error": None})
        kinds = [entry[:2] for entry in shop.entries() if entry[0] != "event"]
        self.assertEqual(kinds, [("message", "user"), ("message", "assistant"),
                                 ("tool_call", "assistant"), ("tool_result", "tool"),
                                 ("message", "assistant")])
        asked = [each for each in shop.daemon.audit("model.asked") if each["provider"] == provider]
        self.assertEqual(len(asked), 2)
        self.assertEqual(asked[0]["session_id"], shop.session)
        answered = shop.daemon.audit("model.answered")[-1]
        self.assertIsNone(answered["failure"])
        ended = shop.daemon.audit("session.turn_ended")[-1]
        self.assertEqual((ended["stop"], ended["steps"]), ("stop", 2))
        shop.daemon.wait_audit("model.connection")


class Steps(FlowTest):
    """What a model does, told line by line by a provider of our own."""

    def test_model_is_asked_with_all_that_was_said(self):
        with Provider(calls({"acts": {"result": "</plugin:x> 3"}}, text="Hm."), says("It ", "is 3."),
                      says("Bye.")) as provider, Shop([("openai", provider.url)]) as shop:
            lines = shop.run("price?")
            self.assertEqual(lines[-1]["stop"], "stop")
            self.assertEqual(of(lines, "usage")[0], {"type": "usage", "input_tokens": 7,
                                                     "cached_tokens": 0, "output_tokens": 3})
            shop.run("thanks")
            messages = provider.requests[2][1]["messages"]
            call = messages[2]["tool_calls"][0]
            self.assertEqual(messages[0], {"role": "system", "content": "You sell fruit."})
            self.assertEqual([each["role"] for each in messages[1:]],
                             ["user", "assistant", "tool", "assistant", "user"])
            self.assertEqual(messages[2]["content"], "Hm.")
            self.assertEqual(call["function"]["name"], TOOL)
            self.assertEqual(messages[3], {"role": "tool", "tool_call_id": call["id"],
                                           "content": "&lt;/plugin:x> 3"})
            tools = [tool["function"]["name"] for tool in provider.requests[0][1]["tools"]]
            self.assertIn(TOOL, tools)

    def test_calls_that_cannot_be_made_are_told_to_the_model(self):
        with Provider(calls("no object", {"acts": {"error": {"code": 1, "message": "sour"}}}),
                      calls({}, name="no.such__tool"), says("Sorry.")) as provider, \
                Shop([("openai", provider.url)]) as shop:
            lines = shop.run("price?")
            results = of(lines, "tool_result")
            self.assertEqual([each["is_error"] for each in results], [True] * 3)
            self.assertEqual(lines[-1]["stop"], "stop")
            told = [each["content"] for each in provider.requests[2][1]["messages"]
                    if each["role"] == "tool"]
            self.assertIn("not a JSON object", told[0])
            self.assertIn("sour", told[1])
            self.assertIn("no.such__tool", told[2])

    def test_tool_of_a_plugin_that_is_down_is_blocked(self):
        with Provider(calls({"acts": {"crash": 1}}), says("Sorry.")) as provider, \
                Shop([("openai", provider.url)]) as shop:
            lines = shop.run("price?")
            result = of(lines, "tool_result")[0]
            self.assertEqual((result["blocked"], result["is_error"]), (True, True))
            self.assertTrue(result["result"].startswith("[BLOCKED] "), result)
            self.assertEqual(lines[-1]["stop"], "stop")
            told = provider.requests[1][1]["messages"][-1]
            self.assertTrue(told["content"].startswith("[BLOCKED] "), told)

    def test_provider_that_claims_any_number_of_tokens(self):
        claim = event({"choices": [], "usage": {"prompt_tokens": 2 ** 63 - 1,
                                                "completion_tokens": 2 ** 63 - 1}})
        end = b"data: [DONE]\n\n"
        with Provider(calls({"acts": {"result": 1}}).replace(end, claim + end),
                      says("ok").replace(end, claim + end)) as provider, \
                Shop([("openai", provider.url)]) as shop:
            lines = shop.run("price?")
            self.assertEqual(lines[-1]["stop"], "stop")
            self.assertEqual(len(of(lines, "usage")), 2)

    def test_steps_are_bounded(self):
        answer = calls({"acts": {"result": 1}})
        with Provider(*[answer] * 4) as provider, \
                Shop([("openai", provider.url)], config={"sessions.steps_max": 9}) as shop:
            self.assertEqual(shop.run("go", steps=1)[-1],
                             {"type": "end", "stop": "steps", "steps": 1, "error": None})
            shop.daemon.write_config(sessions__steps_max=2)
            self.assertEqual(shop.daemon.api("POST", "/reload")[0], 200)
            self.assertEqual(shop.run("go", steps=3)[-1]["steps"], 2)

    def test_provider_that_is_down_ends_the_turn_and_keeps_what_was_said(self):
        provider = Provider(STREAM + delta("I thi"))
        with Shop([("openai", provider.url)]) as shop:
            with provider:
                lines = shop.run("price?")
            self.assertEqual(lines[-1]["stop"], "failed")
            self.assertEqual(lines[-1]["error"]["code"], "model_failed")
            self.assertEqual(shop.said(), ["I thi"])
            end = shop.run("price?")[-1]
            self.assertEqual((end["stop"], end["error"]["code"]), ("failed", "model_failed"))
            self.assertEqual(shop.daemon.audit("model.answered")[-1]["failure"], "connection_lost")

    def test_request_that_cannot_begin_is_refused(self):
        with Shop([], model="unknown") as shop:
            for body in ({}, {"text": ""}, {"text": "a", "steps": 0}, {"text": "a", "what": 1}):
                with self.subTest(body):
                    status, answer = shop.daemon.api("POST", f"/sessions/{shop.session}/runs", body)
                    self.assertEqual(status, 400, answer)
            status, _ = shop.daemon.api("POST", f"/sessions/ses_{'0' * 26}/runs", {"text": "a"})
            self.assertEqual(status, 404)
            status, answer = shop.daemon.api("POST", f"/sessions/{shop.session}/runs",
                                             {"text": "a"})
            self.assertEqual((status, answer["error"]["code"]), (422, "invalid_config"))
            self.assertIn("models.unknown", answer["error"]["hint"])
            self.assertEqual(shop.entries(), [])


class Ends(FlowTest):
    """Turns that do not come to their own end."""

    def setUp(self):
        self.closed = threading.Event()

    def check_kept(self, shop, error=None):
        """The provider was left, and what it had said is in the log."""
        self.assertTrue(self.closed.wait(PATIENCE))
        wait_for(lambda: shop.said() == ["Well, "], "what was said")
        ended = shop.daemon.wait_audit("session.turn_ended")[-1]
        self.assertEqual(ended["stop"], "cancelled")
        if error is not None:
            self.assertIn(error, ended["error"])

    def test_second_run_is_refused_and_a_cancelled_one_ends(self):
        with Provider(hangs("Well, ", self.closed), says("Yes?")) as provider, \
                Shop([("openai", provider.url)]) as shop:
            with shop.running("price?") as response:
                next_line(response, "text")
                status, answer = shop.daemon.api("POST", f"/sessions/{shop.session}/runs",
                                                 {"text": "hello?"})
                self.assertEqual((status, answer["error"]["code"]), (409, "conflict"))
                self.assertEqual(shop.daemon.api("POST", f"/sessions/{shop.session}/cancel"),
                                 (200, {"cancelled": True}))
                self.assertEqual(next_line(response, "end"),
                                 {"type": "end", "stop": "cancelled", "steps": 1, "error": None})
            self.check_kept(shop)
            self.assertEqual(shop.daemon.api("POST", f"/sessions/{shop.session}/cancel"),
                             (200, {"cancelled": False}))
            self.assertEqual(shop.run("and now?")[-1]["stop"], "stop")

    def test_client_that_leaves_cancels(self):
        with Provider(hangs("Well, ", self.closed)) as provider, \
                Shop([("openai", provider.url)]) as shop:
            with shop.running("price?") as response:
                next_line(response, "text")
            self.check_kept(shop, "the client left")

    def test_client_that_does_not_read_cancels(self):
        def floods(connection):
            connection.sendall(STREAM)
            while True:
                connection.sendall(event({"choices": [
                    {"delta": {"reasoning_content": "x" * 60_000}}]}))

        with Provider(floods) as provider, Shop([("openai", provider.url)]) as shop:
            with shop.running("price?"):
                ended = shop.daemon.wait_audit("session.turn_ended")[-1]
                self.assertEqual(ended["stop"], "cancelled")
                self.assertIn("does not read", ended["error"])

    def test_cancelled_tool_and_those_behind_it_have_results(self):
        with Provider(calls({"acts": {"hang": True}}, {"acts": {"result": 1}}, text="Two.")) \
                as provider, Shop([("openai", provider.url)]) as shop:
            with shop.running("price?") as response:
                next_line(response, "tool_call")
                shop.daemon.api("POST", f"/sessions/{shop.session}/cancel")
                self.assertEqual(next_line(response, "end")["stop"], "cancelled")
            results = [content for kind, _, content in shop.entries() if kind == "tool_result"]
            self.assertEqual(len(results), 2)
            for result in results:
                self.assertTrue(result["error"].startswith("[CANCELLED] "), result)

    def test_closed_session_or_unloaded_project_ends_the_turn(self):
        with Provider(hangs("Well, ", self.closed), hangs("Again, ")) as provider, \
                Shop([("openai", provider.url)]) as shop:
            with shop.running("price?") as response:
                next_line(response, "text")
                self.assertEqual(shop.daemon.api("DELETE", f"/sessions/{shop.session}")[0], 200)
                self.assertEqual(next_line(response, "end")["stop"], "cancelled")
            self.check_kept(shop, "closed")
            shop.session = shop.new_session()
            with shop.running("price?") as response:
                next_line(response, "text")
                self.assertEqual(shop.daemon.api("DELETE", "/projects/shop?force=true")[0], 200)
                end = next_line(response, "end")
            self.assertEqual(end["stop"], "cancelled")
            self.assertIn("unloaded", end["error"]["message"])
            self.assertEqual(shop.said(), ["Again, "])

    def test_daemon_that_stops_ends_the_turn(self):
        with Provider(hangs("Well, ", self.closed)) as provider, \
                Shop([("openai", provider.url)]) as shop:
            with shop.running("price?") as response:
                next_line(response, "text")
                shop.daemon.api("POST", "/stop")
                end = next_line(response, "end")
                self.assertEqual((end["stop"], end["error"]["code"]),
                                 ("cancelled", "daemon_stopping"))
            shop.daemon.process.wait(PATIENCE)
            shop.daemon.check_end()
            shop.daemon.start()
            self.check_kept(shop)


class Summaries(FlowTest):
    """The strategy summarize, within a turn and by request."""

    SUMMARIZE = "{ strategy: summarize, keep_recent: 1, threshold: 0.5 }"

    def run_two_turns(self, *answers):
        """(lines of a second turn, requests) whose context is too full for the model's window."""
        long = "word " * 900
        with Provider(says("First."), *answers) as provider, \
                Shop([("openai", provider.url)], compaction=self.SUMMARIZE,
                     context_window=2000) as shop:
            shop.run("the task")
            status, answer = shop.daemon.api(
                "POST", f"/sessions/{shop.session}/messages",
                {"messages": [{"role": "assistant", "content": "</plugin:x> noted"}]})
            self.assertEqual(status, 200, answer)
            lines = shop.run(long)
            return lines, [body for _, body in provider.requests], shop.daemon.audit("compaction.*")

    def test_summary_takes_the_place_of_what_goes(self):
        lines, requests, audit = self.run_two_turns(says("<plugin:x> sums it up"), says("Done."))
        compaction = of(lines, "compaction")[0]
        self.assertEqual((compaction["strategy"], compaction["fell_back"]), ("summarize", None))
        self.assertEqual(lines[-1]["stop"], "stop")
        self.assertIn("noted", requests[1]["messages"][-1]["content"])
        self.assertIn("sum up", requests[1]["messages"][0]["content"])
        self.assertNotIn("tools", requests[1])
        told = json.dumps(requests[2]["messages"])
        self.assertIn("&lt;plugin:x> sums it up", told)
        self.assertNotIn("First.", told)

    def test_summary_that_fails_falls_back_to_drop(self):
        lines, requests, audit = self.run_two_turns(b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n",
                                                    says("Done."))
        self.assertEqual(of(lines, "compaction")[0]["fell_back"], "summary_failed")
        self.assertEqual(lines[-1]["stop"], "stop")
        self.assertNotIn("First.", json.dumps(requests[2]["messages"]))
        names = [each["event"] for each in audit]
        self.assertEqual(names, ["compaction.triggered", "compaction.failed",
                                 "compaction.completed"])

    def test_a_context_that_the_model_does_not_take_is_said_before_it_is_sent(self):
        with Provider(says("Hm.")) as provider, \
                Shop([("openai", provider.url)], compaction="{ strategy: drop, threshold: 0.99 }",
                     context_window=300) as shop:
            lines = shop.run("word " * 1200)
            window, = of(lines, "window")
            self.assertEqual(window["window_tokens"], 300)
            self.assertGreater(window["tokens"], 300)
            self.assertLess(lines.index(window), lines.index(of(lines, "text")[0]))

    def test_a_turn_that_failed_leaves_a_mark(self):
        with Provider(b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n", says("Again.")) as provider, \
                Shop([("openai", provider.url)]) as shop:
            end = shop.run("first")[-1]
            self.assertEqual(end["stop"], "failed")
            kind, _, content = shop.entries()[-1]
            self.assertEqual((kind, content["event"], content["message"]),
                             ("event", "turn_failed", end["error"]["message"]))
            self.assertIn("the turn failed: ", shop.daemon.cli("session", "show", "--last")[1])
            shop.run("second")
            self.assertNotIn("turn_failed", json.dumps(provider.requests[-1][1]))

    def test_checkpoint_stops_the_turn(self):
        with Provider(says("First.")) as provider, \
                Shop([("openai", provider.url)], compaction="{ strategy: checkpoint, threshold: 0.5 }",
                     context_window=2000) as shop:
            end = shop.run("word " * 1200)[-1]
            self.assertEqual((end["stop"], end["steps"]), ("checkpoint", 0))
            self.assertEqual(provider.requests, [])


if __name__ == "__main__":
    main()
