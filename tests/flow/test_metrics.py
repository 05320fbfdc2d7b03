"""Figures: /metrics for Prometheus, and the same for people in status and list."""
import os
import re
import shutil
import subprocess

from harness import KAGED, Daemon, FlowTest, has_sanitizer, main, memory_kb, wait_for
from terminal import Terminal


def metrics(daemon):
    """{(name, frozenset of labels): value}, and the text."""
    status, body = daemon.raw("GET", "/metrics")
    assert status == 200, body
    text = body.decode()
    samples = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line).groups()
        key = (name, frozenset(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or "")))
        assert key not in samples, line
        samples[key] = float(value)
    return samples, text


def sample(daemon, name, **labels):
    return metrics(daemon)[0].get((name, frozenset(labels.items())))


class Metrics(FlowTest):
    plugins = ["good-c", "error-reply", "declares-all", "flood"]

    def test_promtool_accepts_it(self):
        promtool = shutil.which("promtool")
        if promtool is None:
            self.skipTest("promtool is not installed; before Debian 13 it comes with a server that "
                          "starts, in the package prometheus")
        self.daemon.try_call("error-reply", "error.give",
                             {"error": {"code": -32000, "message": "no"}})
        done = subprocess.run([promtool, "check", "metrics"], input=metrics(self.daemon)[1],
                              text=True, capture_output=True)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_every_name_has_its_help_and_type_once_and_its_samples_together(self):
        text = metrics(self.daemon)[1]
        seen, last = [], None
        for line in text.splitlines():
            name = line.split()[2] if line.startswith("#") else \
                re.sub(r"_(bucket|sum|count)$", "", re.match(r"\w+", line).group())
            if name != last:
                self.assertNotIn(name, seen, line)
                self.assertTrue(line.startswith("# HELP "), line)
                seen.append(name)
            last = name
        self.assertTrue(all(name.startswith("kaged_") for name in seen), seen)
        self.assertEqual(text.count("# TYPE"), len(seen))

    def test_content_type_is_that_of_the_format(self):
        done = subprocess.run(["curl", "-si", "--unix-socket", self.daemon.socket,
                               "http://kaged/metrics"], text=True, capture_output=True)
        self.assertIn("Content-Type: text/plain; version=0.0.4", done.stdout)

    def test_calls_and_their_durations_are_counted(self):
        before = sample(self.daemon, "kaged_plugin_calls_total", plugin="good-c")
        for _ in range(3):
            self.daemon.call("good-c", "good.echo", {"n": 1})
        samples, _ = metrics(self.daemon)
        label = ("plugin", "good-c")
        count = samples["kaged_plugin_calls_total", frozenset([label])]
        self.assertEqual(count - before, 3)
        self.assertEqual(samples["kaged_plugin_call_duration_seconds_count", frozenset([label])],
                         count)
        self.assertGreater(samples["kaged_plugin_call_duration_seconds_sum", frozenset([label])], 0)
        buckets = sorted((float(dict(labels)["le"]), value) for (name, labels), value
                         in samples.items() if name == "kaged_plugin_call_duration_seconds_bucket"
                         and label in labels)
        self.assertEqual((buckets[0][0], buckets[-2][0]), (0.0001, 30))
        self.assertEqual(buckets[-1], (float("inf"), count))
        self.assertEqual([value for _, value in buckets], sorted(value for _, value in buckets))

    def test_errors_are_counted_by_code(self):
        for code in (-32000, -32005, -32005):
            self.daemon.try_call("error-reply", "error.give",
                                 {"error": {"code": code, "message": "no"}})
        samples, _ = metrics(self.daemon)
        errors = {dict(labels)["code"]: value for (name, labels), value in samples.items()
                  if name == "kaged_plugin_call_errors_total"
                  and ("plugin", "error-reply") in labels}
        self.assertEqual(errors["resource_busy"], 2)
        self.assertGreaterEqual(errors["plugin_error"], 1)

    def test_one_state_is_one_and_the_others_are_none(self):
        samples, _ = metrics(self.daemon)
        states = {dict(labels)["state"]: value for (name, labels), value in samples.items()
                  if name == "kaged_plugin_state" and ("plugin", "good-c") in labels}
        self.assertEqual(states.pop("running"), 1)
        self.assertEqual(set(states.values()), {0})
        self.assertEqual(sample(self.daemon, "kaged_plugin_up", plugin="good-c"), 1)

    def test_memory_is_that_of_the_cage(self):
        pid = self.daemon.status("declares-all")["pid"]
        used = sample(self.daemon, "kaged_plugin_memory_bytes", plugin="declares-all")
        self.assertGreaterEqual(used, memory_kb(pid) * 1024 * 0.9)
        self.assertEqual(self.daemon.status("declares-all")["memory_bytes"] > 0, True)

    def test_storage_is_its_size(self):
        self.daemon.call("declares-all", "all.store", {"text": "x" * 1000})
        wait_for(lambda: sample(self.daemon, "kaged_plugin_storage_bytes",
                                plugin="declares-all") > 0, "a file with something in it")

    def test_bytes_and_restarts_go_on_over_restarts(self):
        self.daemon.call("good-c", "good.echo", {"text": "x" * 1000})
        sent = sample(self.daemon, "kaged_plugin_sent_bytes_total", plugin="good-c")
        restarts = sample(self.daemon, "kaged_plugin_restarts_total", plugin="good-c")
        starts = self.daemon.status("good-c")["starts"]
        self.daemon.act("good-c", "restart")
        self.daemon.wait_restarted("good-c", starts)
        self.assertGreater(sample(self.daemon, "kaged_plugin_sent_bytes_total", plugin="good-c"),
                           sent)
        self.assertEqual(sample(self.daemon, "kaged_plugin_restarts_total", plugin="good-c"),
                         restarts + 1)

    def test_figures_of_the_daemon(self):
        samples, text = metrics(self.daemon)
        own = {name: value for (name, labels), value in samples.items() if not labels}
        self.assertRegex(text, r'kaged_info\{version="\d+\.\d+\.\d+"\} 1')
        self.assertAlmostEqual(own["kaged_open_fds"],
                               len(os.listdir(f"/proc/{self.daemon.pid}/fd")), delta=6)
        self.assertGreater(own["kaged_resident_memory_bytes"], 1_000_000)
        self.assertGreater(own["kaged_audit_events_total"], 3)
        self.assertIn("kaged_audit_queue_bytes", own)
        wait_for(lambda: sample(self.daemon, "kaged_loop_lag_seconds_count"), "a look at the lag")

    def test_status_shows_the_daemon_on_one_screen(self):
        self.daemon.call("good-c", "good.echo", {"n": 1})
        code, out, err = self.daemon.cli("status")
        self.assertEqual((code, err), (0, ""))
        self.assertLess(len(out.splitlines()), 24)
        for words in ("is running", r"pid +\d+", "home", r"listens +/", "started", "cages", "limits",
                      r"plugins +4 running", r"calls +\d+, \d+ with an error",
                      r"memory +[\d.]+M, \d+ open files", r"loop lag +[\d.]+(us|ms|s), at most",
                      r"events +\d+ audited"):
            self.assertRegex(out, words)

    def test_list_shows_the_useful_few_in_80_columns(self):
        self.daemon.call("good-c", "good.echo", {"n": 1})
        out = on_a_screen(self.daemon, "plugin", "list")
        self.assertEqual(out.splitlines()[0].split(), ["NAME", "VERSION", "STATE", "UPTIME", "CALLS",
                                                       "P50", "P99", "RESTARTS", "MEMORY"])
        row, = [line.split() for line in out.splitlines() if line.startswith("good-c ")]
        self.assertEqual(row[:3], ["good-c", "1.0.0", "running"])
        self.assertRegex(row[3], r"^\d+[smh]$")
        self.assertRegex(row[5], r"^[\d.]+(us|ms|s)$")
        self.assertRegex(row[8], r"^[\d.]+[KM]$")
        self.assertLessEqual(max(map(len, out.splitlines())), 80, out)


