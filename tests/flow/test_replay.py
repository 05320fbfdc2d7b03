"""A trace of a live plugin, played against builds of it: the same one, changed ones, broken ones."""
import json
import os
import shutil

from harness import Daemon, FlowTest, main
from test_plugin_new import share

HEADER = {"kaged_trace": 1, "plugin": "good-python", "version": "1.0.0", "kaged": "0.1.0",
          "at": "2026-01-01T00:00:00.000Z", "initialize": {"api_version": 1}, "config": None}


def record(way, t_us=0, **message):
    return {"t_us": t_us, "dir": way, "line": json.dumps({"jsonrpc": "2.0", **message})}


class Replay(FlowTest):
    """Records with a daemon, replays without one."""

    def recorded(self, daemon, plugin, name="t.trace"):
        """What the plugin's recorder has, as a file."""
        path = os.path.join(daemon.base, name)
        code, _, err = daemon.cli("plugin", "trace", plugin, "--recorded", "-o", path)
        self.assertEqual(code, 0, err)
        return path

    def replay(self, daemon, *arguments):
        code, out, err = daemon.cli("--json", "plugin", "replay", *arguments, timeout=60)
        return code, json.loads(out) if out else err

    def build(self, daemon, plugin, *changes):
        """A folder with the plugin, each (old, new) of its program replaced."""
        folder = os.path.join(daemon.base, "build-of-" + plugin)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(os.path.join(daemon.home, "plugins", plugin), folder)
        path = os.path.join(folder, "plugin.py")
        with open(path) as file:
            text = file.read()
        for old, new in changes:
            self.assertIn(old, text)
            text = text.replace(old, new)
        with open(path, "w") as file:
            file.write(text)
        return folder

    @staticmethod
    def start_recording(daemon, plugin, restart=True):
        daemon.api("POST", f"/plugins/{plugin}/trace", {"record": True})
        if restart:
            starts = daemon.status(plugin)["starts"]
            daemon.act(plugin, "restart")
            daemon.wait_restarted(plugin, starts)


