"""What is said with a plugin, as it happens and as it was recorded, with nothing secret in it."""
import contextlib
import http.client
import json
import os
import queue
import signal
import socket
import subprocess
import threading

from harness import KAGED, PATIENCE, Daemon, FlowTest, UnixConnection, main, wait_for
from terminal import CTRL_C, Terminal

SECRET = "tok-5e7c0ffee-and-more"
PASSWORD = "correct horse \"battery\""
SAY = "import sys; print({!r}, file=sys.stderr, flush=True)"
# What the plugin got as its password, told again where no schema calls it sensitive.
TELL = "import sys; result = sys._getframe(2).f_globals['message']['params']['password']"
SCHEMAS = """
schemas:
  told.run:
    params:
      type: object
      properties:
        password: { type: string, sensitive: true }
"""


class Trace:
    """The records of a live trace, as they come; the header is the first."""

    def __init__(self, daemon, plugin, token=None):
        self.connection = UnixConnection(daemon.socket, PATIENCE * 3)
        headers = {}
        if token is not None:
            self.connection = http.client.HTTPConnection(daemon.api("GET", "/status")[1]["tcp"])
            headers = {"Authorization": "Bearer " + token}
        self.connection.request("GET", f"/api/v1/plugins/{plugin}/trace", headers=headers)
        self.response = self.connection.getresponse()
        self.records = queue.Queue()
        self.kept = []
        threading.Thread(target=self.read, daemon=True).start()
        self.header = self.next() if self.response.status == 200 else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError, AttributeError):
            self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.connection.close()

    def read(self):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            for line in self.response:
                self.records.put(json.loads(line))
        self.records.put(None)

    def next(self):
        record = self.records.get(timeout=PATIENCE)
        self.kept.append(record)
        return record

    def until(self, condition):
        """Reads on to the first record that the condition is true of."""
        while True:
            record = self.next()
            assert record is not None, f"the trace ended: {self.kept[-3:]}"
            if condition(record):
                return record

    def message(self, way, **members):
        """The first message that way that has these members."""
        return json.loads(self.until(
            lambda record: record["dir"] == way and
            members.items() <= json.loads(record["line"]).items())["line"])


def records_of(text):
    return [json.loads(line) for line in text.splitlines()]


def run(daemon, code, **more):
    return daemon.call("does-as-told", "told.run", {"code": code, **more})


class Live(FlowTest):
    plugins = ["good-python", "does-as-told"]

    def test_a_call_is_shown_both_ways_with_its_id_and_times(self):
        with Trace(self.daemon, "good-python") as trace:
            self.daemon.call("good-python", "good.echo", {"text": "hello"})
            asked = trace.message("to", method="good.echo")
            answer = trace.message("from", id=asked["id"])
            self.assertEqual(asked["params"]["text"], "hello")
            self.assertIn("hello", json.dumps(answer["result"]))
            times = [record["t_us"] for record in trace.kept[1:]]
            self.assertEqual(times, sorted(times))
            self.assertGreaterEqual(times[0], 0)

    def test_the_header_says_what_the_trace_is_of(self):
        with Trace(self.daemon, "good-python") as trace:
            self.assertEqual(trace.header["kaged_trace"], 1)
            self.assertEqual((trace.header["plugin"], trace.header["version"]),
                             ("good-python", "1.0.0"))
            self.assertRegex(trace.header["manifest_hash"], "^sha256:[0-9a-f]{64}$")
            self.assertEqual(trace.header["initialize"]["plugin_name"], "good-python")

    def test_stderr_and_noise_come_between_the_messages(self):
        with Trace(self.daemon, "does-as-told") as trace:
            run(self.daemon, SAY.format("to whom it may concern") + "; print('no JSON', flush=True)")
            self.assertEqual(trace.until(lambda r: r["dir"] == "stderr")["line"],
                             "to whom it may concern")
            self.assertIn("no JSON", [r["line"] for r in trace.kept[1:] if r["dir"] == "from"] +
                          [trace.until(lambda r: r["dir"] == "from")["line"]])

    def test_two_readers_see_the_same_and_one_may_leave(self):
        with Trace(self.daemon, "good-python") as first:
            with Trace(self.daemon, "good-python") as second:
                self.daemon.call("good-python", "good.echo", {"text": "both"})
                for trace in (first, second):
                    self.assertEqual(trace.message("to", method="good.echo")["params"]["text"], "both")
            self.daemon.call("good-python", "good.echo", {"text": "one"})
            first.until(lambda r: r["dir"] == "to" and '"one"' in r["line"])

    def test_a_trace_goes_on_over_a_restart_and_says_so(self):
        with Trace(self.daemon, "does-as-told") as trace:
            starts = self.daemon.status("does-as-told")["starts"]
            with contextlib.suppress(AssertionError):
                run(self.daemon, "import os; os._exit(3)")
            self.assertEqual(trace.until(lambda r: r["dir"] == "state")["to"], "crashed")
            self.assertIn("exited with code 3", trace.kept[-1]["reason"])
            trace.message("to", method="initialize")
            trace.until(lambda r: r["dir"] == "state" and r["to"] == "running")
            self.daemon.wait_restarted("does-as-told", starts)

    def test_a_plugin_that_is_not_there_has_no_trace(self):
        status, answer = self.daemon.api("GET", "/plugins/nobody/trace")
        self.assertEqual((status, answer["error"]["code"]), (404, "not_found"))

    def test_there_are_three_kinds_of_traces(self):
        status, answer = self.daemon.api("GET", "/plugins/good-python/trace?of=love")
        self.assertEqual(status, 400, answer)
        self.assertIn("recorded", answer["error"]["hint"])

    def test_following_is_in_the_audit_log(self):
        with Trace(self.daemon, "good-python"):
            event = self.daemon.wait_audit("plugin.traced", "good-python")[-1]
        self.assertEqual(event["act"], "followed")


