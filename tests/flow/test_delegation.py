"""An agent's model hands work to its subagents: a turn inside of the turn, by a tool."""
import contextlib
import json
import threading

from harness import PATIENCE, Daemon, FlowTest, UnixConnection, main, wait_for
from models import Provider
from test_turns import KEY, calls, hangs, next_line, of, says, text_of

MAKER = "primary.subagents.maker"
HELPER = MAKER + ".subagents.helper"
HAND = "agent__maker"  # as models call it
ACT = "agents-as-told__act"

PROJECT = """version: 1
name: shop
{top}
primary:
  model: {models[0]}
  prompt: You sell fruit.
  {primary}
  subagents:
    maker:
      {model1}
      description: Makes baskets of fruit.
      prompt: You make baskets.
      plugins:
        told: {{ package: agents-as-told }}
      subagents:
        helper:
          {model2}
          prompt: "You help.\\nIn every way."
"""


def hand(task="a basket", name=HAND, **more):
    return calls({"task": task, **more}, name=name)


class Shop:
    """A project of three agents, one below the other, each with a provider of its own."""

    def __init__(self, *providers, top="", primary="", config=None, models=3):
        self.daemon = Daemon(["agents-as-told"], config)
        named = [f"model: m{i}" if i < models else "{}" for i in range(3)]
        self.top = top
        text = PROJECT.format(models=["m0", "m1", "m2"], top=top, primary=primary,
                              model1=named[1], model2=named[2]).replace("      {}\n", "")
        self.root = self.daemon.write_project("shop", text)
        self.daemon.write_local("".join(
            f'[providers.p{i}]\nkind = "openai"\nbase_url = "{provider.url}"\napi_key = "{KEY}"\n'
            f'retries = 0\n[models.m{i}]\nprovider = "p{i}"\nmodel = "gpt"\n'
            for i, provider in enumerate(providers)))

    def __enter__(self):
        self.daemon.__enter__()
        try:
            status, answer = self.daemon.api("POST", "/projects", {"path": self.root})
            assert status in (200, 201), answer
            status, answer = self.daemon.api("POST", "/projects/shop/sessions", {})
            assert status == 201, answer
            self.session = answer["id"]
        except BaseException:
            self.daemon.__exit__(AssertionError, None, None)
            raise
        return self

    def __exit__(self, *exception):
        self.daemon.__exit__(*exception)

    @contextlib.contextmanager
    def running(self, text, **body):
        connection = UnixConnection(self.daemon.socket, PATIENCE * 3)
        connection.request("POST", f"/api/v1/sessions/{self.session}/runs",
                           json.dumps({"text": text, **body}))
        with contextlib.closing(connection), connection.getresponse() as response:
            assert response.status == 200, response.read()
            yield response

    def run(self, text="a basket, please", **body):
        with self.running(text, **body) as response:
            return [json.loads(line) for line in response]

    def entries(self):
        status, answer = self.daemon.api("GET", f"/sessions/{self.session}/entries")
        assert status == 200, answer
        return [each for each in answer["entries"] if each["kind"] != "event"]


def offered(provider, at=0):
    return [tool["function"]["name"] for tool in provider.requests[at][1].get("tools", [])]


def inner(lines, agent=MAKER):
    return [line["event"] for line in of(lines, "subagent") if line["agent"] == agent]