class Builds(Replay):
    @classmethod
    def setUpClass(cls):
        cls.share(Daemon(["good-python", "good-python as late", "crash-at-call", "stores"]))
        cls.start_recording(cls.daemon, "good-python")
        for text in ("one", "two"):
            cls.daemon.call("good-python", "good.echo", {"text": text, "list": [1, {"a": 2.0}]})

    def test_the_same_build_answers_the_same(self):
        path = self.recorded(self.daemon, "good-python")
        code, answer = self.replay(self.daemon, path)
        self.assertEqual((code, answer["same"]), (0, True), answer)
        self.assertEqual([step["method"] for step in answer["steps"] if step["method"] != "ping"],
                         ["initialize", "good.echo", "good.echo"])
        for step in answer["steps"]:
            self.assertGreater(step["was_us"], 0)
            self.assertGreater(step["is_us"], 0)

    def test_a_changed_build_is_shown_by_method_path_and_values(self):
        path = self.recorded(self.daemon, "good-python")
        folder = self.build(self.daemon, "good-python", (
            '"result": message["params"]',
            '"result": {**message["params"], "text": message["params"]["text"].upper(), "new": 1}'))
        code, answer = self.replay(self.daemon, path, folder)
        self.assertEqual((code, answer["counts"]["differs"], answer["counts"]["same"]), (1, 2, 1))
        self.assertEqual(answer["steps"][1]["differences"], [
            {"path": "/result/text", "was": '"one"', "is": '"ONE"'},
            {"path": "/result/new", "was": "", "is": "1"}])
        code, out, _ = self.daemon.cli("plugin", "replay", path, folder)
        self.assertEqual(code, 1)
        self.assertRegex(out, r"line \d+ good.echo: differs in [0-9.]+(us|ms|s), was [0-9.]+(us|ms|s)"
                              r"\n    /result/text\n        was \"one\"\n        is  \"ONE\"\n")
        self.assertIn("1 same, 2 different, 0 not compared", out.splitlines()[-1])

    def test_what_cannot_be_the_same_can_be_ignored(self):
        path = self.recorded(self.daemon, "good-python")
        folder = self.build(self.daemon, "good-python", (
            '"result": message["params"]',
            '"result": {**message["params"], "text": 0, "list": [1, 2]}'))
        code, answer = self.replay(self.daemon, path, folder, "--ignore", "/result/text,/*/list/1")
        self.assertEqual(code, 0, answer)

    def test_a_build_that_leaves_is_told_by_its_exit(self):
        path = self.recorded(self.daemon, "good-python")
        folder = self.build(self.daemon, "good-python", (
            'reply = {"result": message["params"]}', "sys.exit(3)"))
        code, answer = self.replay(self.daemon, path, folder)
        self.assertEqual((code, [step["outcome"] for step in answer["steps"]]),
                         (1, ["same", "no_answer", "no_answer"]), answer)
        self.assertIn("exited with code 3", answer["steps"][1]["note"])

    def test_a_trace_that_begins_in_the_middle_gets_its_handshake_made_up(self):
        self.start_recording(self.daemon, "late", restart=False)
        self.daemon.call("late", "good.echo", {"text": "late"})
        code, answer = self.replay(self.daemon, self.recorded(self.daemon, "late", "late.trace"))
        self.assertEqual((code, [step["method"] for step in answer["steps"]]),
                         (0, ["good.echo"]), answer)

    def test_a_crash_happens_again(self):
        self.start_recording(self.daemon, "crash-at-call", restart=False)
        starts = self.daemon.status("crash-at-call")["starts"]
        self.daemon.try_call("crash-at-call", "crash.exit", {"code": 7})
        self.daemon.wait_restarted("crash-at-call", starts)
        path = os.path.join(self.daemon.base, "crash.trace")
        self.daemon.cli("plugin", "trace", "crash-at-call", "--crash", "-o", path)
        code, answer = self.replay(self.daemon, path)
        self.assertEqual((code, answer["steps"][0]["outcome"]), (0, "same"), answer)
        self.assertIn("exited with code 7", answer["steps"][0]["note"])
        folder = self.build(self.daemon, "crash-at-call", (
            'os._exit(message["params"]["code"])', 'send({"id": id, "result": "mended"})'))
        code, answer = self.replay(self.daemon, path, folder)
        self.assertEqual((code, answer["steps"][0]["outcome"]), (1, "new_answer"), answer)

    def test_storage_is_answered_from_the_trace(self):
        self.start_recording(self.daemon, "stores")
        asks = [("exec", "CREATE TABLE t (a)"), ("exec", "INSERT INTO t VALUES (41)"),
                ("query", "SELECT a FROM t")]
        for method, sql in asks:
            self.daemon.call("stores", "store.ask", {"request": {"method": method,
                                                                 "params": {"sql": sql}}})
        path = self.recorded(self.daemon, "stores", "stores.trace")
        code, answer = self.replay(self.daemon, path)
        self.assertEqual(code, 0, answer)
        folder = self.build(self.daemon, "stores", (
            '"params": request["params"]})', '"params": {"sql": request["params"]["sql"].lower()}})'))
        code, answer = self.replay(self.daemon, path, folder)
        self.assertEqual((code, answer["counts"]["asks_other"]), (1, 3), answer)
        asked = [step for step in answer["steps"] if step["outcome"] == "asks_other"]
        self.assertEqual(asked[0]["differences"], [
            {"path": "/sql", "was": '"CREATE TABLE t (a)"', "is": '"create table t (a)"'}])

    def test_with_its_times_it_takes_as_long_as_then(self):
        lines = [HEADER, record("to", 0, id=1, method="initialize", params={}),
                 record("to", 0, id=2, method="good.echo", params={}),
                 record("to", 900_000, id=3, method="good.echo", params={}),
                 record("from", 900_001, id=3, result={})]
        path = os.path.join(self.daemon.base, "slow.trace")
        with open(path, "w") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        code, answer = self.replay(self.daemon, path, "--timed")
        self.assertEqual(code, 0, answer)
        self.assertEqual(answer["counts"]["not_compared"], 2, answer)


class Example(Replay):
    def test_a_plugin_of_an_sdk_with_configuration(self):
        share("python")
        daemon = Daemon(enabled=["greeter"])
        folder = os.path.join(daemon.home, "plugins/greeter")
        code, _, err = daemon.cli("plugin", "new", "greeter", "--lang", "python", "--dir", folder)
        self.assertEqual(code, 0, err)
        daemon.write_local('[plugins.greeter.config]\nword = "Welcome"\n')
        with daemon:
            # From its first message on, and from the middle.
            for restart in (True, False):
                daemon.api("POST", "/plugins/greeter/trace", {"record": False})
                self.start_recording(daemon, "greeter", restart)
                daemon.call("greeter", "greeting.say", {"name": "Ada"})
                path = self.recorded(daemon, "greeter")
                code, answer = self.replay(daemon, path)
                self.assertEqual((code, answer["counts"]["differs"]), (0, 0), answer)
            changed = self.build(daemon, "greeter", ('{name}', 'dear {name}'))
            code, answer = self.replay(daemon, path, changed)
            self.assertEqual(code, 1, answer)
            self.assertIn("dear Ada", json.dumps(answer["steps"]))


class Secrets(Replay):
    def test_what_was_redacted_is_said_and_not_compared(self):
        daemon = Daemon(["takes-config"])
        daemon.write_local('[plugins.takes-config]\napi_token = "tok-secret-0815"\n')
        with daemon:
            self.start_recording(daemon, "takes-config")
            daemon.call("takes-config", "config.get")
            path = self.recorded(daemon, "takes-config")
            with open(path) as file:
                self.assertNotIn("tok-secret", file.read())
            code, answer = self.replay(daemon, path)
            self.assertEqual((code, answer["redacted"]), (0, 1), answer)
            self.assertTrue(answer["steps"][-1]["redacted"])


