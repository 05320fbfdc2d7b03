"""plugins/smart-compactor: its own tests, and in its cage as the compactor of real sessions."""
import json

from harness import FlowTest, main
from staged import StagedDaemon, run_python_tests
from test_sessions import Tea

NAME = "smart-compactor"
WINDOW, THRESHOLD = 4000, 0.8
TARGET = WINDOW * THRESHOLD / 2
PROJECT = """\
version: 1
name: tea
primary:
  model: %s
  prompt: Be kind.
  compaction: { threshold: %g, keep_recent: 1, strategy: delegate, delegate: { plugin: squeeze } }
  plugins:
    squeeze: { package: smart-compactor }
"""
LOCAL = """\
[providers.none]
kind = "openai"
base_url = "http://127.0.0.1:9/v1"
[models.small]
provider = "none"
model = "m"
context_window = %d
[models.large]
provider = "none"
model = "m"
context_window = 100000000
""" % WINDOW


class Smart(StagedDaemon):
    """A daemon whose project has the plugin as its compactor."""

    post, get, new, say, act, texts, events, tool = (
        Tea.post, Tea.get, Tea.new, Tea.say, Tea.act, Tea.texts, Tea.events, Tea.tool)

    def __init__(self, model):
        # As long as may be: a busy machine must not make it fall back.
        super().__init__(NAME, changes=[("hook_timeout_sec: 30", "hook_timeout_sec: 60")])
        self.write_local(LOCAL)
        self.root = self.write_project("tea", PROJECT % (model, THRESHOLD))

    def record(self, session, *messages):
        """Several of any kind; their ids."""
        added = self.post(f"/sessions/{session}/messages", {"messages": messages})["added"]
        return [entry["id"] for entry in added]

    def explain(self, session, **more):
        return self.call(f"{NAME}@tea", "compaction.explain", {"session_id": session, **more})


def call(name, **arguments):
    return {"role": "assistant", "kind": "tool_call",
            "content": {"name": name, "arguments": arguments}}


def result(parent, **content):
    return {"role": "tool", "kind": "tool_result", "parent": parent, "content": content}


class OwnTests(FlowTest):
    def test_unit_tests_pass(self):
        code, output = run_python_tests(NAME)
        self.assertEqual(code, 0, output)


class SmartTest(FlowTest):
    model = "large"

    @classmethod
    def setUpClass(cls):
        cls.share(Smart(cls.model))
        cls.daemon.post("/projects", {"path": cls.daemon.root})

    def compacts(self, session):
        """What a compaction came to, as the plugin planned it and kaged took it."""
        done = self.daemon.act(session, "compact")
        self.assertEqual((done["strategy"], done["fell_back"]), ("delegate", None), done)
        told = self.daemon.explain(session)
        self.assertTrue(told["is_used"])
        self.assertEqual((told["tokens_before"], told["tokens_after"]),
                         (done["tokens_before"], done["tokens_after"]))
        return done


