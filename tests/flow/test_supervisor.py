"""The plugin's life: crashes and restarts, health, endings, the operator's word."""
import datetime
import os
import re
import signal
import threading
import time

from harness import PATIENCE, Daemon, FlowTest, main, process_start, wait_for

# runs alone: when pings are sent is looked at, and that a daemon sleeps


def when(event):
    return datetime.datetime.fromisoformat(event["ts"].replace("Z", "+00:00")).timestamp()


class Restart(FlowTest):
    plugins = ["good-c", "crash-at-call", "exits-clean", "closes-stdout", "closes-stdin",
               "good-bash"]

    def test_crash_restart(self):
        before = self.daemon.status("good-c")
        os.kill(before["pid"], signal.SIGKILL)
        after = self.daemon.wait_restarted("good-c", before["starts"])
        self.assertNotEqual(after["pid"], before["pid"])
        report = after["last_exit"]
        self.assertEqual((report["cause"], report["signal"], report["exit_code"]),
                         ("exited", 9, None))
        self.assertIn("SIGKILL", report["words"])
        self.assertIsNotNone(report["restart_at"])
        self.assertEqual(self.daemon.call("good-c", "good.echo", {"n": 1})["n"], 1)
        event = self.daemon.audit("plugin.crashed", "good-c")[0]
        self.assertEqual((event["signal"], event["exit_code"]), (9, None))

    def test_exit_with_an_error_shows_its_last_words(self):
        starts = self.daemon.status("crash-at-call")["starts"]
        answer = self.daemon.try_call("crash-at-call", "crash.exit", {"code": 7})
        self.assert_error(answer, 502, "plugin_down")
        report = self.daemon.wait_restarted("crash-at-call", starts)["last_exit"]
        self.assertEqual((report["cause"], report["exit_code"], report["signal"]),
                         ("exited", 7, None))
        self.assertEqual(report["last_stderr"], ["last words"])
        self.assertIn("code 7", report["words"])

    def test_signals_are_named(self):
        for number, name in ((signal.SIGSEGV, "SEGV"), (signal.SIGABRT, "ABRT")):
            with self.subTest(name):
                starts = self.daemon.wait_state("crash-at-call", "running")["starts"]
                self.daemon.try_call("crash-at-call", "crash.signal", {"signal": int(number)})
                report = self.daemon.wait_restarted("crash-at-call", starts)["last_exit"]
                self.assertEqual(report["signal"], number)
                self.assertIn(name, report["words"])

    def test_clean_exit_unasked_is_restarted_too(self):
        self.assert_error(self.daemon.try_call("exits-clean", "work.do"), 502, "plugin_down")
        self.daemon.wait_restarted("exits-clean", 1)
        self.assertEqual(self.daemon.audit("plugin.exited", "exits-clean")[0]["exit_code"], 0)
        self.assertEqual(self.daemon.audit("plugin.crashed", "exits-clean"), [])

    def test_closed_stdout_ends_it(self):
        answer = self.daemon.try_call("closes-stdout", "work.do")
        self.assert_error(answer, 502, "plugin_down")
        self.daemon.wait_exit("closes-stdout", "stream_closed")
        self.daemon.wait_restarted("closes-stdout", 1)

    def test_closed_stdin_ends_it_at_the_next_message(self):
        self.assertEqual(self.daemon.call("closes-stdin", "work.do"), "done")
        self.daemon.try_call("closes-stdin", "work.do", headers={"Kaged-Timeout-Ms": "3000"})
        self.daemon.wait_exit("closes-stdin", "stream_closed")
        self.daemon.wait_restarted("closes-stdin", 1)

    def test_operator_restart(self):
        before = self.daemon.status("good-bash")
        self.daemon.act("good-bash", "restart")
        after = self.daemon.wait_restarted("good-bash", before["starts"])
        self.assertEqual((after["failures"], after["last_exit"]["cause"]), (0, "operator"))
        self.assertNotEqual(after["pid"], before["pid"])
        self.assertEqual(self.daemon.audit("plugin.crashed", "good-bash"), [])


