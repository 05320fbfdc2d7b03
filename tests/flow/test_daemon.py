"""The daemon: its start, its stop, its lock, its config, and what is left when it is killed."""
import contextlib
import json
import os
import signal
import socket
import stat
import subprocess

from harness import KAGED, Daemon, FlowTest, at_once, install, main, process_start, wait_for


class Start(FlowTest):
    def fails_to_start(self, daemon, code, *words):
        """Runs `start --foreground`, which must leave at once and say why."""
        try:
            done = subprocess.run([KAGED, "--home", daemon.home, "start", "--foreground"],
                                  env=daemon.environment(), capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, timeout=60)
            self.assertEqual(done.returncode, code, done.stderr)
            for word in words:
                self.assertRegex(done.stderr, word)
            self.assertEqual(done.stdout, "")
            daemon.check_sanitizers()
        finally:
            daemon.discard()

    def with_config(self, text):
        daemon = Daemon()
        with open(os.path.join(daemon.home, "config.toml"), "w") as file:
            file.write(text)
        return daemon

    def test_status_tells_who_it_is(self):
        with Daemon(["good-c"]) as daemon:
            status, answer = daemon.api("GET", "/status")
            self.assertEqual(status, 200)
            self.assertEqual((answer["pid"], answer["home"]), (daemon.pid, daemon.home))
            self.assertRegex(answer["version"], r"^\d+\.\d+\.\d+")
            self.assertGreaterEqual(answer["uptime_ms"], 0)
            self.assertEqual(answer["plugins"], {"running": 1})
            status, answer = daemon.api("GET", "/plugins")
            plugin, = answer["plugins"]
            self.assertEqual((plugin["name"], plugin["version"], plugin["state"], plugin["pid"]),
                             ("good-c", "1.0.0", "running", daemon.status("good-c")["pid"]))

    def test_daemon_without_plugins_and_without_config_starts(self):
        daemon = Daemon()
        os.unlink(os.path.join(daemon.home, "config.toml"))
        with daemon:
            self.assertEqual(daemon.api("GET", "/plugins")[1], {"plugins": []})

    def test_folders_and_socket_are_private(self):
        with Daemon() as daemon:
            self.assertEqual(stat.S_IMODE(os.stat(daemon.socket).st_mode), 0o600)
            for folder in ("run", "state", "state/audit", "state/logs"):
                mode = os.stat(os.path.join(daemon.home, folder)).st_mode
                self.assertEqual(stat.S_IMODE(mode) & 0o077, 0, folder)

    def test_broken_config_names_file_line_and_remedy(self):
        self.fails_to_start(self.with_config("[limits]\n\ncall_timeout_ms = \n"), 6,
                            r"config\.toml.*3")

    def test_wrong_type_names_the_key_and_what_it_takes(self):
        self.fails_to_start(self.with_config('[limits]\ncall_timeout_ms = "soon"\n'), 6,
                            r"config\.toml.*2", r"limits\.call_timeout_ms", "integer")

    def test_value_out_of_range_names_the_bounds(self):
        self.fails_to_start(self.with_config("[limits]\ncall_timeout_ms = 0\n"), 6,
                            r"config\.toml.*2", r"limits\.call_timeout_ms", "1.*3600000")

    def test_unknown_key_suggests_the_nearest(self):
        self.fails_to_start(self.with_config("[limits]\ncal_timeout_ms = 5\n"), 6,
                            r"config\.toml.*2", "cal_timeout_ms", "did you mean.*call_timeout_ms")

    def test_unknown_section_suggests_the_nearest(self):
        self.fails_to_start(self.with_config("[limit]\ncall_timeout_ms = 5\n"), 6,
                            r"config\.toml.*1", "did you mean.*limits")

    def test_socket_path_that_is_too_long_is_explained(self):
        daemon = Daemon()
        daemon.home = os.path.join(daemon.home, "x" * 120)
        os.makedirs(daemon.home)
        self.fails_to_start(daemon, 6, r"kaged\.sock", "107", "shorter")

    @staticmethod
    def as_another(daemon, *arguments):
        """Runs kaged in a home that it may read and not write: as nobody when we are root."""
        os.chmod(daemon.base, 0o755)
        os.chmod(daemon.home, 0o555)
        user = 65534 if os.getuid() == 0 else None
        return subprocess.run([KAGED, "--home", daemon.home, *arguments], user=user, group=user,
                              env=daemon.environment(), capture_output=True, text=True,
                              extra_groups=[] if user else None, timeout=60)

    def test_home_that_cannot_be_written_is_explained(self):
        daemon = Daemon()
        try:
            os.chmod(os.path.join(daemon.home, "config.toml"), 0o644)
            done = self.as_another(daemon, "start", "--foreground")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr, "Permission denied")
            self.assertIn(daemon.home, done.stderr)
            self.assertIn("--home", done.stderr)
        finally:
            os.chmod(daemon.home, 0o700)
            daemon.discard()

    def test_second_daemon_on_the_same_home_leaves_and_says_so(self):
        with Daemon(["good-c"]) as daemon:
            code, out, err = daemon.cli("start", "--foreground")
            self.assertEqual((code, out), (1, ""))
            self.assertIn("already", err)
            self.assertIn(str(daemon.pid), err)
            self.assertEqual(daemon.call("good-c", "good.echo", {"n": 1})["n"], 1)

    def test_no_sandbox_changes_nothing_for_plugins(self):
        with Daemon(["good-c"], arguments=["--no-sandbox"]) as daemon:
            pid = daemon.status("good-c")["pid"]
            for namespace in ("pid", "net", "mnt", "user"):
                self.assertNotEqual(os.readlink(f"/proc/{pid}/ns/{namespace}"),
                                    os.readlink(f"/proc/self/ns/{namespace}"), namespace)
            self.assertIn("--no-sandbox", daemon.log())