class Bounds(FlowTest):
    def test_a_reader_that_does_not_read_is_told_what_it_lost(self):
        config = {"limits.trace_queue_bytes": 4096}
        with Daemon(["does-as-told"], config) as daemon:
            connection = UnixConnection(daemon.socket, PATIENCE)
            connection.connect()
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.request("GET", "/api/v1/plugins/does-as-told/trace")
            for _ in range(60):
                run(daemon, "result = 'x' * 20000")
            connection.sock.settimeout(PATIENCE)
            response = connection.getresponse()
            lines = [json.loads(response.readline())]
            while lines[-1].get("dir") != "missed":
                lines.append(json.loads(response.readline()))
            self.assertGreater(lines[-1]["count"], 10)
            run(daemon, "result = 'after'")
            while "after" not in lines[-1].get("line", ""):
                lines.append(json.loads(response.readline()))
            connection.close()

    def test_only_so_many_read_at_once(self):
        with Daemon(["good-c"], {"limits.trace_readers": 1}) as daemon:
            with Trace(daemon, "good-c"):
                status, answer = daemon.api("GET", "/plugins/good-c/trace")
                self.assertEqual((status, answer["error"]["code"]), (429, "resource_busy"), answer)
            wait_for(lambda: self.try_trace(daemon) == 200, "room for the next")

    @staticmethod
    def try_trace(daemon):
        with Trace(daemon, "good-c") as trace:
            return trace.response.status

    def test_a_long_line_is_cut_and_says_how_long_it_was(self):
        with Daemon(["does-as-told"], {"limits.trace_line_bytes": 1024}) as daemon:
            with Trace(daemon, "does-as-told") as trace:
                run(daemon, "result = 'y' * 5000")
                record = trace.until(lambda r: "cut_from" in r)
                self.assertEqual((record["dir"], len(record["line"])), ("from", 1024))
                self.assertGreater(record["cut_from"], 5000)

    def test_a_daemon_that_stops_ends_the_trace_after_the_plugin(self):
        with Daemon(["good-c"]) as daemon:
            with Trace(daemon, "good-c") as trace:
                daemon.process.send_signal(signal.SIGTERM)
                trace.message("to", method="shutdown")
                while trace.next() is not None:
                    pass
                self.assertEqual(trace.kept[-2]["dir"], "state")