class Delegation(FlowTest):
    def test_task_is_done_by_the_subagent_and_its_answer_is_the_tools_result(self):
        with Provider(hand(), says("Here it is.")) as first, \
                Provider(calls({"acts": {"result": "woven"}}, name=ACT), says("A basket.")) as second, \
                Shop(first, second, second) as shop:
            lines = shop.run()
            self.assertEqual(lines[-1], {"type": "end", "stop": "stop", "steps": 2, "error": None})
            self.assertEqual(text_of(lines), "Here it is.")
            call, result = of(lines, "tool_call")[0], of(lines, "tool_result")[0]
            self.assertEqual((call["tool"], call["arguments"]),
                             ("agent.maker", {"task": "a basket"}))
            self.assertEqual((result["is_error"], result["result"]), (False, "A basket."))
            told = inner(lines)
            self.assertEqual([told[0]["type"], told[-1]["type"]], ["start", "end"])
            self.assertEqual(of(told, "tool_result")[0]["result"], "woven")
            self.assertEqual({line["call"] for line in of(lines, "subagent")}, {call["call"]})
            # The subagent has its own prompt, its own tools and nothing of the conversation.
            asked = second.requests[0][1]["messages"]
            self.assertEqual(asked, [{"role": "system", "content": "You make baskets."},
                                     {"role": "user", "content": "a basket"}])
            self.assertIn("agent__helper", offered(second))
            self.assertIn(ACT, offered(second))
            self.assertEqual(offered(first), [HAND])
            self.check_entries(shop, call["call"])
            self.check_audit(shop, call["call"])

    def check_entries(self, shop, call):
        kinds = [(each["agent"], each["kind"], each["role"]) for each in shop.entries()]
        self.assertEqual(kinds, [
            ("primary", "message", "user"), ("primary", "tool_call", "assistant"),
            (MAKER, "message", "user"), (MAKER, "tool_call", "assistant"),
            (MAKER, "tool_result", "tool"), (MAKER, "message", "assistant"),
            ("primary", "tool_result", "tool"), ("primary", "message", "assistant")])
        self.assertEqual(shop.entries()[2]["parent"], call)
        shown = shop.daemon.cli("session", "show", shop.session)[1]
        self.assertIn(f"  task #{shop.entries()[1]['seq']} for {MAKER}", shown)

    def check_audit(self, shop, call):
        started = shop.daemon.audit("session.turn_started")
        self.assertEqual([(each["agent_path"], each["call"]) for each in started],
                         [("primary", None), (MAKER, call)])
        chain = {each["request_id"] for name in ("session.turn_started", "session.turn_ended",
                                                 "model.asked", "plugin.method_called")
                 for each in shop.daemon.audit(name) if each.get("request_id")}
        self.assertEqual(len(chain), 1, chain)

    def test_subagent_remembers_what_it_was_asked_before(self):
        with Provider(hand("one"), hand("two"), says("Done.")) as first, \
                Provider(says("First."), says("Second.")) as second, \
                Shop(first, second, second) as shop:
            shop.run()
            self.assertEqual([each["content"] for each in second.requests[1][1]["messages"]],
                             ["You make baskets.", "one", "First.", "two"])
            # Nothing of the subagent's is in the context of the other.
            roles = [each["role"] for each in first.requests[2][1]["messages"]]
            self.assertEqual(roles, ["system", "user", "assistant", "tool", "assistant", "tool"])

    def test_subagents_of_subagents_and_how_deep_it_goes(self):
        with Provider(hand(), says("Done."), hand(), says("Done.")) as first, \
                Provider(hand("hold", name="agent__helper"), says("Held."),
                         hand("hold", name="agent__helper"), says("Alone.")) as second, \
                Provider(says("I hold.")) as third, Shop(first, second, third) as shop:
            lines = shop.run()
            self.assertEqual(of(inner(lines), "tool_result")[0]["result"], "I hold.")
            self.assertEqual(text_of(inner(lines, HELPER)), "I hold.")
            shop.daemon.write_config(sessions__delegate_depth=1)
            self.assertEqual(shop.daemon.api("POST", "/reload")[0], 200)
            lines = shop.run()
            self.assertIn(ACT, offered(second, 2))
            self.assertNotIn("agent__helper", offered(second, 2))
            result = of(inner(lines), "tool_result")[0]
            self.assertTrue(result["is_error"], result)
            self.assertEqual(of(lines, "tool_result")[0]["result"], "Alone.")

    def test_delegation_is_off_where_the_project_says_so(self):
        for top, primary in (("delegate: false", ""), ("", "delegate: false"),
                             ("", "tools: { agent.maker: false }")):
            with self.subTest(top=top, primary=primary), \
                    Provider(hand(), says("No.")) as first, \
                    Shop(first, first, first, top=top, primary=primary) as shop:
                lines = shop.run()
                self.assertEqual(offered(first), [])
                self.assertTrue(of(lines, "tool_result")[0]["is_error"])
                self.assertEqual(of(lines, "subagent"), [])
                _, agent = shop.daemon.api("GET", "/projects/shop/agents/primary")
                self.assertEqual([each["enabled"] for each in agent["handoffs"]],
                                 [False] if "tools" in primary else [])
                self.assertEqual(agent["delegate"], "tools" in primary)

    def test_agent_is_shown_with_what_it_can_hand_to_whom(self):
        with Provider() as none, Shop(none, none, none) as shop:
            _, agent = shop.daemon.api("GET", "/projects/shop/agents/primary")
            self.assertEqual(agent["handoffs"], [
                {"name": "agent.maker", "model_name": HAND, "agent": MAKER, "enabled": True,
                 "description": "Makes baskets of fruit."}])
            _, maker = shop.daemon.api("GET", f"/projects/shop/agents/{MAKER}")
            self.assertIn("begin: You help.", maker["handoffs"][0]["description"])
            self.assertNotIn("In every way", maker["handoffs"][0]["description"])
            _, context = shop.daemon.api("GET", f"/sessions/{shop.session}/context?tools=openai")
            self.assertEqual([each["function"]["name"] for each in context["tools"]], [HAND])
            self.assertIn("hands to    agent.maker",
                          shop.daemon.cli("project", "show", "shop")[1])


