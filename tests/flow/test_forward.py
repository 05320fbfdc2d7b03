"""[audit] forward: each event reaches the journal, syslog or an address, once it is in the log; what is away is
tried again, a restart goes on where it was, and what could not be sent is counted."""
import array
import glob
import http.server
import json
import os
import re
import socket
import threading
import unittest

from harness import PATIENCE, Daemon, main, wait_for


class Receiver:
    """An address that takes batches, with the status that it is told to answer."""

    def __init__(self, port=0):
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = outer.answer(body)
                with outer.lock:
                    outer.requests.append((status, dict(self.headers), body))
                if status == 200:
                    outer.lines += body.decode().splitlines()
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.lock, self.requests, self.lines = threading.Lock(), [], []
        self.answer = lambda body: 200
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/in?source=kaged"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def events(self):
        return [json.loads(line) for line in list(self.lines)]

    def ids(self):
        return [event["id"] for event in self.events()]


def logged(daemon):
    """All lines of events in the log, as they are."""
    lines = []
    for path in sorted(glob.glob(os.path.join(daemon.home, "state/audit/*.ndjson"))):
        with open(path) as file:
            lines += [line for line in file.read().splitlines() if line.startswith('{"ts":')]
    return lines


def newest_file(daemon):
    """The number of the log's newest file."""
    paths = glob.glob(os.path.join(daemon.home, "state/audit/audit-*.ndjson"))
    return max((int(re.search(r"-(\d+)\.ndjson", path)[1]) for path in paths), default=0)


def all_taken(daemon, receiver):
    """The receiver has all events of this start, and the daemon has heard so."""
    return logged(daemon) == receiver.lines and daemon.figure("kaged_audit_forward_waiting_bytes") == 0


def call(daemon, times=1):
    for _ in range(times):
        daemon.call("good-c", "good.echo", {"text": "hi"})


class Address(unittest.TestCase):
    def forwarding(self, url, **config):
        return Daemon(["good-c"], {"audit.forward": url, **config})

    def test_each_event_comes_as_it_is_in_the_log(self):
        with Receiver() as receiver, self.forwarding(receiver.url) as daemon:
            call(daemon, 20)
            wait_for(lambda: logged(daemon) == receiver.lines
                     and daemon.figure("kaged_audit_forward_sent_total") == len(receiver.lines), "all events")
            self.assertEqual(receiver.events()[0]["event"], "daemon.started")
            headers = receiver.requests[0][1]
            self.assertEqual(headers["Content-Type"], "application/x-ndjson")
            self.assertEqual(daemon.figure("kaged_audit_forward_lost_total"), 0)

    def test_a_header_has_a_secret_in_it(self):
        with Receiver() as receiver:
            daemon = self.forwarding(receiver.url)
            daemon.write_local('[services.audit]\nheaders = { Authorization = "Bearer ${secret:siem}" }\n')
            code, _, words = daemon.cli("secret", "set", "siem", input="a-long-secret-value")
            self.assertEqual(code, 0, words)
            with daemon:
                wait_for(lambda: receiver.lines, "the first batch")
                self.assertEqual(receiver.requests[0][1]["Authorization"], "Bearer a-long-secret-value")
                self.assertNotIn("a-long-secret-value", daemon.log())

    def test_a_secret_that_is_missing_is_said_and_nothing_is_sent(self):
        with Receiver() as receiver:
            daemon = self.forwarding(receiver.url)
            daemon.write_local('[services.audit]\nheaders = { Authorization = "Bearer ${secret:siem}" }\n')
            with daemon:
                call(daemon)
                wait_for(lambda: "siem" in daemon.log(), "words in the log")
                wait_for(lambda: "siem" in daemon.cli("doctor")[1], "words of the doctor, after the first batch was due")
                self.assertEqual(receiver.requests, [])

    def test_what_is_away_is_tried_again_and_nothing_is_lost(self):
        with Receiver() as first:
            port = first.port
        with self.forwarding(first.url) as daemon:
            call(daemon, 5)
            wait_for(lambda: "audit.forward" in daemon.log() and "tried again" in daemon.log(), "a warning")
            code, said, _ = daemon.cli("doctor")
            self.assertIn("audit forward", said)
            self.assertIn("tried again", said)
            call(daemon, 5)
            with Receiver(port) as receiver:
                wait_for(lambda: logged(daemon) == receiver.lines, "all events")
            self.assertEqual(daemon.figure("kaged_audit_forward_lost_total"), 0)

    def test_a_receiver_that_fails_gets_the_same_batch_again(self):
        with Receiver() as receiver:
            answers = iter([500, 503, 302, 404])
            receiver.answer = lambda body: next(answers, 200)
            with self.forwarding(receiver.url) as daemon:
                call(daemon, 3)
                wait_for(lambda: logged(daemon) == receiver.lines, "all events", PATIENCE * 2)
                failed = [body for status, _, body in receiver.requests if status != 200]
                self.assertEqual(len(failed), 4)
                self.assertTrue(all(body.startswith(failed[0]) for body in failed))

    def test_a_receiver_of_small_batches_gets_small_ones(self):
        with Receiver() as receiver:
            receiver.answer = lambda body: 413 if len(body) > 1000 else 200
            with self.forwarding(receiver.url) as daemon:
                call(daemon, 30)
                wait_for(lambda: logged(daemon) == receiver.lines, "all events")

    def test_a_restart_goes_on_where_it_was(self):
        with Receiver() as receiver:
            daemon = self.forwarding(receiver.url)
            with daemon:
                call(daemon, 3)
                wait_for(lambda: all_taken(daemon, receiver), "all events")
                daemon.stop()
                daemon.start()
                call(daemon, 3)
                wait_for(lambda: logged(daemon) == receiver.lines, "all events of both starts")
                daemon.kill()
                daemon.start()
                call(daemon, 3)
                wait_for(lambda: set(line for line in logged(daemon)) <= set(receiver.lines), "all after a kill")
                self.assertEqual(sorted(set(receiver.ids())), list(dict.fromkeys(receiver.ids())))

    def test_a_log_of_before_is_not_sent(self):
        daemon = Daemon(["good-c"])
        with Receiver() as receiver, daemon:
            call(daemon, 3)
            daemon.stop()
            before = len(logged(daemon))
            daemon.write_config(audit__forward=receiver.url)
            daemon.start()
            wait_for(lambda: logged(daemon)[before:] == receiver.lines, "what came since")

    def test_the_chain_stands_and_calls_go_on_while_the_receiver_hangs(self):
        hang = threading.Event()
        with Receiver() as receiver:
            receiver.answer = lambda body: hang.wait(PATIENCE) and 200
            with self.forwarding(receiver.url) as daemon:
                wait_for(lambda: daemon.figure("kaged_audit_queue_bytes") == 0, "a quiet log")
                call(daemon, 200)
                code, said, words = daemon.cli("audit", "verify")
                self.assertEqual(code, 0, said + words)
                hang.set()
                wait_for(lambda: logged(daemon) == receiver.lines, "all events")

    def test_what_is_rotated_away_is_counted(self):
        with Receiver() as receiver:
            port = receiver.port
        daemon = self.forwarding(receiver.url, **{"audit.rotate_mb": 1, "audit.keep": 2, "audit.payloads": True})
        with daemon:
            text = "x" * 50_000
            while newest_file(daemon) < 4:
                daemon.call("good-c", "good.echo", {"text": text})
            with Receiver(port) as receiver:
                wait_for(lambda: receiver.lines and receiver.lines[-1] == logged(daemon)[-1], "the newest", PATIENCE * 2)
                lost = daemon.figure("kaged_audit_forward_lost_total")
                files = daemon.figure("kaged_audit_forward_lost_files_total")
                self.assertGreater(lost + files, 0)
                self.assertIn("could not be sent", daemon.log())
                _, said, _ = daemon.cli("doctor")
                self.assertIn("could not be sent", said)

    def test_a_target_that_is_none_is_refused(self):
        for target in ("ftp://host/x", "journal:relative", "http://", "syslogs", "http://user@host/"):
            with self.subTest(target):
                daemon = Daemon(config={"audit.forward": target})
                try:
                    code, _, words = daemon.cli("start", "--foreground")
                    self.assertNotEqual(code, 0)
                    self.assertIn("audit.forward", words)
                finally:
                    daemon.discard()