class Backoff(FlowTest):
    def test_consecutive_failures_disable(self):
        with Daemon(["good-c"], {"limits.restart_failures": 5}) as daemon:
            for failure in range(1, 6):
                pid = daemon.wait_restarted("good-c", failure - 1)["pid"]
                os.kill(pid, signal.SIGKILL)
                daemon.wait_status("good-c", lambda s: s["failures"] == failure, "one failure more")
            status = daemon.wait_state("good-c", "failed")
            self.assertEqual((status["starts"], status["pid"]), (5, None))
            self.assertIsNone(status["last_exit"]["restart_at"])
            self.assertEqual(daemon.audit("plugin.failed", "good-c")[0]["total_failures"], 5)
            self.assertEqual(len(daemon.audit("plugin.disabled", "good-c")), 1)
            self.assert_error(daemon.try_call("good-c", "good.echo"), 502, "plugin_down")
            # The operator brings it back, with a clean slate.
            daemon.act("good-c", "enable")
            status = daemon.wait_state("good-c", "running")
            self.assertEqual(status["failures"], 0)
            self.assertEqual(daemon.call("good-c", "good.echo", {"n": 1})["n"], 1)

    def test_delay_doubles_up_to_its_bound(self):
        config = {"limits.restart_delay_ms": 50, "limits.restart_delay_max_ms": 150,
                  "limits.restart_failures": 5}
        with Daemon(["crash-at-start"], config) as daemon:
            daemon.wait_state("crash-at-start", "failed")
            crashed = [when(event) for event in daemon.audit("plugin.crashed")]
            spawned = [when(event) for event in daemon.audit("plugin.spawned")]
            self.assertEqual((len(crashed), len(spawned)), (5, 5))
            delays = [start - end for end, start in zip(crashed, spawned[1:])]
            for delay, least in zip(delays, (0.050, 0.100, 0.150, 0.150)):
                self.assertGreater(delay, least - 0.02)

    def test_call_while_a_restart_is_due_says_when(self):
        with Daemon(["good-c"], {"limits.restart_delay_ms": 60_000,
                                 "limits.restart_delay_max_ms": 60_000}) as daemon:
            os.kill(daemon.status("good-c")["pid"], signal.SIGKILL)
            status = daemon.wait_state("good-c", "crashed")
            self.assertIsNotNone(status["last_exit"]["restart_at"])
            self.assert_error(daemon.try_call("good-c", "good.echo"), 502, "plugin_down")
            daemon.act("good-c", "enable")
            daemon.wait_state("good-c", "running")

    def test_plugin_that_runs_long_enough_has_no_failures(self):
        with Daemon(["good-c"], {"limits.restart_reset_ms": 200}) as daemon:
            os.kill(daemon.status("good-c")["pid"], signal.SIGKILL)
            daemon.wait_restarted("good-c", 1)
            daemon.wait_status("good-c", lambda s: s["failures"] == 0, "no failures")

    def test_all_plugins_crash_at_once(self):
        names = [f"good-c as twin-{number}" for number in range(8)]
        with Daemon(["good-bash", *names]) as daemon:
            twins = [name.split()[-1] for name in names]
            for pid in [daemon.status(twin)["pid"] for twin in twins]:
                os.kill(pid, signal.SIGKILL)
            self.assertEqual(daemon.call("good-bash", "good.echo", {"n": 1})["n"], 1)
            for twin in twins:
                daemon.wait_restarted(twin, 1)
                self.assertEqual(daemon.call(twin, "good.echo", {"n": 2})["n"], 2)


class Health(FlowTest):
    plugins = ["ignores-ping", "ping-error"]
    config = {"limits.health_interval_ms": 100, "limits.ping_timeout_ms": 2000}

    def fails(self, plugin, reason):
        report = self.daemon.wait_exit(plugin, "health")
        self.assertIn("3 pings in a row", report["words"])
        events = self.daemon.audit("plugin.health_fail", plugin)[:3]
        self.assertEqual([event["consecutive_failures"] for event in events], [1, 2, 3])
        self.assertIn(reason, events[0]["reason"])
        self.daemon.wait_restarted(plugin, 1)

    def test_health_check_failure_kill(self):
        self.fails("ignores-ping", "no answer")

    def test_health_check_answered_by_an_error(self):
        self.fails("ping-error", "error")

    def test_healthy_plugin_is_left_alone(self):
        with Daemon(["ping-error", "good-c"], {"limits.health_interval_ms": 100}) as daemon:
            daemon.wait_exit("ping-error", "health")  # others are asked as often
            status = daemon.status("good-c")
            self.assertEqual((status["state"], status["starts"]), ("running", 1))
            self.assertEqual(daemon.audit("plugin.health_fail", "good-c"), [])


