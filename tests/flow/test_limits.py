"""A plugin that takes too much hurts only itself, and the operator is told."""
import os
import platform
import subprocess
import unittest

from harness import FlowTest, Daemon, main

ORDINARY_UID = 1234
MIB = 1024 * 1024
LIMITS = {"sandbox.plugins.greedy.memory_mb": 96, "sandbox.plugins.greedy.processes_max": 12,
          "limits.watchdog_interval_ms": 20}


def mode(daemon):
    return daemon.api("GET", "/status")[1]["limits_mode"]


class Greedy(FlowTest):
    plugins = ["greedy", "good-c"]
    config = LIMITS

    def need_groups(self):
        if mode(self.daemon) == "none":
            self.skipTest(self.daemon.api("GET", "/status")[1]["limits"])

    def test_status_says_how_and_what_is_limited(self):
        status = self.daemon.status("greedy")
        self.assertEqual((status["limits"]["memory_bytes"], status["limits"]["processes_max"]),
                         (96 * MIB, 12))
        self.assertEqual(self.daemon.status("good-c")["limits"]["memory_bytes"], 512 * MIB)
        self.assertIn("limits       96 MiB of memory, 12 processes\n",
                      self.daemon.cli("plugin", "status", "greedy")[1])
        words = self.daemon.api("GET", "/status")[1]["limits"]
        self.assertIn(words, self.daemon.cli("status")[1])
        self.assertIn(f"limits: {words}", self.daemon.log())

    def test_memory_past_the_limit_ends_the_plugin_and_says_so(self):
        self.need_groups()
        starts = self.daemon.status("greedy")["starts"]
        self.assert_error(self.daemon.try_call("greedy", "greedy.memory", {"mib": 200}), 502,
                          "plugin_down")
        report = self.daemon.wait_restarted("greedy", starts)["last_exit"]
        self.assertEqual((report["cause"], report["signal"]), ("out_of_memory", 9))
        self.assertGreater(report["memory_kills"], 0)
        event = self.daemon.audit("plugin.out_of_memory", "greedy")[-1]
        self.assertEqual((event["limit_bytes"], event["killed"]),
                         (96 * MIB, report["memory_kills"]))
        said = self.daemon.cli("plugin", "status", "greedy")[1]
        self.assertIn("it ran out of memory (killed by signal 9 (SIGKILL)); at its limit of 96 MiB "
                      "the kernel killed", said)
        self.assertIn("it ran out of memory",
                      self.daemon.audit("plugin.crashed", "greedy")[-1]["cause"])
        self.daemon.call("good-c", "good.echo")

    def test_refused_processes_are_told_of_while_it_runs(self):
        self.need_groups()
        starts = self.daemon.status("greedy")["starts"]
        answer = self.daemon.call("greedy", "greedy.processes", {"count": 50})
        self.assertEqual(answer["started"], 11)
        event = self.daemon.wait_audit("plugin.process_limit", "greedy")[-1]
        self.assertEqual(event["limit"], 12)
        self.assertGreater(event["refused"], 0)
        status = self.daemon.status("greedy")
        self.assertEqual((status["starts"], status["state"]), (starts, "running"))
        self.assertGreater(status["fork_refusals"], 0)
        self.daemon.act("greedy", "restart")
        report = self.daemon.wait_restarted("greedy", starts)["last_exit"]
        self.assertIn("at its limit of 12 processes it was refused", report["words"])
        self.assertEqual(self.daemon.status("greedy")["fork_refusals"], 0)

    @unittest.skipUnless(platform.machine() == "x86_64", "there is no other ABI to try")
    def test_forbidden_call_ends_the_plugin_and_says_so(self):
        starts = self.daemon.status("greedy")["starts"]
        self.daemon.try_call("greedy", "greedy.call")
        report = self.daemon.wait_restarted("greedy", starts)["last_exit"]
        self.assertEqual((report["cause"], report["signal"]), ("seccomp", 31))
        self.assertIn("a system call that no cage allows", report["words"])
        self.assertEqual(self.daemon.audit("plugin.seccomp_killed", "greedy")[-1]["signal"], 31)