class Sockets(unittest.TestCase):
    def listen(self, base, name):
        path = os.path.join(base, name)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        listener.bind(path)
        listener.settimeout(PATIENCE)
        return path, listener

    def receive(self, listener):
        """One datagram; of one that is a file, what is in it."""
        message, control, _, _ = listener.recvmsg(1 << 20, socket.CMSG_SPACE(4))
        for _, kind, data in control:
            if kind == socket.SCM_RIGHTS:
                fd = array.array("i", data)[0]
                with open(fd, "rb", closefd=True) as file:
                    file.seek(0)
                    message = file.read()
        return message

    def test_the_journal_has_fields_and_whole_events(self):
        daemon = Daemon(["good-c"], {"audit.payloads": True})
        path, listener = self.listen(daemon.base, "journal")
        daemon.write_config(audit__forward=f"journal:{path}")
        with daemon, listener:
            daemon.call("good-c", "good.echo", {"text": "y" * 60_000})
            seen = []
            while seen != logged(daemon):
                fields = dict(line.split("=", 1) for line in self.receive(listener).decode().splitlines())
                event = json.loads(fields["MESSAGE"])
                self.assertEqual((fields["KAGED_EVENT"], fields["KAGED_EVENT_ID"]), (event["event"], event["id"]))
                self.assertEqual(fields["SYSLOG_IDENTIFIER"], "kaged")
                seen.append(fields["MESSAGE"])

    def test_syslog_has_lines_of_a_local_program(self):
        daemon = Daemon(["good-c"])
        path, listener = self.listen(daemon.base, "syslog")
        daemon.write_config(audit__forward=f"syslog:{path}")
        with daemon, listener:
            self.assertRegex(self.receive(listener).decode(),
                             r'^<86>[A-Z][a-z]{2} [ 1-3][0-9] \d\d:\d\d:\d\d kaged\[\d+\]: {"ts":')

    def test_a_socket_that_comes_later_gets_all(self):
        daemon = Daemon(["good-c"])
        daemon.write_config(audit__forward=f"syslog:{daemon.base}/syslog")
        with daemon:
            call(daemon, 3)
            wait_for(lambda: "tried again" in daemon.log(), "a warning")
            _, listener = self.listen(daemon.base, "syslog")
            with listener:
                first = json.loads(self.receive(listener).decode().split(": ", 1)[1])
                self.assertEqual(first["event"], "daemon.started")

    def test_a_socket_that_nobody_reads_slows_nothing(self):
        daemon = Daemon(["good-c"])
        path, listener = self.listen(daemon.base, "syslog")
        daemon.write_config(audit__forward=f"syslog:{path}")
        with daemon, listener:
            call(daemon, 600)
            wait_for(lambda: daemon.figure("kaged_audit_forward_waiting_bytes") > 0, "a queue")
            ids = []
            while len(ids) < len(logged(daemon)) or ids != [json.loads(line)["id"] for line in logged(daemon)]:
                ids.append(json.loads(self.receive(listener).decode().split(": ", 1)[1])["id"])


if __name__ == "__main__":
    main()