class Rest(FlowTest):
    def test_pings_of_plugins_that_start_together_are_spread(self):
        interval, plugins = 8, ["ignores-ping", "ping-error"]
        with Daemon(plugins, {"limits.health_interval_ms": interval * 1000,
                              "limits.ping_timeout_ms": 20,
                              "limits.health_failures": 1000}) as daemon:
            first = [when(daemon.wait_audit("plugin.health_fail", name)[0]) -
                     when(daemon.audit("plugin.initialized", name)[0]) for name in plugins]
        self.assertGreater(abs(first[0] - first[1]), interval / 8, first)

    def test_a_daemon_that_nobody_asks_sleeps(self):
        def switches(task):
            try:
                with open(f"/proc/{daemon.pid}/task/{task}/status") as status:
                    return re.search(r"^voluntary_ctxt_switches:.*", status.read(), re.M).group()
            except OSError:
                return None  # a thread that has just ended

        def wake_ups():
            return {task: switches(task) for task in os.listdir(f"/proc/{daemon.pid}/task")}

        def sleeps():
            before = wake_ups()
            time.sleep(2)
            return wake_ups() == before

        with Daemon(["good-c"], {"limits.health_interval_ms": 3_600_000,
                                 "limits.watchdog_interval_ms": 3_600_000}) as daemon:
            wait_for(sleeps, "two seconds without anything", 3 * PATIENCE)


class Ending(FlowTest):
    plugins = ["good-c", "good-python", "good-node", "ignores-shutdown", "ignores-sigterm",
               "answers-late"]
    config = {"limits.shutdown_timeout_ms": 4000, "limits.term_timeout_ms": 4000}

    def disable(self, plugin):
        """Seconds until it was gone."""
        pid = self.daemon.status(plugin)["pid"]
        started = time.monotonic()
        self.daemon.act(plugin, "disable")
        self.daemon.wait_state(plugin, "disabled")
        self.assertIsNone(process_start(pid))
        return time.monotonic() - started

    def test_graceful_shutdown(self):
        for plugin in ("good-c", "good-python", "good-node"):
            with self.subTest(plugin):
                self.disable(plugin)
                event, = self.daemon.audit("plugin.stopped", plugin)
                self.assertEqual(event["exit_code"], 0)
                self.assertEqual(self.daemon.audit("plugin.killed", plugin), [])
                status = self.daemon.status(plugin)
                self.assertEqual((status["last_exit"]["cause"], status["pid"]), ("operator", None))

    def test_sigterm_follows_the_shutdown_that_is_ignored(self):
        self.assertGreater(self.disable("ignores-shutdown"), 3.9)
        self.assertEqual(self.daemon.status("ignores-shutdown")["last_exit"]["signal"],
                         signal.SIGTERM)
        self.assertEqual(self.daemon.audit("plugin.killed", "ignores-shutdown"), [])

    def test_forced_kill(self):
        self.assertGreater(self.disable("ignores-sigterm"), 7.8)
        self.assertEqual(len(self.daemon.audit("plugin.killed", "ignores-sigterm")), 1)
        self.assertEqual(self.daemon.status("ignores-sigterm")["last_exit"]["signal"],
                         signal.SIGKILL)

    def test_call_in_flight_ends_with_the_plugin(self):
        answers = []
        caller = threading.Thread(target=lambda: answers.append(self.daemon.try_call(
            "answers-late", "late.answer", {"after_ms": 25_000})))
        caller.start()
        self.daemon.wait_status("answers-late", lambda s: s["in_flight"] == 1, "a call in flight")
        self.disable("answers-late")
        caller.join()
        self.assert_error(answers[0], 502, "plugin_down")


