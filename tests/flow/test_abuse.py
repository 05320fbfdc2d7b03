"""Plugins that harm: the daemon's memory stays bounded, the other plugins answer meanwhile."""
import json
import os
import signal
import socket
import threading

from harness import Daemon, FlowTest, has_sanitizer, main, memory_kb, wait_for

# runs alone: how long the others wait for answers is looked at
GROWTH_MAX_KB = 150_000 if has_sanitizer() else 40_000  # a sanitizer pads and keeps what is freed


class Bounded(FlowTest):
    plugins = ["good-c", "flood", "no-read", "half-line", "request-storm", "big-result",
               "forks-and-leaves"]
    config = {"limits.call_timeout_ms": 120_000, "limits.shutdown_timeout_ms": 300}

    def setUp(self):
        self.daemon.call("good-c", "good.echo", {})
        self.before = memory_kb(self.daemon.pid)

    def tearDown(self):
        growth = memory_kb(self.daemon.pid) - self.before
        self.assertLess(growth, GROWTH_MAX_KB, "the daemon's memory grew")

    def others_answer(self, calls=40):
        """A well-behaved plugin is answered, whatever another one does meanwhile."""
        for n in range(calls):
            self.assertEqual(self.daemon.call("good-c", "good.echo", {"n": n})["n"], n)
            self.assertLess(memory_kb(self.daemon.pid) - self.before, GROWTH_MAX_KB)

    def test_flood_of_notifications_and_stderr(self):
        starts = self.daemon.status("flood")["starts"]
        self.daemon.call("flood", "flood.start", {"ms": 3_600_000})
        self.others_answer()
        stats = wait_for(lambda: [stats for stats in [self.daemon.call("flood", "flood.stats")]
                                  if stats["sent"] > 1000 and stats["limited"] > 0],
                         "a flood that is told: system.rate_limited")[0]
        self.daemon.wait_audit("plugin.notification_flood", "flood")
        status = self.daemon.status("flood")
        self.assertEqual((status["state"], status["starts"]), ("running", starts))
        self.assertLess(len(self.daemon.audit("plugin.notification", "flood")), stats["sent"])
        self.daemon.act("flood", "restart")
        self.daemon.wait_restarted("flood", starts)

    def test_flood_of_stderr_fills_no_disk(self):
        self.daemon.call("flood", "flood.start", {"ms": 500})
        wait_for(lambda: "dropped" in "".join(
            self.daemon.api("GET", "/plugins/flood/logs?lines=1000")[1]["lines"]), "the note")
        logs = os.path.join(self.daemon.home, "state/logs")
        size = sum(os.path.getsize(os.path.join(logs, name)) for name in os.listdir(logs))
        self.assertLess(size, 4 << 20)

    def test_plugin_that_writes_and_never_reads(self):
        starts = self.daemon.status("no-read")["starts"]
        self.daemon.try_call("no-read", "work.do", headers={"Kaged-Timeout-Ms": "100"})
        self.others_answer()
        self.daemon.act("no-read", "restart")
        self.daemon.wait_restarted("no-read", starts)

    def test_half_lines_up_to_the_bound(self):
        for _ in range(3):
            starts = self.daemon.wait_state("half-line", "running")["starts"]
            self.daemon.try_call("half-line", "half.send", {"bytes": (4 << 20) - 100},
                                 {"Kaged-Timeout-Ms": "300"})
            self.daemon.act("half-line", "restart")
            self.daemon.wait_restarted("half-line", starts)

    def test_storm_of_requests(self):
        answers = []
        storm = threading.Thread(target=lambda: answers.append(
            self.daemon.try_call("request-storm", "storm.start", {"count": 50_000}, timeout=180)))
        storm.start()
        self.others_answer()
        storm.join()
        self.assertEqual(answers, [(200, 50_000)])

    def test_big_results_are_given_back(self):
        size = 4_000_000
        for _ in range(2 * GROWTH_MAX_KB * 1024 // size):  # kept, they would be twice the bound
            result = self.daemon.call("big-result", "bytes.give", {"bytes": size})
            self.assertGreaterEqual(len(json.dumps(result)), size)
            self.assertLess(memory_kb(self.daemon.pid) - self.before, GROWTH_MAX_KB)

    def test_caller_that_does_not_read_its_answer(self):
        clients = []
        for _ in range(4):
            client = socket.socket(socket.AF_UNIX)
            client.connect(self.daemon.socket)
            body = b'{"bytes":4000000}'
            client.sendall(b"POST /api/v1/plugins/big-result/call/bytes.give HTTP/1.1\r\n"
                           b"Host: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            clients.append(client)
        self.others_answer()
        for client in clients:
            client.close()

    def test_plugin_that_forks_and_leaves_again_and_again(self):
        for _ in range(3):
            starts = self.daemon.wait_state("forks-and-leaves", "running")["starts"]
            self.daemon.call("forks-and-leaves", "work.do")
            self.daemon.wait_restarted("forks-and-leaves", starts)


class World(FlowTest):
    plugins = ["env-dump"]

    def test_environment_is_the_documented_one(self):
        folder = os.path.join(self.daemon.home, "plugins/env-dump")
        world = self.daemon.call("env-dump", "world.show")
        env = world["env"]
        env.pop("LC_CTYPE", None)
        self.assertEqual(env, {
            "KAGED_PLUGIN_NAME": "env-dump", "KAGED_PLUGIN_DIR": folder, "KAGED_API_VERSION": "1",
            "KAGED_LOG_LEVEL": "info", "HOME": folder, "PATH": "/usr/bin:/usr/local/bin",
            "LANG": "C.UTF-8", "TMPDIR": "/tmp"})
        self.assertEqual(world["cwd"], folder)
        self.assertEqual(world["fds"], [0, 1, 2])

    def test_install_folder_is_read_only(self):
        self.assertIn(self.daemon.call("env-dump", "folder.write"),
                      ("Read-only file system", "Permission denied"))
        self.assertFalse(os.path.exists(os.path.join(self.daemon.home,
                                                     "plugins/env-dump/written")))

    def test_variables_of_the_manifest_cannot_pretend(self):
        daemon = Daemon(["env-dump"])
        with open(os.path.join(daemon.home, "plugins/env-dump/kaged-plugin.yaml"), "a") as file:
            file.write("env: {KAGED_PLUGIN_NAME: root, LANG: de_DE.UTF-8, MINE: yes it is}\n")
        with daemon:
            env = daemon.call("env-dump", "world.show")["env"]
            self.assertEqual((env["KAGED_PLUGIN_NAME"], env["LANG"], env["MINE"]),
                             ("env-dump", "de_DE.UTF-8", "yes it is"))


class Crowd(FlowTest):
    def test_many_plugins_in_a_storm_of_kills(self):
        names = [f"good-c as twin-{number}" for number in range(12)]
        with Daemon(names) as daemon:
            for starts in range(3):
                for name in daemon.names:
                    os.kill(daemon.wait_restarted(name, starts)["pid"], signal.SIGKILL)
            for name in daemon.names:
                daemon.wait_restarted(name, 3)
                self.assertEqual(daemon.call(name, "good.echo", {"n": 1})["n"], 1)

    def test_plugin_that_stops_itself_is_ended_all_the_same(self):
        with Daemon(["crash-at-call", "good-c"], {"limits.call_timeout_ms": 300,
                                                  "limits.term_timeout_ms": 300}) as daemon:
            answer = daemon.try_call("crash-at-call", "crash.signal",
                                     {"signal": int(signal.SIGSTOP)})
            self.assert_error(answer, 504, "plugin_timeout")
            daemon.wait_restarted("crash-at-call", 1)


if __name__ == "__main__":
    main()