class Log(FlowTest):
    def records(self, log):
        """Each line, read; whatever is no JSON object fails."""
        records = [json.loads(line) for line in log.splitlines()]
        for record in records:
            self.assertRegex(record["ts"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertIn(record["level"], ("debug", "info", "warn", "error"))
            self.assertNotEqual(record["message"], "")
        return records

    def test_log_in_json_is_json_from_the_first_line_to_the_last(self):
        config = {"logging.format": "json", "logging.level": "debug"}
        with Daemon(["good-c", "names-with-escapes"], config) as daemon:
            daemon.try_call("names-with-escapes", "text.crash")
            daemon.wait_restarted("names-with-escapes", 1)
            daemon.cli("reload")
            daemon.stop()
            records = self.records(daemon.log())
        self.assertIn("listening", " ".join(record["message"] for record in records))
        self.assertIn("names-with-escapes", [record.get("plugin") for record in records])

    def test_spawner_logs_in_the_same_format(self):
        # Started without a socket, it has nobody to tell.
        spawner = os.path.join(os.path.dirname(KAGED), "kaged-spawner")
        done = subprocess.run([spawner, "999", str(os.getpid()), "1000", "1000", "json", "0", "0", ""],
                              capture_output=True, text=True, timeout=60)
        record, = self.records(done.stderr)
        self.assertIn("spawner", record["message"])


class Stop(FlowTest):
    def test_stop_by_the_api(self):
        with Daemon(["good-c"]) as daemon:
            daemon.remember()
            self.assertIn(daemon.api("POST", "/stop")[0], (200, 202))
            daemon.process.wait(60)
            daemon.check_end()

    def test_stop_by_interrupt(self):
        with Daemon(["good-c"]) as daemon:
            daemon.remember()
            daemon.process.send_signal(signal.SIGINT)
            daemon.process.wait(60)
            daemon.check_end()

    def test_stop_waits_no_longer_than_plugins_take_to_leave(self):
        config = {"limits.shutdown_timeout_ms": 600_000}
        with Daemon(["good-c", "good-python", "good-bash", "good-node"], config) as daemon:
            daemon.stop()

    def test_stop_does_not_wait_for_plugins_that_stay(self):
        config = {"limits.shutdown_timeout_ms": 300, "limits.term_timeout_ms": 300}
        with Daemon(["ignores-sigterm", "ignores-shutdown", "good-c"], config) as daemon:
            daemon.stop(timeout=60)

    def test_second_signal_does_not_wait(self):
        config = {"limits.shutdown_timeout_ms": 60_000}
        with Daemon(["ignores-sigterm"], config) as daemon:
            daemon.remember()
            daemon.process.send_signal(signal.SIGTERM)
            wait_for(lambda: "stopping" in daemon.log(), "the start of the end")
            daemon.process.send_signal(signal.SIGTERM)
            daemon.process.wait(60)
            daemon.check_end()

    def test_stop_while_a_plugin_starts(self):
        with Daemon(["never-answers", "good-node"], wait_running=False) as daemon:
            daemon.stop(timeout=60)

    def test_stop_while_a_restart_is_due(self):
        with Daemon(["crash-at-start"], {"limits.restart_delay_ms": 60_000,
                                         "limits.restart_delay_max_ms": 60_000}) as daemon:
            daemon.wait_state("crash-at-start", "crashed")
            daemon.stop(timeout=60)

    def test_call_in_flight_is_answered_at_the_stop(self):
        with Daemon(["answers-late"]) as daemon:
            def call():
                return daemon.try_call("answers-late", "late.answer", {"after_ms": 30_000})

            def stop():
                daemon.wait_status("answers-late", lambda s: s["in_flight"] == 1, "the call")
                daemon.process.send_signal(signal.SIGTERM)

            answer, _ = at_once([call, stop])
            self.assertIsInstance(answer, tuple, answer)
            self.assertIn(answer[0], (502, 503))

    def test_socket_is_gone_after_the_stop(self):
        with Daemon() as daemon:
            daemon.stop()
            self.assertFalse(os.path.exists(daemon.socket))


class Killed(FlowTest):
    def test_kill_of_the_daemon_takes_every_cage_with_it(self):
        with Daemon(["good-c", "good-node", "ignores-sigterm"]) as daemon:
            pids = [daemon.status(name)["pid"] for name in daemon.names]
            daemon.kill()  # waits, but not for long, until all of them are gone
            self.assertTrue(all(process_start(pid) is None for pid in pids))
            # The socket and the lock file that it left behind are no obstacle.
            daemon.start()
            self.assertEqual(daemon.call("good-c", "good.echo", {"n": 1})["n"], 1)

    def test_socket_that_nobody_listens_at_is_replaced(self):
        daemon = Daemon()
        os.makedirs(os.path.join(daemon.home, "run"), mode=0o700)
        stale = socket.socket(socket.AF_UNIX)
        stale.bind(daemon.socket)
        stale.close()
        with daemon:
            self.assertEqual(daemon.api("GET", "/status")[0], 200)

    def test_kill_of_the_spawner_ends_the_daemon(self):
        # Without it nothing can be started or ended; whoever supervises the daemon starts it anew.
        with Daemon(["good-c"]) as daemon:
            daemon.remember()
            for pid in daemon.seen:
                with open(f"/proc/{pid}/comm") as comm:
                    if comm.read().startswith("kaged-spawner"):
                        os.kill(pid, signal.SIGKILL)
                        break
            self.assertEqual(daemon.process.wait(60), 1)
            daemon.process = None
            wait_for(lambda: not daemon.left_over(), "the end of all cages")
            daemon.check_sanitizers()


class Reload(FlowTest):
    def test_reload_tells_what_changed(self):
        with Daemon(["silent-call"]) as daemon:
            daemon.write_config(limits__call_timeout_ms=200)
            status, answer = daemon.api("POST", "/reload")
            self.assertEqual(status, 200)
            self.assertEqual(len(answer["changed"]), 1)
            self.assertIn("limits.call_timeout_ms", str(answer["changed"]))
            self.assert_error(daemon.try_call("silent-call", "work.do"), 504, "plugin_timeout")
            self.assertEqual(len(daemon.audit("config.reloaded")), 1)

    def test_broken_config_is_refused_whole(self):
        with Daemon(["good-c"]) as daemon:
            with open(os.path.join(daemon.home, "config.toml"), "a") as file:
                file.write("\n[logging]\nlevel = 'debug'\nlevl = 'x'\n")
            status, answer = daemon.api("POST", "/reload")
            self.assertEqual((status, answer["error"]["code"]), (422, "invalid_config"))
            self.assertIn("levl", answer["error"]["message"])
            self.assertIn("level", answer["error"]["hint"])
            self.assertNotIn(" debug ", daemon.log())
            self.assertEqual(daemon.call("good-c", "good.echo", {"n": 1})["n"], 1)

    def test_reload_finds_and_starts_new_plugins(self):
        with Daemon() as daemon:
            install(daemon.home, "good-c")
            daemon.approve("good-c")
            daemon.write_config(plugins__enabled=["good-c"])
            self.assertEqual(daemon.api("POST", "/reload")[0], 200)
            daemon.wait_state("good-c", "running")

    def test_reload_by_hangup(self):
        with Daemon() as daemon:
            daemon.write_config(limits__call_timeout_ms=200)
            daemon.process.send_signal(signal.SIGHUP)
            daemon.wait_audit("config.reloaded")


class Background(FlowTest):
    def test_start_returns_when_ready_and_stop_when_gone(self):
        daemon = Daemon(["good-c"])
        daemon.approve()
        try:
            code, out, err = daemon.cli("start", timeout=60)
            self.assertEqual((code, err), (0, ""))
            pid = daemon.api("GET", "/status")[1]["pid"]
            self.assertIn(str(pid), out)
            daemon.wait_state("good-c", "running")
            self.assertNotEqual(os.getsid(pid), os.getsid(0))
            for fd in (0, 1, 2):
                self.assertNotIn("pipe", os.readlink(f"/proc/{pid}/fd/{fd}"))
            start = process_start(pid)
            code, out, err = daemon.cli("stop", timeout=60)
            self.assertEqual(code, 0, err)
            self.assertNotEqual(process_start(pid), start)
            self.assertEqual(daemon.cli("status")[0], 3)
            daemon.check_sanitizers()
        finally:
            daemon.cli("stop")
            daemon.discard()

    def test_failure_to_start_is_told_by_the_command(self):
        daemon = Daemon(config={"limits.nonsense": 1})
        try:
            code, out, err = daemon.cli("start", timeout=60)
            self.assertEqual((code, out), (6, ""))
            self.assertIn("nonsense", err)
        finally:
            daemon.discard()


class Stopping(FlowTest):
    def test_daemon_that_stops_says_so(self):
        with Daemon(["ignores-shutdown"], {"limits.shutdown_timeout_ms": 3000}) as daemon:
            self.assertEqual(daemon.api("POST", "/stop")[0], 202)
            wait_for(lambda: daemon.api("GET", "/status")[1]["stopping"], "stopping")
            self.assertEqual(daemon.api("POST", "/reload")[0], 503)
            self.assertEqual(daemon.api("POST", "/plugins/ignores-shutdown/enable")[0], 503)
            code, _, err = daemon.cli("stop")  # a second time: it does not wait any longer
            self.assertEqual((code, err), (0, ""))

    def test_bursts_of_signals_do_not_hurt(self):
        for _ in range(5):
            with Daemon(["good-c"]) as daemon:
                for number in [signal.SIGHUP, signal.SIGTERM, signal.SIGHUP] * 5:
                    with contextlib.suppress(ProcessLookupError):
                        daemon.process.send_signal(number)

    def test_plugin_that_is_taken_off_the_list_stops_on_reload(self):
        with Daemon(["good-c", "good-bash"]) as daemon:
            daemon.write_config(**{"plugins.enabled": ["good-bash"]})
            self.assertEqual(daemon.api("POST", "/reload")[0], 200)
            daemon.wait_state("good-c", "disabled")
            self.assertEqual(daemon.status("good-bash")["state"], "running")


if __name__ == "__main__":
    main()
