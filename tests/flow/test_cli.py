"""The command line: what goes to stdout, what to stderr, and the exit codes."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

from harness import (KAGED, PATIENCE, ROOT, Daemon, FlowTest, descendants, main, process_start,
                     wait_for)


class Cli(FlowTest):
    plugins = ["good-c", "echo", "names-with-escapes", "error-reply", "silent-call", "noise"]

    def test_call_prints_only_the_result(self):
        code, out, err = self.daemon.cli("plugin", "call", "good-c", "good.echo", '{"text":"hi"}')
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(json.loads(out)["text"], "hi")
        self.assertTrue(out.endswith("\n"))
        self.assertEqual(out.count("\n"), 1)

    def test_call_of_a_noisy_plugin_prints_only_the_result(self):
        self.assertEqual(self.daemon.cli("plugin", "call", "noise", "work.do"), (0, '"done"\n', ""))

    def test_call_takes_its_parameters_from_stdin(self):
        code, out, _ = self.daemon.cli("plugin", "call", "good-c", "good.echo", "-",
                                       input='{"text": "from stdin"}')
        self.assertEqual((code, json.loads(out)["text"]), (0, "from stdin"))

    def test_echo_plugin_does_as_its_page_says(self):
        call = lambda *rest: self.daemon.cli("plugin", "call", "echo", *rest)
        self.assertEqual(json.loads(call("echo.say", '{"text":"hi"}')[1]), {"text": "hi"})
        self.assertEqual(json.loads(call("echo.upper", '{"text":"hi"}')[1]), {"text": "HI"})
        self.assertIn("request_id", json.loads(call("echo.context")[1]))
        code, out, err = call("echo.say", '{"text":1}')
        self.assertEqual((code, out), (6, ""))
        self.assertIn("string", err)

    def test_exit_codes_of_calls(self):
        rows = [
            (["missing", "good.echo"], 4, "missing"),
            (["good-c", "good.missing"], 4, "good.missing"),
            (["good-c", "good.echo", "{"], 6, ""),
            (["good-c", "good.echo", "[]"], 6, "object"),
            (["good-c"], 2, "METHOD"),
            (["error-reply", "error.give", '{"error":{"code":-32001,"message":"not yours"}}'], 5,
             "not yours"),
            (["error-reply", "error.give", '{"error":{"code":-32000,"message":"broken"}}'], 1,
             "broken"),
            (["silent-call", "work.do", "{}", "--timeout", "50"], 1, ""),
        ]
        for arguments, expected, words in rows:
            with self.subTest(" ".join(arguments)):
                code, out, err = self.daemon.cli("plugin", "call", *arguments)
                self.assertEqual((code, out), (expected, ""), err)
                self.assertIn(words, err)
                self.assertNotEqual(err, "")

    def test_status_and_list_show_plugins(self):
        code, out, err = self.daemon.cli("status")
        self.assertEqual((code, err), (0, ""))
        self.assertIn(self.daemon.home, out)
        code, out, err = self.daemon.cli("plugin", "list")
        self.assertEqual((code, err), (0, ""))
        for name in self.daemon.names:
            self.assertIn(name, out)
        self.assertIn("running", out)

    def test_json_prints_the_object_of_the_api(self):
        code, out, _ = self.daemon.cli("--json", "plugin", "status", "good-c")
        self.assertEqual((code, json.loads(out)["name"]), (0, "good-c"))
        code, out, _ = self.daemon.cli("--json", "status")
        self.assertEqual(json.loads(out)["pid"], self.daemon.pid)

    def test_no_colour_without_a_terminal(self):
        for arguments in (["status"], ["plugin", "list"], ["plugin", "status", "good-c"],
                          ["plugin", "status", "missing"], ["audit"], ["--help"]):
            code, out, err = self.daemon.cli(*arguments)
            self.assertNotIn("\x1b", out + err)

    def test_enable_disable_restart(self):
        for action, state in (("disable", "disabled"), ("enable", "running"),
                              ("restart", "running")):
            code, _, err = self.daemon.cli("plugin", action, "good-c")
            self.assertEqual(code, 0, err)
            self.assertEqual(self.daemon.status("good-c")["state"], state)

    def test_unknown_plugin_suggests_the_nearest(self):
        code, out, err = self.daemon.cli("plugin", "status", "god-c")
        self.assertEqual((code, out), (4, ""))
        self.assertIn("good-c", err)

    def test_text_of_a_plugin_cannot_steer_the_terminal(self):
        call = lambda method: self.daemon.cli("plugin", "call", "names-with-escapes", method)
        outputs = [call("text.log"), call("text.notify"), call("text.error"), call("text.crash")]
        self.assertEqual([output[0] for output in outputs], [0, 0, 1, 1])
        self.daemon.wait_restarted("names-with-escapes", 1)
        outputs += [self.daemon.cli("plugin", "logs", "names-with-escapes"),
                    self.daemon.cli("plugin", "status", "names-with-escapes"),
                    self.daemon.cli("audit", "--plugin", "names-with-escapes"),
                    self.daemon.cli("--json", "audit", "--plugin", "names-with-escapes"),
                    self.daemon.cli("--json", "plugin", "status", "names-with-escapes")]
        for code, out, err in outputs:
            for bad in ("\x1b", "\x07", "\x9b", "\u202e", "\r"):
                self.assertNotIn(bad, out + err)
        logs = outputs[4][1]
        self.assertIn("red", logs)
        self.assertNotIn("\x1b", self.daemon.log())

    def test_logs_show_stderr(self):
        code, out, err = self.daemon.cli("plugin", "logs", "echo")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("ready", out)

    def test_logs_follow_what_comes(self):
        status, answer = self.daemon.api("GET", "/plugins/names-with-escapes/logs?lines=1")
        self.daemon.wait_state("names-with-escapes", "running")
        self.daemon.call("names-with-escapes", "text.log")
        status, answer = self.daemon.api(
            "GET", f"/plugins/names-with-escapes/logs?after={answer['cursor']}&wait_ms=5000")
        self.assertEqual(status, 200)
        self.assertIn("red", "".join(answer["lines"]))


class Alone(FlowTest):
    """What needs no daemon, or says that there is none."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.check_sanitizers()
        cls.daemon.discard()

    def test_no_daemon_is_exit_code_3(self):
        for arguments in (["status"], ["stop"], ["reload"], ["plugin", "list"],
                          ["plugin", "call", "x", "y.z"], ["audit"]):
            with self.subTest(" ".join(arguments)):
                code, out, err = self.daemon.cli(*arguments)
                self.assertEqual((code, out), (3, ""), err)
                self.assertIn("start", err)

    def test_usage_is_exit_code_2(self):
        for arguments in ([], ["sttaus"], ["plugin"], ["plugin", "statsu"], ["plugin", "status"],
                          ["status", "--nonsense"], ["start", "--ready-fd", "x"],
                          ["start", "--ready-fd", "999"], ["status", "extra"],
                          ["status", "--system"]):
            with self.subTest(" ".join(arguments)):
                code, out, err = self.daemon.cli(*arguments)
                self.assertEqual((code, out), (2, ""))
                self.assertNotEqual(err, "")

    def test_mistyped_command_is_corrected(self):
        self.assertIn("status", self.daemon.cli("sttaus")[2])

    def test_help_and_version_go_to_stdout(self):
        for arguments in (["--help"], ["help"], ["plugin", "call", "--help"], ["version"],
                          ["--version"]):
            with self.subTest(" ".join(arguments)):
                code, out, err = self.daemon.cli(*arguments)
                self.assertEqual((code, err), (0, ""))
                self.assertNotEqual(out, "")

    def test_result_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([KAGED, "--help"], stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1)


