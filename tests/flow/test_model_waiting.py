"""Questions to a model that is asked as much as it may be: they wait for their turn, leave, are refused, or had
enough of it."""
import json
import threading

from harness import PATIENCE, FlowTest, main, wait_for
from models import END, STREAM, Provider, delta
from test_turns import DROP, KEY, PROJECT, Shop, says

LOCAL = """[providers.p0]
kind = "openai"
base_url = "{url}"
api_key = "{key}"
retries = 0
{bounds}
[models.m0]
provider = "p0"
model = "gpt"
"""


class Busy(Shop):
    """A shop, and a bank beside it, whose provider takes few questions at the same time. Each answer waits until it
    is let go."""

    def __init__(self, provider, answers, **bounds):
        super().__init__([("openai", provider.url)])
        self.provider, self.free = provider, [threading.Event() for _ in range(answers)]
        provider.answers.extend(self.answer(free) for free in self.free)
        self.daemon.write_local(LOCAL.format(url=provider.url, key=KEY, bounds="".join(
            f"{key} = {value}\n" for key, value in bounds.items())))
        self.bank = self.daemon.write_project("bank", PROJECT.format(
            model="m0", compaction=DROP, plugin=self.plugin).replace("name: shop", "name: bank"))
        self.threads, self.ends = [], {}

    def __enter__(self):
        super().__enter__()
        status, answer = self.daemon.api("POST", "/projects", {"path": self.bank})
        assert status in (200, 201), answer
        return self

    def __exit__(self, *exception):
        self.let_go(*range(len(self.free)))
        for thread in self.threads:
            thread.join(PATIENCE)
        super().__exit__(*exception)

    @staticmethod
    def answer(free):
        def answer(connection):
            free.wait(PATIENCE)
            connection.sendall(says("yes"))
        return answer

    def let_go(self, *numbers):
        for number in numbers:
            self.free[number].set()

    def figures(self):
        """(questions in flight, those that wait)"""
        return tuple(self.daemon.figure(f"kaged_model_calls_{name}") for name in ("in_flight", "waiting"))

    def begin(self, name, *wanted, project="shop"):
        """A turn in a session of its own, until the figures are those; the session."""
        status, made = self.daemon.api("POST", f"/projects/{project}/sessions", {})
        assert status == 201, made

        def work():
            _, lines = self.daemon.raw("POST", f"/api/v1/sessions/{made['id']}/runs", json.dumps({"text": name}),
                                       timeout=PATIENCE * 3)
            self.ends[name] = json.loads(lines.splitlines()[-1])
        self.threads.append(threading.Thread(target=work, daemon=True))
        self.threads[-1].start()
        wait_for(lambda: self.figures() == wanted, f"{wanted} of {name}")
        return made["id"]

    def end_of(self, name):
        wait_for(lambda: name in self.ends, f"the end of {name}")
        return self.ends[name]

    def asked(self):
        """Which questions came to the provider, in order."""
        return [body["messages"][-1]["content"] for _, body in self.provider.requests]