class Reload(FlowTest):
    def test_limits_of_a_plugin_apply_at_its_next_start(self):
        with Daemon(["good-c"]) as daemon:
            daemon.write_config(**{"sandbox__plugins__good-c__memory_mb": 77})
            changed = daemon.api("POST", "/reload")[1]["changed"]
            self.assertEqual(changed, [{"key": "sandbox.plugins.good-c.memory_mb",
                                        "applies": "at the plugin's next start"}])
            self.assertEqual(daemon.status("good-c")["limits"]["memory_bytes"], 512 * MIB)
            starts = daemon.status("good-c")["starts"]
            os.kill(daemon.status("good-c")["pid"], 9)
            daemon.wait_restarted("good-c", starts)
            self.assertEqual(daemon.status("good-c")["limits"]["memory_bytes"], 77 * MIB)


class OrdinaryDaemon(Daemon):
    """A daemon of a user who has no cgroups; what it keeps is his."""

    def popen(self, *arguments, **options):
        if os.geteuid() != 0:
            return super().popen(*arguments, **options)
        subprocess.run(["chown", "-R", f"{ORDINARY_UID}:{ORDINARY_UID}", self.base], check=True)
        return super().popen(*arguments, user=ORDINARY_UID, group=ORDINARY_UID, extra_groups=[],
                             **options)


class Watchdog(FlowTest):
    """Where the kernel has no groups for us."""

    @classmethod
    def setUpClass(cls):
        cls.share(OrdinaryDaemon(["greedy"], LIMITS))

    def setUp(self):
        if mode(self.daemon) != "none":
            self.skipTest("this user has cgroups")

    def test_processes_that_are_small_alone_and_large_together_are_ended(self):
        starts = self.daemon.status("greedy")["starts"]
        self.daemon.try_call("greedy", "greedy.children", {"count": 3, "mib": 40})
        report = self.daemon.wait_restarted("greedy", starts)["last_exit"]
        self.assertEqual(report["cause"], "out_of_memory")
        self.assertIn("its limit is 96 MiB", report["words"])
        event = self.daemon.audit("plugin.out_of_memory", "greedy")[-1]
        self.assertEqual(event["limit_bytes"], 96 * MIB)

    def test_files_in_memory_are_not_free_because_they_are_empty(self):
        starts = self.daemon.status("greedy")["starts"]
        self.daemon.try_call("greedy", "greedy.files", {"count": 400000})
        report = self.daemon.wait_restarted("greedy", starts)["last_exit"]
        self.assertEqual(report["cause"], "out_of_memory")
        self.assertIn("its processes and files in memory used", report["words"])

    def test_a_few_files_in_memory_are_no_matter(self):
        starts = self.daemon.status("greedy")["starts"]
        self.daemon.call("greedy", "greedy.files", {"count": 10000})
        self.assertEqual(self.daemon.status("greedy")["starts"], starts)

    def test_one_process_cannot_have_more_than_the_limit(self):
        starts = self.daemon.status("greedy")["starts"]
        self.assert_error(self.daemon.try_call("greedy", "greedy.memory", {"mib": 200}), 502,
                          "plugin_down")
        report = self.daemon.wait_restarted("greedy", starts)["last_exit"]
        self.assertEqual((report["cause"], report["exit_code"]), ("exited", 1))
        self.assertEqual(report["last_stderr"][-1], "MemoryError")

    def test_more_processes_than_the_limit_are_refused(self):
        answer = self.daemon.call("greedy", "greedy.processes", {"count": 50})
        self.assertEqual(answer["started"], 11)

    def test_daemon_warns_of_it(self):
        self.assertIn("limits: no cgroups: ", self.daemon.log())
        self.assertIn("enforced without cgroups", self.daemon.cli("plugin", "status", "greedy")[1])


if __name__ == "__main__":
    main()