class Sessions(SmartTest):
    def talk(self):
        """A session with something for each of the rules."""
        d, session = self.daemon, self.daemon.new()
        d.say(session, "Mend the parser in src/parse.c please")
        d.say(session, "Of course, I shall look. " + "Well, well. " * 60, role="assistant")
        d.say(session, "Remember that the tests run with make check")
        d.say(session, "We decided to use a table instead of a switch", role="assistant")
        [read] = d.record(session, call("files.read", path="src/parse.c"))
        d.record(session, result(read, result="int main\n" + "filler\n" * 2000 + "error: line 7"))
        [build] = d.record(session, call("shell.run", command="make check"))
        d.record(session, result(build, error="make: parse_line undeclared"))
        d.say(session, "Small talk. " * 100, role="assistant")
        d.say(session, "Now finish parse_line in src/parse.c")
        d.say(session, "Nearly there", role="assistant")
        return session

    def test_what_matters_stays_and_all_of_it_can_be_undone(self):
        d, session = self.daemon, self.talk()
        before = d.texts(session)
        self.compacts(session)
        after = d.texts(session)
        for stays in (before[0], before[2], before[3], before[6], before[7], *before[-2:]):
            self.assertIn(stays, after)
        self.assertEqual(len(after), len(before) - 4 + 2)
        short = next(text for text in after if "[shortened from" in text)
        self.assertIn('files.read({"path": "src/parse.c"})', short)
        self.assertIn("error: line 7", short)
        summary = next(text for text in after if "Summary of 2 earlier messages:" in text)
        self.assertIn("- assistant: Of course, I shall look.", summary)
        d.act(session, "undo-compact")
        self.assertEqual(d.texts(session), before)

    def test_each_message_has_a_reason_and_a_model_can_ask_for_it(self):
        d, session = self.daemon, self.talk()
        self.compacts(session)
        told = d.tool(session, "smart-compactor.explain", {"fate": "kept"})["result"]
        self.assertEqual(told["counts"], {"stays": 3, "kept": 4, "shortened": 2, "summarized": 2,
                                          "dropped": 0})
        whys = [row["why"] for row in told["messages"]]
        self.assertTrue(whys[0].startswith("remember 100, user 25"), whys)
        self.assertEqual([row["speaker"] for row in told["messages"]],
                         ["user", "assistant", "tool", "tool"])
        other = d.tool(d.new(), "smart-compactor.explain")
        self.assertIn("was not compacted", other["result"])

    def test_operator_turns_a_weight(self):
        d, session = self.daemon, self.talk()
        for weight in ("0", "60"):
            code, _, words = d.cli("plugin", "knobs", "set", NAME, "decision", weight, "--project",
                                   "tea")
            self.assertEqual(code, 0, words)
            self.compacts(session)
            decision = d.explain(session)["messages"][3]
            self.assertEqual((weight, "decision" in decision["why"]),
                             (weight, weight == "60"), decision)
            d.act(session, "undo-compact")

    def test_pinned_entry_stays(self):
        d, session = self.daemon, self.talk()
        entries = [entry for entry in d.get(f"/sessions/{session}/entries")["entries"]
                   if str(entry["content"]).startswith("Small talk")]
        d.act(session, "pin", {"entry": entries[0]["id"]})
        self.compacts(session)
        self.assertIn("Small talk. " * 100, d.texts(session))
        self.assertIn("pinned", [row["why"] for row in d.explain(session)["messages"]])

    def test_session_of_megabytes_is_compacted_in_time(self):
        d, session = self.daemon, self.daemon.new()
        d.say(session, "first")
        for batch in range(12):
            d.record(session, *({"role": ("user", "assistant")[number % 2],
                                 "content": f"message {batch}.{number} of src/f{number}.c, "
                                 + "and some words " * 80} for number in range(240)))
        done = self.compacts(session)
        self.assertGreater(done["tokens_before"], 1_000_000)
        self.assertLessEqual(done["tokens_after"], done["tokens_before"] // 2)
        self.assertEqual(d.audit("plugin.hook.timeout", f"{NAME}@tea"), [])


class Threshold(SmartTest):
    model = "small"

    def test_full_contexts_come_down_to_their_target_again_and_again(self):
        d, session = self.daemon, self.daemon.new()
        d.say(session, "Count with me, and remember the number 7")
        for turn in range(60):
            d.say(session, f"Now comes {turn} of src/count_{turn % 5}.c")
            d.say(session, f"{turn}. " + "I count and count. " * 25, role="assistant")
            if turn % 5 == 4:
                d.texts(session)  # waits for a compaction that is under way
        done = d.events(session, "compaction.completed")
        self.assertGreater(len(done), 2)
        self.assertEqual({event["strategy"] for event in done}, {"delegate"})
        self.assertLessEqual(max(event["tokens_after"] for event in done), TARGET)
        self.assertEqual(d.events(session, "compaction.failed"), [])
        texts = d.texts(session)
        self.assertIn("remember the number 7", texts[0])
        self.assertEqual(json.dumps(texts).count("Summary of "), 1)


if __name__ == "__main__":
    main()