class Tokens(FlowTest):
    plugins = ["good-c"]
    config = {"daemon.bind": "127.0.0.1:0"}

    def token(self, name, *scopes):
        return self.daemon.api("POST", "/tokens", {"name": name, "scopes": scopes})[1]["token"]

    def test_only_an_admin_may_see_what_is_said(self):
        token = self.token("all-but-admin", "plugins:read", "plugins:write", "plugins:call",
                           "sessions:read", "audit:read")
        with Trace(self.daemon, "good-c", token) as trace:
            self.assertEqual(trace.response.status, 403)

    def test_a_token_that_is_revoked_ends_the_trace(self):
        with Trace(self.daemon, "good-c", self.token("short-lived", "admin")) as trace, \
                Trace(self.daemon, "good-c", self.token("stays", "admin")) as other:
            self.assertEqual(self.daemon.api("DELETE", "/tokens/short-lived")[0], 200)
            self.assertIsNone(trace.next())
            self.daemon.act("good-c", "restart")
            other.message("to", method="initialize")


class Secrets(FlowTest):
    def test_what_is_secret_is_nowhere_in_a_trace(self):
        daemon = Daemon(["takes-config", "does-as-told"])
        daemon.write_local(f'[plugins.takes-config]\napi_token = "{SECRET}"\npin = 271828\n')
        with open(os.path.join(daemon.home, "plugins/does-as-told/kaged-plugin.yaml"), "a") as file:
            file.write(SCHEMAS)
        with daemon:
            with Trace(daemon, "takes-config") as trace:
                daemon.act("takes-config", "restart")
                told = trace.message("to", method="config.update")
                daemon.wait_state("takes-config", "running")
                self.assertEqual(told["params"]["config"]["api_token"], "[redacted]")
                self.assertEqual(told["params"]["config"]["budget"], "mid")
                daemon.call("takes-config", "config.get")
                trace.until(lambda r: r["dir"] == "from" and "budget" in r["line"])
                self.assertTrue(trace.kept[-1]["redacted"])
                self.assertEqual(trace.header["config"]["pin"], "[redacted]")
                everything = json.dumps(trace.kept)
                self.assertNotIn(SECRET, everything)
                self.assertNotIn("271828", everything)
            with Trace(daemon, "does-as-told") as trace:
                run(daemon, TELL + "; print(result, file=sys.stderr, flush=True)", password=PASSWORD)
                asked = trace.message("to", method="told.run")
                self.assertEqual(asked["params"]["password"], "[redacted]")
                answer = trace.message("from", id=asked["id"])
                self.assertEqual(answer["result"]["result"], "[redacted]")
                run(daemon, SAY.format("the end"))
                trace.until(lambda r: r["dir"] == "stderr" and r["line"] == "the end")
                self.assertNotIn("battery", json.dumps(trace.kept))


    def test_what_is_secret_is_nowhere_in_the_log_the_status_or_the_audit_log(self):
        # A plugin's log had what the trace hid, and its exit report brought it into the audit log.
        daemon = Daemon(["does-as-told"], {"logging.level": "debug"})
        daemon.write_local(f'[plugins.does-as-told]\ntoken = "{SECRET}"\n')
        with open(os.path.join(daemon.home, "plugins/does-as-told/kaged-plugin.yaml"), "a") as file:
            file.write(SCHEMAS + "system_config_schema:\n  type: object\n"
                                 "  properties:\n    token: { type: string }\n")
        with daemon:
            run(daemon, TELL + "; print('got', result, file=sys.stderr, flush=True)",
                password=PASSWORD)
            half = len(SECRET) // 2
            daemon.try_call("does-as-told", "told.run", {"code": f"""
import array, base64, fcntl, os, termios, time
os.write(2, b"in two reads: {SECRET[:half]}")
unread = array.array("i", [1])
while unread[0]:
    fcntl.ioctl(2, termios.FIONREAD, unread)
os.write(2, b"{SECRET[half:]}\\n")
os.write(2, b"in base64: " + base64.b64encode(b"user:{SECRET}!") + b"\\n")
os.write(2, b"cut: " + b"x" * (8192 - 5 - {half}) + b"{SECRET}\\n")
os.write(1, b"noise with {SECRET}\\n")
os.write(2, b"the end\\n")
os._exit(3)
"""})
            daemon.wait_audit("plugin.crashed", "does-as-told")
            lines = daemon.api("GET", "/plugins/does-as-told/logs?lines=100")[1]["lines"]
            self.assertIn("the end", lines[-1])
            self.assertIn("in two reads: [redacted]", "".join(lines))
            with open(os.path.join(daemon.home, "state/logs/does-as-told.log")) as file:
                kept = file.read()
            everything = "".join([json.dumps(lines), kept, daemon.log(),
                                  json.dumps(daemon.status("does-as-told")),
                                  json.dumps(daemon.audit(limit=1000))])
            self.assertIn("the end", everything)
            for text in (SECRET, SECRET[:half], "battery", "NWU3YzBmZmVl", "U3YzBmZmVl"):
                self.assertNotIn(text, everything)

    def test_a_manifest_that_comes_with_a_restart_says_what_is_secret_from_then_on(self):
        with Daemon(["does-as-told"]) as daemon, Trace(daemon, "does-as-told") as trace:
            path = os.path.join(daemon.home, "plugins/does-as-told/kaged-plugin.yaml")
            with open(path, "a") as file:
                file.write(SCHEMAS)
            daemon.approve("does-as-told")
            starts = daemon.status("does-as-told")["starts"]
            daemon.act("does-as-told", "restart")
            daemon.wait_restarted("does-as-told", starts)
            run(daemon, "result = 1", password=PASSWORD)
            asked = trace.message("to", method="told.run")
            self.assertEqual(asked["params"]["password"], "[redacted]")