class Failures(FlowTest):
    """Whatever becomes of a subagent, its call has a result."""

    def result(self, lines):
        result = of(lines, "tool_result")[0]
        self.assertTrue(result["is_error"], result)
        self.assertEqual(lines[-1]["stop"], "stop")
        return result["result"]

    def test_agent_without_a_model(self):
        with Provider(hand(), says("Sorry.")) as first, Shop(first, models=1) as shop:
            self.assertIn(MAKER, self.result(shop.run()))

    def test_provider_that_is_down(self):
        with Provider(hand(), says("Sorry.")) as first, Provider() as second, \
                Shop(first, second, second) as shop:
            self.assertIn("it failed", self.result(shop.run()))

    def test_arguments_without_a_task(self):
        with Provider(calls({}, {"task": ""}, {"task": 3}, {"task": "x" * 300_000}, name=HAND),
                      says("Sorry.")) as first, Shop(first, first, first) as shop:
            lines = shop.run()
            results = [each["result"] for each in of(lines, "tool_result")]
            self.assertEqual(["task" in each for each in results], [True] * 4)
            self.assertEqual(of(lines, "subagent"), [])

    def test_subagent_that_calls_tools_for_ever(self):
        loop = calls({"acts": {"result": 1}}, name=ACT, text="Hm.")
        with Provider(hand(), says("Sorry.")) as first, Provider(*[loop] * 9) as second, \
                Shop(first, second, second, config={"sessions.delegate_steps": 3}) as shop:
            words = self.result(shop.run())
            self.assertIn("maximum of steps", words)
            self.assertIn("Hm.", words)
            self.assertEqual(len(second.requests), 3)

    def test_steps_of_subagents_are_those_of_the_turn(self):
        loop = calls({"acts": {"result": 1}}, name=ACT)
        with Provider(hand(), hand(), hand()) as first, Provider(*[loop] * 9) as second, \
                Shop(first, second, second) as shop:
            end = shop.run(steps=4)[-1]
            self.assertEqual((end["stop"], end["steps"]), ("steps", 1))
            self.assertEqual(len(first.requests) + len(second.requests), 4)

    def test_subagent_that_says_nothing(self):
        with Provider(hand(), says("Sorry.")) as first, Provider(says("")) as second, \
                Shop(first, second, second) as shop:
            self.assertIn("without an answer", self.result(shop.run()))

    def test_tool_of_a_subagent_whose_plugin_dies_is_blocked_for_it_alone(self):
        with Provider(hand(), says("Good.")) as first, \
                Provider(calls({"acts": {"crash": 1}}, name=ACT), says("It broke.")) as second, \
                Shop(first, second, second) as shop:
            lines = shop.run()
            self.assertTrue(of(inner(lines), "tool_result")[0]["blocked"])
            self.assertEqual(of(lines, "tool_result")[0]["result"], "It broke.")


class Cancelling(FlowTest):
    def setUp(self):
        self.closed = threading.Event()

    def check_ended(self, shop):
        self.assertTrue(self.closed.wait(PATIENCE))
        wait_for(lambda: len(shop.daemon.audit("session.turn_ended")) == 2, "both ends")
        ended = shop.daemon.audit("session.turn_ended")
        self.assertEqual([(each["agent_path"], each["stop"]) for each in ended],
                         [(MAKER, "cancelled"), ("primary", "cancelled")])
        entries = shop.entries()
        self.assertEqual((entries[-2]["agent"], entries[-2]["content"]), (MAKER, "Well, "))
        self.assertIn("[CANCELLED]", entries[-1]["content"]["error"])
        self.assertEqual(entries[-1]["parent"], entries[1]["id"])

    def test_operator_cancels_both(self):
        with Provider(hand(), says("Again.")) as first, \
                Provider(hangs("Well, ", self.closed)) as second, \
                Shop(first, second, second) as shop:
            with shop.running("price?") as response:
                next_line(response, "subagent")
                while next_line(response, "subagent")["event"]["type"] != "text":
                    pass
                self.assertEqual(shop.daemon.api("POST", f"/sessions/{shop.session}/cancel"),
                                 (200, {"cancelled": True}))
                self.assertEqual(next_line(response, "end")["stop"], "cancelled")
            self.check_ended(shop)
            self.assertEqual(shop.run("and now?")[-1]["stop"], "stop")

    def test_client_that_leaves_cancels_both(self):
        with Provider(hand()) as first, Provider(hangs("Well, ", self.closed)) as second, \
                Shop(first, second, second) as shop:
            with shop.running("price?") as response:
                while next_line(response, "subagent")["event"]["type"] != "text":
                    pass
            self.check_ended(shop)

    def test_daemon_that_stops_while_a_subagent_works(self):
        with Provider(hand()) as first, Provider(hangs("Well, ", self.closed)) as second:
            shop = Shop(first, second, second)
            with shop, shop.running("price?") as response:
                while next_line(response, "subagent")["event"]["type"] != "text":
                    pass
            self.assertTrue(self.closed.wait(PATIENCE))

    def test_undo_goes_back_to_what_the_user_said(self):
        with Provider(says("Hello."), hand(), says("Here.")) as first, \
                Provider(says("A basket.")) as second, Shop(first, second, second) as shop:
            shop.run("hello")
            shop.run("a basket, please")
            status, moved = shop.daemon.api("POST", f"/sessions/{shop.session}/undo", {})
            self.assertEqual(status, 200, moved)
            self.assertEqual([each["content"] for each in shop.entries()], ["hello", "Hello."])


if __name__ == "__main__":
    main()