class Run(FlowTest):
    """The script behind make run."""

    def setUp(self):
        self.base = tempfile.mkdtemp(prefix="kg-", dir="/tmp")
        self.environment = {**os.environ, "KAGED_RUN_PROGRAM": KAGED,
                            "KAGED_RUN_HOME": os.path.join(self.base, "h")}

    def tearDown(self):
        shutil.rmtree(self.base)

    def test_run_shows_a_call_and_its_answer(self):
        done = subprocess.run([os.path.join(ROOT, "scripts/run")], capture_output=True, text=True,
                              env={**self.environment, "KAGED_RUN_ONCE": "1"}, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("plugin call echo echo.say", done.stdout)
        self.assertIn('{"text": "hi"}', done.stdout)

    @unittest.skipUnless(os.getuid() == 0, "only root stages folders for its cages")
    def test_run_works_where_no_kaged_ran_before(self):
        # The spawner made its folder in /run with the daemon's strict umask: no cage could use it,
        # except where an older start had left a better one.
        script = "mount -t tmpfs none /run && umask 077 && exec " + os.path.join(ROOT, "scripts/run")
        done = subprocess.run(["unshare", "--mount", "sh", "-c", script], text=True,
                              capture_output=True, timeout=60,
                              env={**self.environment, "KAGED_RUN_ONCE": "1"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('{"text": "hi"}', done.stdout)

    def test_interrupt_stops_all_of_it(self):
        run = subprocess.Popen([os.path.join(ROOT, "scripts/run")], env=self.environment, text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        lines = []
        while not lines or "Ctrl-C" not in lines[-1]:
            lines.append(run.stdout.readline())
            self.assertNotEqual(lines[-1], "", lines)
        self.assertIn("The operator's page, for the browser that opens this first:\n", lines)
        started = descendants(run.pid)
        self.assertGreater(len(started), 3)
        run.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(PATIENCE), 0)
        wait_for(lambda: all(process_start(pid) != start for pid, start in started.items()),
                 "the end of every process")
        run.stdout.close()


if __name__ == "__main__":
    main()