class Recorder(FlowTest):
    def switch(self, daemon, plugin, record):
        status, answer = daemon.api("POST", f"/plugins/{plugin}/trace", {"record": record})
        self.assertEqual(status, 200, answer)
        return answer["recorded"]

    def read(self, daemon, plugin, of):
        status, text = daemon.raw("GET", f"/api/v1/plugins/{plugin}/trace?of={of}")
        self.assertEqual(status, 200, text)
        return records_of(text)

    def test_the_report_of_a_crash_carries_what_was_recorded(self):
        with Daemon(["crash-at-call"]) as daemon:
            self.switch(daemon, "crash-at-call", True)
            daemon.try_call("crash-at-call", "crash.exit", {"code": 7})
            report = daemon.wait_exit("crash-at-call", "exited")
            self.assertGreater(report["trace"]["records"], 1)
            daemon.wait_restarted("crash-at-call", 1)
            header, *records = self.read(daemon, "crash-at-call", "crash")
            self.assertEqual(header["plugin"], "crash-at-call")
            ways = [record["dir"] for record in records]
            self.assertEqual(ways, ["to", "stderr", "state"])
            self.assertIn("exited with code 7", records[-1]["reason"])
            # The recorder itself went on, over the restart.
            later = self.read(daemon, "crash-at-call", "recorded")
            self.assertIn('"initialize"', "".join(r.get("line", "") for r in later))

    def test_a_recorder_keeps_only_the_last(self):
        with Daemon(["good-python"], {"limits.trace_records": 4}) as daemon:
            self.switch(daemon, "good-python", True)
            for number in range(5):
                daemon.call("good-python", "good.echo", {"text": f"n{number}"})
            _, missed, *records = self.read(daemon, "good-python", "recorded")
            self.assertEqual((missed["dir"], missed["count"], len(records)), ("missed", 6, 4))
            self.assertIn("n4", records[-1]["line"])
            self.assertIsNone(self.switch(daemon, "good-python", False))
            status, answer = daemon.api("GET", "/plugins/good-python/trace?of=recorded")
            self.assertEqual((status, answer["error"]["code"]), (404, "not_found"))

    def test_an_exit_without_a_recorder_has_no_trace(self):
        with Daemon(["crash-at-call"]) as daemon:
            daemon.try_call("crash-at-call", "crash.exit", {"code": 7})
            self.assertIsNone(daemon.wait_exit("crash-at-call", "exited")["trace"])
            status, answer = daemon.api("GET", "/plugins/crash-at-call/trace?of=crash")
            self.assertEqual(status, 404)
            self.assertIn("--on", answer["error"]["hint"])