def on_a_screen(daemon, *arguments):
    command = [KAGED, "--home", daemon.home, *arguments]
    with Terminal(command, {**daemon.environment(), "NO_COLOR": "1"}, columns=80) as terminal:
        code, screen = terminal.end()
    assert code == 0, screen
    return screen


class Long(FlowTest):
    def test_long_names_and_versions_are_cut_in_the_list(self):
        name = "good-c-" + "x" * 50
        with Daemon([f"good-c as {name}", "takes-config"], wait_running=False) as daemon:
            out = on_a_screen(daemon, "plugin", "list")
            self.assertLessEqual(max(map(len, out.splitlines()[:3])), 80, out)
            self.assertIn("good-c-xxxxxxxx...", out)
            # Why a plugin cannot be used stands below, whole.
            self.assertRegex(out, r"takes-config is disabled \(invalid config\): .*api_token")
            self.assertIn(name, daemon.cli("plugin", "list", "--verbose")[1])

    def test_measuring_many_processes_does_not_hold_the_loop(self):
        # The plugin decides how many there are; a worker reads them, so calls go on meanwhile.
        if has_sanitizer():
            processes = 40
        else:
            processes = 80
        code = ("import os, time\nfor _ in range(%d):\n"
                "    if os.fork() == 0:\n        time.sleep(1000)\nresult = 1" % processes)
        with Daemon(["does-as-told", "good-c"], {"sandbox.processes_max": 200}) as daemon:
            daemon.call("does-as-told", "told.run", {"code": code})
            before = sample(daemon, "kaged_plugin_memory_bytes", plugin="does-as-told")
            self.assertGreater(before, processes * 500_000)
            self.assertEqual(daemon.call("good-c", "good.echo", {"n": 1})["n"], 1)


if __name__ == "__main__":
    main()