class Files(Replay):
    """What is no trace, or a hostile one; no daemon runs, and none is asked for."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(["good-python"], {"limits.call_timeout_ms": 4000})
        cls.addClassCleanup(cls.daemon.discard)

    def play(self, *lines, end="\n"):
        """(exit code, stderr) of a file with these lines, each a text or an object."""
        path = os.path.join(self.daemon.base, "hostile.trace")
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        with open(path, "w") as file:
            file.write("\n".join(texts) + end)
        code, _, err = self.daemon.cli("plugin", "replay", path, timeout=60)
        return code, err

    def test_each_error_names_its_line(self):
        good = record("to", id=1, method="initialize", params={})
        for lines, words in (
                ([""], "line 1"),
                (["no JSON"], "line 1"),
                (["[1]"], "line 1: it is not a JSON object"),
                ([{}], "line 1: it is not the header"),
                ([{**HEADER, "kaged_trace": 2}], "line 1: it is a trace of version 2"),
                ([{**HEADER, "plugin": "../../etc"}], "line 1: \"plugin\" is not the name"),
                ([HEADER, good, {}], "line 3: \"dir\""),
                ([HEADER, good, {**good, "dir": "up"}], "line 3: \"dir\""),
                ([HEADER, {**good, "t_us": "soon"}], "line 2: \"t_us\""),
                ([HEADER, {**good, "t_us": 1e99}], "line 2: \"t_us\""),
                ([HEADER, {**good, "line": 5}], "line 2: \"line\" is not text"),
                ([HEADER, {**good, "line": "a\nb"}], "line 2: \"line\" contains a line end"),
                ([HEADER, good, "[" * 100_000], "line 3"),
                ([HEADER, good, '{"dir":"to","dir":"to"}'], "line 3")):
            code, err = self.play(*lines)
            self.assertEqual(code, 6, (lines, err))
            self.assertIn(words, err)

    def test_a_file_that_is_no_trace_says_how_one_is_made(self):
        _, err = self.play("/* a program */")
        self.assertRegex(err, "hint: a trace is made by: kaged .*plugin trace NAME")

    def test_a_file_that_was_cut_says_what_to_do(self):
        code, err = self.play(HEADER, '{"t_us":1,"dir":"to","line":"{', end="")
        self.assertEqual(code, 6)
        self.assertIn("line 2", err)
        self.assertIn("ends within a line", err)

    def test_a_huge_file_is_refused(self):
        path = os.path.join(self.daemon.base, "huge.trace")
        with open(path, "w") as file:
            file.truncate(65 << 20)
        code, _, err = self.daemon.cli("plugin", "replay", path)
        self.assertEqual(code, 6, err)

    def test_what_is_not_there_is_not_found(self):
        self.assertEqual(self.daemon.cli("plugin", "replay", "/nowhere/t.trace")[0], 4)
        code, err = self.play({**HEADER, "plugin": "nobody"})
        self.assertEqual(code, 4, err)

    def test_a_trace_of_another_plugin_is_refused(self):
        path = os.path.join(self.daemon.base, "other.trace")
        with open(path, "w") as file:
            file.write(json.dumps({**HEADER, "plugin": "other"}) + "\n")
        code, _, err = self.daemon.cli("plugin", "replay", path,
                                       os.path.join(self.daemon.home, "plugins/good-python"))
        self.assertEqual(code, 6)
        self.assertIn("the trace is of other", err)

    def test_a_build_that_is_silent_is_killed_once(self):
        path = os.path.join(self.daemon.base, "silent.trace")
        with open(path, "w") as file:
            for line in (HEADER, *(record(way, id=number, **rest) for number in (1, 2) for way, rest in (
                    ("to", {"method": "good.echo", "params": {}}), ("from", {"result": {}})))):
                file.write(json.dumps(line) + "\n")
        folder = self.build(self.daemon, "good-python", ('reply = {"result": message["params"]}', "continue"))
        code, answer = self.replay(self.daemon, path, folder)
        self.assertEqual((code, answer["counts"]["no_answer"]), (1, 2), answer)
        self.assertIn("did not answer within 4000 ms", answer["steps"][1]["note"])

    def test_nonsense_in_valid_lines_harms_nobody(self):
        code, err = self.play(
            HEADER, {"t_us": -5, "dir": "from", "line": "\x00\ufffe no JSON"},
            record("from", id=77, result=1), record("to", id=78, error={}),
            {"t_us": 1, "dir": "missed", "count": -3},
            {"t_us": 1, "dir": "state", "to": "crashed"}, {"t_us": 1, "dir": "state"},
            {**record("to", id=5, method="good.echo", params={}), "cut_from": 10},
            record("to", id=1, method="good.echo", params={"a": 1}),
            record("to", id=1, method="good.echo", params={"a": 1}),
            record("from", -9, id=1, result={"a": 1}), record("from", id=1, result={"a": 2}))
        self.assertEqual(code, 0, err)


if __name__ == "__main__":
    main()