class Command(FlowTest):
    plugins = ["good-python", "crash-at-call"]

    @contextlib.contextmanager
    def tracing(self, plugin, *options):
        """kaged plugin trace, once it follows; Ctrl-C ends it."""
        before = len(self.daemon.audit("plugin.traced", plugin))
        process = self.daemon.popen("plugin", "trace", plugin, *options, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)
        try:
            wait_for(lambda: len(self.daemon.audit("plugin.traced", plugin)) > before, "a reader")
            yield process
        finally:
            process.kill()
            process.communicate()

    def leave(self, process):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, err)
        return out, err

    def test_both_ways_are_shown_until_ctrl_c(self):
        with self.tracing("good-python") as process:
            self.daemon.call("good-python", "good.echo", {"text": "hello"})
            lines = [process.stdout.readline() for _ in range(3)]
            self.leave(process)
        self.assertIn("trace of good-python 1.0.0", lines[0])
        self.assertRegex(lines[1], r"^ +\d+\.\d{6} --> good.echo #\d+ .*hello")
        self.assertRegex(lines[2], r"^ +\d+\.\d{6} <-- good.echo #\d+ [0-9.]+(us|ms|s) .*hello")

    def test_on_a_terminal_it_has_colours_and_ctrl_c_ends_it(self):
        env = self.daemon.environment()
        env.pop("NO_COLOR", None)
        with Terminal([KAGED, "--home", self.daemon.home, "plugin", "trace", "good-python"],
                      env) as terminal:
            terminal.read_until("trace of good-python")
            self.daemon.call("good-python", "good.echo", {"text": "\x1b[7m"})
            terminal.read_until("\x1b[36m-->\x1b[0m good.echo")
            terminal.read_until("\x1b[32m<--\x1b[0m good.echo")
            terminal.type(CTRL_C)
            self.assertEqual(terminal.process.wait(PATIENCE), 0)
            self.assertNotIn("\x1b[7m", terminal.raw)

    def test_a_file_is_written_for_its_owner_only(self):
        path = os.path.join(self.daemon.base, "t.trace")
        with self.tracing("good-python", "-o", path) as process:
            self.daemon.call("good-python", "good.echo", {"text": "kept"})
            wait_for(lambda: os.path.exists(path) and open(path).read().count("\n") == 3, "records")
            out, err = self.leave(process)
        self.assertEqual(out, "")
        self.assertIn("2 records in", err)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        with open(path) as file:
            self.assertEqual([r.get("dir") for r in records_of(file.read())], [None, "to", "from"])

    def test_a_file_that_cannot_be_written_is_said_at_once(self):
        with self.tracing("good-python", "-o", "/nowhere/t.trace") as process:
            _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 1)
        self.assertIn("/nowhere/t.trace", err)

    def test_status_says_how_to_get_at_what_a_crash_left(self):
        code, out, _ = self.daemon.cli("plugin", "trace", "crash-at-call", "--on")
        self.assertEqual((code, out), (0, "the recorder of crash-at-call is on\n"))
        self.daemon.try_call("crash-at-call", "crash.exit", {"code": 9})
        self.daemon.wait_exit("crash-at-call", "exited")
        _, out, _ = self.daemon.cli("plugin", "status", "crash-at-call")
        self.assertIn("plugin trace crash-at-call --crash -o FILE", out)
        path = os.path.join(self.daemon.base, "crash.trace")
        self.assertEqual(self.daemon.cli("plugin", "trace", "crash-at-call", "--crash", "-o", path)[0],
                         0)
        _, out, _ = self.daemon.cli("plugin", "trace", "crash-at-call", "--crash")
        self.assertIn("exited with code 9", out)
        self.assertIn("exited with code 9", open(path).read())

    def test_a_file_that_is_there_survives_a_plugin_that_is_not(self):
        path = os.path.join(self.daemon.base, "old.trace")
        with open(path, "w") as file:
            file.write("old")
        code, _, err = self.daemon.cli("plugin", "trace", "nobody", "-o", path)
        self.assertEqual((code, open(path).read()), (4, "old"), err)


if __name__ == "__main__":
    main()
