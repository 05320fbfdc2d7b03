"""The audit log: what it holds, who may ask, and that a change of it is found."""
import contextlib
import glob
import json
import os
import socket
import subprocess
import threading
import time
import unittest

from harness import PLUGINS, Daemon, FlowTest, UnixConnection, at_once, main, wait_for


class Events(FlowTest):
    plugins = ["context-echo", "error-reply", "good-c", "flood"]

    def test_call_and_its_end_share_the_request_id(self):
        params = self.daemon.call("context-echo", "params.echo")
        id = params["_context"]["request_id"]
        called = [e for e in self.daemon.audit("plugin.method_called") if e["request_id"] == id]
        returned = [e for e in self.daemon.audit("plugin.method_returned") if e["request_id"] == id]
        self.assertEqual((len(called), len(returned)), (1, 1))
        self.assertEqual((called[0]["name"], called[0]["method"]), ("context-echo", "params.echo"))
        self.assertEqual(called[0]["operator_id"], params["_context"]["operator_id"])
        self.assertEqual((returned[0]["success"], returned[0]["error"]), (True, None))
        self.assertGreaterEqual(returned[0]["duration_ms"], 0)

    def test_failed_call_says_so(self):
        self.daemon.try_call("error-reply", "error.give",
                             {"error": {"code": -32000, "message": "no"}})
        returned = self.daemon.audit("plugin.method_returned", "error-reply")[-1]
        self.assertEqual((returned["success"], returned["error"]), (False, "plugin_error"))

    def test_events_have_time_and_growing_ids(self):
        self.daemon.call("good-c", "good.echo")
        events = self.daemon.audit()
        self.assertEqual(events[0]["event"], "daemon.started")
        ids = [event["id"] for event in events]
        self.assertEqual(ids, sorted(set(ids)))
        for event in events:
            self.assertRegex(event["ts"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")

    def test_payloads_are_not_kept(self):
        secret = "correct horse battery staple"
        self.daemon.call("good-c", "good.echo", {"text": secret})
        self.assertNotIn(secret, json.dumps(self.daemon.audit()))
        for path in glob.glob(os.path.join(self.daemon.home, "state/audit/*")):
            with open(path, errors="replace") as file:
                self.assertNotIn(secret, file.read())

    def test_payloads_are_kept_where_the_operator_says_so_and_secrets_are_not(self):
        daemon = Daemon(["does-as-told"], {"audit.payloads": True, "audit.stderr": True})
        with open(os.path.join(daemon.home, "plugins/does-as-told/kaged-plugin.yaml"), "a") as file:
            file.write("schemas:\n  told.run:\n    params:\n      type: object\n      properties:\n"
                       "        password: { type: string, sensitive: true }\n")
        with daemon:
            daemon.call("does-as-told", "told.run", {
                "code": "import sys; print('to hunter2hunter2', file=sys.stderr, flush=True); "
                        "result = {'is': 'hunter2' * 2, 'n': 17}",
                "password": "hunter2hunter2"})
            params, result = daemon.wait_audit("plugin.payload", "does-as-told")[:2]
            self.assertEqual((params["part"], result["part"]), ("params", "result"))
            self.assertEqual(params["request_id"], result["request_id"])
            self.assertEqual(params["payload"]["password"], "[redacted]")
            self.assertEqual(result["payload"], {"result": {"is": "[redacted]", "n": 17}})
            line = daemon.wait_audit("plugin.stderr", "does-as-told")[0]["line"]
            self.assertEqual(line, "to [redacted]")
            daemon.call("does-as-told", "told.run", {"code": "result = 'x' * 100000"})
            long = daemon.audit("plugin.payload", "does-as-told")[-1]
            self.assertIsInstance(long["payload"], str)
            self.assertLessEqual(len(long["payload"]), 65536)
            self.assertGreater(long["bytes"], 100000)

    def test_what_a_plugin_says_on_stderr_is_in_the_log_at_its_level(self):
        with Daemon(["does-as-told"], {"logging.level": "warn"}) as daemon:
            daemon.call("does-as-told", "told.run", {"code": """
import json, sys
for level in ("debug", "info", "warn", "error"):
    print(json.dumps({"level": level, "message": "at " + level}), file=sys.stderr)
print("said plainly", file=sys.stderr, flush=True)
"""})
            wait_for(lambda: "at error" in daemon.log(), "what it said")
            self.assertRegex(daemon.log(), r"warn +plugin does-as-told: stderr: .*at warn")
            self.assertRegex(daemon.log(), r"error +plugin does-as-told: stderr: .*at error")
            self.assertNotIn("at info", daemon.log())
            self.assertNotIn("said plainly", daemon.log())

    def test_what_a_request_causes_has_its_id(self):
        def caused(event, method, path, body=None):
            mine = "mine-" + event
            status, answer = self.daemon.api(method, path, body, {"X-Request-Id": mine})
            self.assertLess(status, 300, answer)
            return wait_for(lambda: [e for e in self.daemon.audit(event)
                                     if e.get("request_id") == mine], f"{event} of {mine}")
        for act in ("disabled", "enabled", "restarted", "reloaded"):
            path = {"reloaded": "reload", "restarted": "restart"}.get(act, act[:-1])
            caused("plugin." + act, "POST", f"/plugins/good-c/{path}")
            if act == "enabled":
                self.daemon.wait_state("good-c", "running")
        caused("config.reloaded", "POST", "/reload")
        root = self.daemon.write_project("p", "version: 1\nname: p\nprimary: {}\n")
        caused("project.loaded", "POST", "/projects", {"path": root})
        caused("project.reloaded", "POST", "/projects/p/reload")
        caused("project.unloaded", "DELETE", "/projects/p")
        source = os.path.join(PLUGINS, "declares-all")
        raised = caused("consent.raised", "POST", "/plugins", {"source": source})[0]
        self.assertIn("mine-consent.raised", [e.get("request_id") for e in
                                              self.daemon.wait_audit("consent.offered")])
        consent = raised["consent"]
        hash = wait_for(lambda: (self.daemon.api("GET", f"/consents/{consent}")[1].get("offer")
                                 or {}).get("hash"), "an offer")
        caused("consent.approved", "POST", f"/consents/{consent}/approve", {"hash": hash})
        installed = self.daemon.wait_audit("plugin.installed", "declares-all")[0]
        self.assertEqual(installed["request_id"], "mine-consent.approved")
        wait_for(lambda: self.daemon.api("GET", "/plugins/declares-all")[0] == 200, "the plugin")
        caused("plugin.uninstalled", "DELETE", "/plugins/declares-all")

    def test_filters(self):
        self.daemon.call("good-c", "good.echo")
        self.assertEqual({e["name"] for e in self.daemon.audit(plugin="good-c")}, {"good-c"})
        self.assertEqual({e["event"] for e in self.daemon.audit("plugin.method_*")},
                         {"plugin.method_called", "plugin.method_returned"})
        last = self.daemon.audit(limit=1)
        self.assertEqual(len(last), 1)
        self.assertEqual(self.daemon.audit(after=last[0]["id"]), [])
        self.assertEqual(self.daemon.audit(since="2099-01-01"), [])
        self.assertEqual(self.daemon.api("GET", "/audit?since=tomorrow")[0], 400)

    def test_question_waits_for_what_comes(self):
        last = self.daemon.audit(limit=1)[0]["id"]
        timer = threading.Timer(0.3, lambda: self.daemon.call("good-c", "good.echo"))
        timer.start()
        events = self.daemon.audit(plugin="good-c", after=last, wait_ms=10_000)
        timer.join()
        self.assertTrue(events)

    def test_notification_is_audited_and_a_flood_is_counted(self):
        self.daemon.call("flood", "flood.start", {"ms": 300})
        flood = self.daemon.wait_audit("plugin.notification_flood", "flood")[0]
        self.assertGreater(flood["rate"], 100)
        notes = self.daemon.audit("plugin.notification", "flood")
        self.assertEqual(notes[0]["notification_type"], "flood.drop")
        self.assertLessEqual(len(notes), 300)

    def test_command_prints_lines_of_json(self):
        self.daemon.call("good-c", "good.echo")
        code, out, err = self.daemon.cli("--json", "audit", "--event", "plugin.method_called",
                                         "--plugin", "good-c")
        self.assertEqual((code, err), (0, ""))
        for line in out.splitlines():
            self.assertEqual(json.loads(line)["event"], "plugin.method_called")
        self.assertTrue(out)


class Verify(FlowTest):
    @staticmethod
    def use(daemon):
        for number in range(20):
            daemon.call("good-c", "good.echo", {"n": number})

    @staticmethod
    def file_of(daemon):
        return sorted(glob.glob(os.path.join(daemon.home, "state/audit/*")))[0]

    def tampered(self, change):
        """Exit code and words of `audit verify` after somebody changed the lines of the log."""
        with Daemon(["good-c"]) as daemon:
            self.use(daemon)
            daemon.stop()
            self.assertEqual(daemon.cli("audit", "verify")[0], 0)
            path = self.file_of(daemon)
            with open(path) as file:
                lines = file.readlines()
            with open(path, "w") as file:
                file.writelines(change(lines))
            return daemon.cli("audit", "verify")

    def test_whole_log_is_found_whole_with_and_without_a_daemon(self):
        with Daemon(["good-c"]) as daemon:
            self.use(daemon)
            self.assertEqual(daemon.cli("audit", "verify")[0], 0)
            daemon.stop()
            code, out, err = daemon.cli("audit", "verify")
            self.assertEqual((code, err), (0, ""))

    def test_a_daemon_that_runs_tells_whether_its_log_is_whole(self):
        with Daemon(["good-c"]) as daemon:
            self.use(daemon)
            # What was not written down yet is not in it.
            wait_for(lambda: daemon.api("POST", "/audit/verify")[1]["events"] > 0, "events")
            status, report = daemon.api("POST", "/audit/verify")
            self.assertEqual((status, report["problem"]), (200, None))
            daemon.stop()
            path = self.file_of(daemon)
            with open(path) as file:
                text = file.read()
            with open(path, "w") as file:
                file.write(text.replace("good.echo", "good.evil", 1))
            daemon.start()
            status, report = daemon.api("POST", "/audit/verify")
            self.assertEqual(status, 200)
            self.assertIn(os.path.basename(path), report["problem"])
            answers = at_once([lambda: daemon.api("POST", "/audit/verify")[0] for _ in range(8)])
            self.assertLessEqual(set(answers), {200, 429})

    def test_changed_line_is_found(self):
        def change(lines):
            at = next(i for i, line in enumerate(lines) if "method_called" in line)
            lines[at] = lines[at].replace("good.echo", "good.evil")
            return lines

        code, out, err = self.tampered(change)
        self.assertEqual(code, 1)
        self.assertIn("audit", err)

    def test_missing_line_is_found(self):
        self.assertEqual(self.tampered(lambda lines: lines[:3] + lines[4:])[0], 1)

    def test_cut_off_end_is_found(self):
        self.assertEqual(self.tampered(lambda lines: lines[:len(lines) // 2])[0], 1)

    def test_log_survives_a_killed_daemon(self):
        with Daemon(["good-c"]) as daemon:
            self.use(daemon)
            before = daemon.audit()
            daemon.kill()
            daemon.start()
            after = daemon.audit()
            self.assertEqual(after[:len(before)], before)
            self.assertEqual(daemon.cli("audit", "verify")[0], 0)


class Followers(FlowTest):
    plugins = ["good-c"]

    def test_followers_that_leave_cost_nothing(self):
        # A follower that left while it waited was asked for twice, and answered twice.
        last = self.daemon.audit(limit=1)[0]["id"]
        for _ in range(100):
            connection = UnixConnection(self.daemon.socket, 5)
            connection.request("GET", f"/api/v1/audit?after={last}&wait_ms=5000")
            time.sleep(0.002)
            connection.close()
        self.assertEqual(self.daemon.call("good-c", "good.echo", {"n": 1})["n"], 1)


# Connects again and again, on its own, and writes down how that went.
CONNECTS = """
import errno, socket, sys, threading, time
def connect():
    while True:
        try:
            with socket.create_connection(("localhost", {port}), timeout=5) as connection:
                print(connection.recv(5).decode(), file=sys.stderr)
        except OSError as error:
            print(errno.errorcode[error.errno], file=sys.stderr)
        time.sleep(0.02)
threading.Thread(target=connect, daemon=True).start()
"""


@contextlib.contextmanager
def greeter():
    """The port of a server that says hello to each."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def greet():
            with contextlib.suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    with client:
                        client.sendall(b"hello")
        threading.Thread(target=greet, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@unittest.skipUnless(os.getuid() == 0, "only root can make a small disk")
class FullDisk(FlowTest):
    @contextlib.contextmanager
    def small_disk(self, daemon):
        """The log of a daemon that is not started yet is on a small disk."""
        disk = os.path.join(daemon.home, "state/audit")
        os.makedirs(disk)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "none", disk], check=True)
        try:
            yield disk
        finally:
            daemon.kill_if_running()
            subprocess.run(["umount", disk], check=True)
            daemon.discard()

    def fill(self, disk):
        with open(os.path.join(disk, "ballast"), "wb", buffering=0) as ballast:
            with contextlib.suppress(OSError):
                while True:
                    ballast.write(b"x" * 4096)

    def test_full_disk_refuses_calls_and_nothing_is_lost(self):
        daemon = Daemon(["good-c", "noise", "flood"], wait_running=False)
        with self.small_disk(daemon) as disk:
            daemon.start()
            daemon.wait_state("good-c", "running")
            daemon.wait_state("noise", "running")
            self.fill(disk)
            refused = wait_for(lambda: self.refusal(daemon), "a refused call")
            self.assertIn("the disk is full", refused["message"])
            self.assertIn("the disk is full", daemon.api("GET", "/status")[1]["audit_problem"])
            os.unlink(os.path.join(disk, "ballast"))
            wait_for(lambda: daemon.try_call("good-c", "good.echo")[0] == 200, "a taken call")
            self.assertEqual(daemon.status("good-c")["starts"], 1)
            daemon.stop()
            self.assertEqual(daemon.cli("audit", "verify")[0], 0)

    def test_connection_that_cannot_be_audited_is_not_made(self):
        daemon = Daemon(["does-as-told"])
        manifest = os.path.join(daemon.home, "plugins/does-as-told/kaged-plugin.yaml")
        with greeter() as port, self.small_disk(daemon) as disk:
            with open(manifest) as file:
                text = file.read()
            with open(manifest, "w") as file:
                file.write(text.replace("[]", f"['net:localhost:{port}']"))
            daemon.start()
            daemon.call("does-as-told", "told.run", {"code": CONNECTS.format(port=port)})
            daemon.wait_audit("plugin.net_connected", "does-as-told")
            self.fill(disk)
            wait_for(lambda: daemon.try_call("does-as-told", "told.run", {"code": ""})[0] == 503,
                     "a refused call")
            lines = lambda: daemon.api("GET", "/plugins/does-as-told/logs?lines=10000")[1]["lines"]
            wait_for(lambda: any("ECONNRESET" in line for line in lines()), "a refused connection")
            os.unlink(os.path.join(disk, "ballast"))
            wait_for(lambda: daemon.try_call("does-as-told", "told.run", {"code": ""})[0] == 200,
                     "a taken call")
            wait_for(lambda: "hello" in lines()[-1], "a connection")
            greeted = sum("hello" in line for line in lines())
            wait_for(lambda: sum(1 + event["suppressed"]
                                 for event in daemon.audit("plugin.net_connected")) >= greeted,
                     "an event of each connection")
            denied = daemon.wait_audit("plugin.net_denied", "does-as-told")
            self.assertEqual(denied[0]["reason"], "the audit log cannot be written")
            daemon.stop()
            self.assertEqual(daemon.cli("audit", "verify")[0], 0)

    def refusal(self, daemon):
        daemon.try_call("noise", "work.do")
        status, error = daemon.try_call("good-c", "good.echo")
        return status == 503 and error


if __name__ == "__main__":
    main()