class Waiting(FlowTest):
    def test_more_than_may_be_asked_wait_and_are_asked_in_turn(self):
        with Provider() as provider, Busy(provider, 4, calls_max=1) as shop:
            for number, name in enumerate(("first", "second", "third", "fourth")):
                shop.begin(name, 1, number)
            wait_for(lambda: shop.asked() == ["first"], "the first question")
            shop.let_go(0, 1, 2, 3)
            for name in ("first", "second", "third", "fourth"):
                self.assertEqual(shop.end_of(name)["stop"], "stop")
            self.assertEqual(shop.asked(), ["first", "second", "third", "fourth"])
            self.assertEqual(shop.figures(), (0, 0))

    def test_a_project_does_not_wait_for_all_that_another_one_asked(self):
        with Provider() as provider, Busy(provider, 6, calls_max=2) as shop:
            for number, name in enumerate(("one", "two", "three", "four", "five")):
                shop.begin(name, min(number + 1, 2), max(number - 1, 0))
            shop.begin("of the bank", 2, 4, project="bank")
            shop.let_go(0)
            wait_for(lambda: len(shop.asked()) == 3, "the third question")
            self.assertEqual(shop.asked()[2], "of the bank")

    def test_one_that_waits_is_cancelled_without_being_asked(self):
        with Provider() as provider, Busy(provider, 2, calls_max=1) as shop:
            shop.begin("first", 1, 0)
            session = shop.begin("second", 1, 1)
            self.assertEqual(shop.daemon.api("POST", f"/sessions/{session}/cancel"), (200, {"cancelled": True}))
            self.assertEqual(shop.end_of("second")["stop"], "cancelled")
            self.assertEqual(shop.figures(), (1, 0))
            shop.begin("third", 1, 1)
            shop.let_go(0, 1)
            self.assertEqual(shop.end_of("third")["stop"], "stop")
            self.assertEqual(shop.asked(), ["first", "third"])
            asked = shop.daemon.audit("model.asked")
            self.assertNotIn(session, [event["session_id"] for event in asked])
            self.assertEqual(len(asked), 2)

    def test_past_the_bound_they_are_refused_and_who_has_less_is_not(self):
        with Provider() as provider, Busy(provider, 4, calls_max=1, waiting_max=2) as shop:
            shop.begin("first", 1, 0)
            shop.begin("second", 1, 1)
            shop.begin("third", 1, 2)
            shop.begin("fourth", 1, 2)
            error = shop.end_of("fourth")["error"]
            self.assertEqual(error["code"], "resource_busy")
            self.assertEqual(error["message"], "provider p0: as many questions wait for it as may")
            self.assertIn("waiting_max", error["hint"])
            shop.begin("of the bank", 1, 2, project="bank")
            self.assertEqual(shop.end_of("third")["error"]["code"], "resource_busy")
            shop.let_go(0, 1, 2)
            self.assertEqual([shop.end_of(name)["stop"] for name in ("first", "second", "of the bank")], ["stop"] * 3)

    def test_nobody_waits_longer_than_a_provider_may_be_silent(self):
        free = threading.Event()

        def drips(connection):
            connection.sendall(STREAM)
            while not free.wait(0.1):
                connection.sendall(delta("x"))
            connection.sendall(END)
        with Provider(drips) as provider, Busy(provider, 0, calls_max=1, idle_timeout_ms=5000) as shop:
            shop.begin("first", 1, 0)
            shop.begin("second", 1, 1)
            error = shop.end_of("second")["error"]
            self.assertEqual((error["code"], error["message"]), (
                "resource_busy", "provider p0: it had no time for this question within 5000 ms"))
            self.assertEqual(shop.figures(), (1, 0))
            free.set()
            self.assertEqual(shop.end_of("first")["stop"], "stop")
            self.assertEqual(shop.asked(), ["first"])

    def test_a_daemon_that_stops_tells_who_waits(self):
        with Provider() as provider, Busy(provider, 2, calls_max=1) as shop:
            shop.begin("first", 1, 0)
            shop.begin("second", 1, 1)
            shop.daemon.stop()
            self.assertNotEqual(shop.end_of("second")["stop"], "stop")

    def test_a_model_that_is_gone_when_it_is_their_turn(self):
        with Provider() as provider, Busy(provider, 1, calls_max=1) as shop:
            shop.begin("first", 1, 0)
            shop.begin("second", 1, 1)
            shop.daemon.write_local("")
            self.assertEqual(shop.daemon.api("POST", "/reload")[0], 200)
            shop.let_go(0)
            self.assertEqual(shop.end_of("first")["stop"], "stop")
            self.assertIn("there is no model m0", shop.end_of("second")["error"]["message"])


if __name__ == "__main__":
    main()