class Operator(FlowTest):
    def test_disabled_plugin_stays_disabled_over_a_restart(self):
        with Daemon(["good-c"]) as daemon:
            daemon.act("good-c", "disable")
            daemon.wait_state("good-c", "disabled")
            daemon.stop()
            daemon.start()
            self.assertEqual(daemon.status("good-c")["state"], "disabled")
            self.assert_error(daemon.try_call("good-c", "good.echo"), 502, "plugin_down")
            daemon.act("good-c", "enable")
            daemon.wait_state("good-c", "running")
            daemon.stop()
            daemon.start()
            daemon.wait_state("good-c", "running")

    def test_plugin_that_is_not_enabled_does_not_start(self):
        with Daemon(["good-c"], enabled=[]) as daemon:
            self.assertEqual(daemon.status("good-c")["state"], "disabled")
            self.assertEqual(daemon.audit("plugin.spawned"), [])
            daemon.act("good-c", "enable")
            daemon.wait_state("good-c", "running")
            enabled, = daemon.audit("plugin.enabled", "good-c")
            self.assertTrue(enabled["operator_id"])

    def test_invalid_manifest_disables_only_that_plugin(self):
        daemon = Daemon(["good-c", "good-bash"])
        with open(os.path.join(daemon.home, "plugins/good-bash/kaged-plugin.yaml"), "a") as file:
            file.write("methods: [Not A Method]\n")
        with daemon:
            status = daemon.status("good-bash")
            self.assertEqual(status["state"], "disabled")
            self.assertIn("methods", status["problem"])
            self.assertRegex(status["problem"], r"\d")  # its line
            code, answer = daemon.api("POST", "/plugins/good-bash/enable")
            self.assertEqual((code, answer["error"]["code"]), (422, "invalid_manifest"))
            daemon.wait_state("good-c", "running")

    def test_folder_that_is_named_otherwise_than_its_manifest(self):
        daemon = Daemon(["good-c"], enabled=["other"])
        os.rename(os.path.join(daemon.home, "plugins/good-c"),
                  os.path.join(daemon.home, "plugins/other"))
        with daemon:
            self.assertIn("good-c", daemon.status("other")["problem"])

    def test_program_that_is_missing_is_explained(self):
        daemon = Daemon(["good-c"], {"limits.restart_failures": 2})
        os.unlink(os.path.join(daemon.home, "plugins/good-c/good-c"))
        with daemon:
            report = daemon.wait_state("good-c", "failed")["last_exit"]
            self.assertEqual(report["cause"], "cage")
            self.assertIn("good-c/good-c", report["words"])

    def test_enabled_plugin_that_is_not_there_does_not_stop_the_daemon(self):
        with Daemon(["good-c"], enabled=["good-c", "missing"], wait_running=False) as daemon:
            daemon.wait_state("good-c", "running")
            self.assertIn("missing", daemon.log())

    def test_quick_succession_of_words_ends_as_the_last_one_says(self):
        with Daemon(["good-c"]) as daemon:
            for _ in range(5):
                daemon.act("good-c", "disable")
                daemon.act("good-c", "enable")
                daemon.act("good-c", "restart")
            wait_for(lambda: daemon.status("good-c")["state"] == "running", "running")
            self.assertEqual(daemon.call("good-c", "good.echo", {"n": 1})["n"], 1)
            for _ in range(5):
                daemon.act("good-c", "enable")
                daemon.act("good-c", "disable")
            daemon.wait_state("good-c", "disabled")


class LastWords(FlowTest):
    plugins = ["last-words", "many-methods"]
    config = {"limits.restart_delay_ms": 20, "limits.restart_failures": 3}

    def test_last_lines_are_kept_whatever_the_rate(self):
        self.daemon.wait_state("last-words", "running")
        self.daemon.try_call("last-words", "work.do")
        report = self.daemon.wait_status("last-words", lambda s: s["last_exit"], "an exit")["last_exit"]
        self.assertEqual(report["last_stderr"][-1], "FATAL: the reason")
        self.assertEqual(len(report["last_stderr"]), 50)
        logged = self.daemon.api("GET", "/plugins/last-words/logs?lines=5")[1]["lines"]
        self.assertIn("lines were dropped", logged[-1])

    def test_endless_list_of_methods_is_a_malformed_answer(self):
        self.daemon.wait_state("many-methods", "failed")
        events = self.daemon.audit("plugin.protocol_violation", "many-methods")
        self.assertEqual(events[0]["violation_type"], "malformed_initialize")
        self.assertLess(len(str(events)), 10000)

    def test_end_of_a_hung_plugin_is_audited_though_the_operator_restarts_it(self):
        with Daemon(["silent-call"], {"limits.call_timeout_ms": 50}) as daemon:
            daemon.wait_state("silent-call", "running")
            daemon.try_call("silent-call", "work.do")
            daemon.act("silent-call", "restart")
            daemon.wait_audit("plugin.crashed", "silent-call")
            self.assertEqual(len(daemon.audit("plugin.restarted", "silent-call")), 1)


class Outlasting(FlowTest):
    def test_a_plugin_that_failed_is_not_started_by_the_next_daemon(self):
        with Daemon(["crash-at-start"], {"limits.restart_failures": 2}) as daemon:
            before = daemon.wait_state("crash-at-start", "failed")
            for _ in range(2):
                daemon.stop()
                daemon.start()
                status = daemon.status("crash-at-start")
                self.assertEqual((status["state"], status["starts"]), ("failed", 0))
                self.assertIn("failed before the daemon was started", status["last_exit"]["words"])
                self.assertIn(before["last_exit"]["words"][:20], status["last_exit"]["words"])
            self.assertEqual(daemon.api("POST", "/plugins/crash-at-start/enable")[0], 200)
            daemon.wait_status("crash-at-start", lambda s: s["starts"] > 0, "another try")


if __name__ == "__main__":
    main()
