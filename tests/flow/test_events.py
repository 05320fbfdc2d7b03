"""Events on a WebSocket, as a client that is not ours sees them, and HTTP clients that are no good."""
import contextlib
import json
import os
import queue
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

from harness import PATIENCE, ROOT, Daemon, FlowTest, has_sanitizer, main, memory_kb, wait_for

CLIENT = os.path.join(ROOT, "tests/lib/websocket_client.py")

NOTIFY = """
import json
print(json.dumps({"jsonrpc": "2.0", "method": METHOD, "params": PARAMS}), flush=True)
"""


def python_with_websockets():
    """Debian's library is seen by Debian's Python, which need not be the first in PATH."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import websockets"], capture_output=True).returncode == 0:
            return python
    if os.environ.get("CI") == "true":
        raise AssertionError("python3-websockets is not installed")
    raise unittest.SkipTest("python3-websockets is not installed")


class Reader:
    """The events of a daemon, as they come."""

    def __init__(self, daemon, query="", token=None):
        where = [daemon.socket, "/api/v1/events" + query]
        if token is not None:
            where = [daemon.api("GET", "/status")[1]["tcp"], where[1], token]
        self.process = subprocess.Popen(
            [python_with_websockets(), CLIENT, *where],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"})
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()
        line = self.line()
        assert line == "open", line

    def read(self):
        for line in self.process.stdout:
            self.lines.put((time.time(), line.rstrip("\n")))
        self.lines.put((time.time(), None))

    def line(self):
        line = self.lines.get(timeout=PATIENCE)[1]
        if line is None:
            raise AssertionError("the client ended: " + self.process.stderr.read())
        return line

    def until(self, **wanted):
        """The next event that has all of these members, and when it came."""
        while True:
            at, line = self.lines.get(timeout=PATIENCE)
            if line is None:
                raise AssertionError("the client ended: " + self.process.stderr.read())
            event = json.loads(line)
            if all(event.get(key) == value for key, value in wanted.items()):
                return at, event

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


def upgrade(daemon, query):
    """A WebSocket as a bare socket, which does nothing by itself."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(PATIENCE)
    client.connect(daemon.socket)
    client.sendall(f"GET /api/v1/events?{query} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"
                   "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                   "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head:
        head += client.recv(1)
    assert b" 101 " in head, head
    return client


def notify(daemon, method, params):
    code = NOTIFY.replace("METHOD", repr(method)).replace("PARAMS", repr(params))
    assert "error" not in daemon.call("does-as-told", "told.run", {"code": code})


class Events(FlowTest):
    plugins = ["does-as-told", "good-c"]

    def test_notification_is_seen(self):
        with Reader(self.daemon, "?plugin=does-as-told&type=notification") as reader:
            notify(self.daemon, "told.news", {"text": "hi \u00e9", "n": [1, 2]})
            event = reader.until(type="notification")[1]
            self.assertEqual((event["plugin"], event["method"], event["params"]),
                             ("does-as-told", "told.news", {"text": "hi \u00e9", "n": [1, 2]}))
            self.assertRegex(event["at"], r"^20\d\d-.*Z$")

    def test_states_of_a_restart_come_in_order(self):
        with Reader(self.daemon, "?plugin=good-c&type=state") as reader:
            self.daemon.act("good-c", "restart")
            moves = [reader.until(type="state")[1] for _ in range(4)]
        self.assertEqual([(move["from"], move["to"]) for move in moves],
                         [("running", "stopping"), ("stopping", "stopped"),
                          ("stopped", "spawning"), ("spawning", "running")])
        self.assertEqual(moves[0]["reason"], "the operator restarts it")
        self.daemon.wait_state("good-c", "running")

    def test_crash_has_its_reason(self):
        with Reader(self.daemon, "?event=crashed") as reader:
            os.kill(self.daemon.wait_state("good-c", "running")["pid"], signal.SIGKILL)
            event = reader.until(type="state", plugin="good-c")[1]
        self.assertEqual(event["from"], "running")
        self.assertIn("signal 9", event["reason"])
        self.daemon.wait_state("good-c", "running")

    def test_audit_events_are_those_of_the_log(self):
        with Reader(self.daemon, "?type=audit&plugin=good-c&event=plugin.method_*") as reader:
            self.daemon.call("good-c", "good.echo", {"n": 1})
            called = reader.until(event="plugin.method_called")[1]
            returned = reader.until(event="plugin.method_returned")[1]
        self.assertEqual(called.pop("type"), "audit")
        self.assertIn(called, self.daemon.audit("plugin.method_called", "good-c"))
        self.assertEqual(returned["request_id"], called["request_id"])

    def test_url_without_upgrade_says_what_it_speaks(self):
        status, answer = self.daemon.api("GET", "/events")
        self.assertEqual((status, answer["error"]["code"]), (426, "usage"))
        self.assertIn("Upgrade", answer["error"]["hint"])


class Allowed(FlowTest):
    """Over TCP: who may see what, and for how long."""
    plugins = ["does-as-told"]
    config = {"daemon.bind": "127.0.0.1:0"}

    def token(self, name, *scopes):
        status, made = self.daemon.api("POST", "/tokens", {"name": name, "scopes": scopes})
        self.assertEqual(status, 201, made)
        return made["token"]

    def test_audit_events_are_for_those_who_may_read_the_log(self):
        with Reader(self.daemon, token=self.token("reads", "plugins:read")) as reader, \
                Reader(self.daemon, token=self.token("both", "plugins:read", "audit:read")) as auditor:
            notify(self.daemon, "told.news", {})
            self.assertEqual(json.loads(reader.line())["type"], "notification")
            auditor.until(type="audit", event="plugin.method_called")
            auditor.until(type="notification")
            self.daemon.act("does-as-told", "restart")
            self.assertEqual(json.loads(reader.line())["type"], "state")
        self.daemon.wait_state("does-as-told", "running")
        with self.assertRaisesRegex(AssertionError, "403"):
            with Reader(self.daemon, "?type=audit", token=self.token("asks", "plugins:read")):
                pass

    def test_token_without_the_scope_opens_nothing(self):
        with self.assertRaisesRegex(AssertionError, "403"):
            with Reader(self.daemon, token=self.token("calls", "plugins:call")):
                pass

    def test_revoked_token_ends_what_it_opened(self):
        with Reader(self.daemon, token=self.token("short-lived", "plugins:read")) as reader, \
                Reader(self.daemon, token=self.token("stays", "plugins:read")) as other:
            self.assertEqual(self.daemon.api("DELETE", "/tokens/short-lived")[0], 200)
            self.assertEqual(reader.line(), "closed 1008")
            notify(self.daemon, "told.news", {})
            other.until(type="notification")


class Slow(FlowTest):
    plugins = ["flood", "good-c"]
    config = {"limits.ws_queue_bytes": 4096, "limits.ws_ping_ms": 60_000,
              "limits.notifications_per_sec": 100_000}

    def test_reader_that_never_reads_costs_the_others_nothing(self):
        before = memory_kb(self.daemon.pid)
        with contextlib.closing(upgrade(self.daemon, "plugin=flood")) as client, \
                Reader(self.daemon, "?plugin=good-c&type=audit") as reader:
            self.daemon.call("flood", "flood.start", {"ms": 1500})
            for number in range(5):
                self.daemon.call("good-c", "good.echo", {"n": number})
                reader.until(event="plugin.method_returned")
            wait_for(lambda: self.daemon.call("flood", "flood.stats")["sent"] > 1000, "a flood")
            received, deadline = b"", time.monotonic() + PATIENCE
            while b'{"type":"missed","count":' not in received:
                received += client.recv(1 << 16)
                self.assertLess(time.monotonic(), deadline)
        self.assertLess(memory_kb(self.daemon.pid) - before, 150_000 if has_sanitizer() else 20_000)


class End(FlowTest):
    def test_stopping_daemon_tells_its_end_and_goes_away(self):
        with Daemon(["good-c"]) as daemon, Reader(daemon) as reader:
            daemon.stop()
            reader.until(type="state", to="stopped")
            reader.until(type="audit", event="daemon.stopped")
            self.assertEqual(reader.line(), "closed 1001")

    def test_limits_change_with_a_reload(self):
        with Daemon(config={"limits.ws_connections": 1}) as daemon, Reader(daemon):
            with self.assertRaisesRegex(AssertionError, "503"):
                with Reader(daemon):
                    pass
            daemon.write_config(limits__ws_connections=2, limits__ws_ping_ms=50,
                                limits__ws_queue_bytes=4096)
            daemon.api("POST", "/reload")
            with Reader(daemon):
                pass
            # Another one may come now, and is let go, since it answers no ping.
            with contextlib.closing(upgrade(daemon, "type=state")) as client:
                received = b""
                while piece := client.recv(1 << 16):
                    received += piece
                self.assertIn(b"\x03\xf3no answer to a ping", received)


class Crowd(FlowTest):
    COUNT = 2000 if has_sanitizer() else 10_000
    plugins = ["good-c"]
    config = {"limits.http_connections": 20_000, "limits.http_idle_ms": 120_000}

    def answers(self):
        """False: the queue of connections to be accepted is full at this moment."""
        with contextlib.suppress(BlockingIOError):
            return self.daemon.call("good-c", "good.echo", {"n": 1})["n"] == 1
        return False

    def test_many_idle_connections_cost_little_and_others_are_served(self):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        count = min(self.COUNT, (hard if hard > 0 else 1 << 20) - 200)
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        resource.setrlimit(resource.RLIMIT_NOFILE, (count + 200, hard))
        before = memory_kb(self.daemon.pid)
        clients = []
        try:
            for _ in range(count):
                client = socket.socket(socket.AF_UNIX)
                clients.append(client)
                client.connect(self.daemon.socket)
            wait_for(self.answers, "an answer")
            each = (memory_kb(self.daemon.pid) - before) / count
            print(f"# {count} idle connections, {each:.1f} KiB each")
            self.assertLess(each, 16 if has_sanitizer() else 4)
        finally:
            for client in clients:
                client.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        wait_for(self.answers, "an answer")


if __name__ == "__main__":
    main()
