"""kaged session send as a client: what it makes of the lines that a daemon tells of a turn."""
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading

from harness import KAGED, PATIENCE, FlowTest, Listener, main

HEAD = (b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n"
        b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n")


def plain(status, answer):
    body = json.dumps(answer).encode()
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def text(words):
    return {"type": "text", "text": words}


def end(stop="stop", error=None):
    return {"type": "end", "stop": stop, "steps": 1, "error": error}


class Told(Listener):
    """Listens where a daemon would. A turn is told as the lines say; None waits for a cancel."""

    def __init__(self, lines):
        self.lines, self.asked, self.cancelled = lines, [], threading.Event()
        self.home = tempfile.mkdtemp(prefix="kg-", dir="/tmp")
        os.mkdir(os.path.join(self.home, "run"), mode=0o700)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(os.path.join(self.home, "run/kaged.sock"))
        listener.listen()
        super().__init__(listener)

    def __exit__(self, *exception):
        self.cancelled.set()
        super().__exit__(*exception)
        shutil.rmtree(self.home)

    def serve(self, connection):
        with connection:
            head, _, body = connection.recv(65536).partition(b"\r\n\r\n")
            if b"Content-Length: 0" not in head and not body:
                body = connection.recv(65536)
            target = head.split()[1].decode()
            self.asked.append((target, json.loads(body) if body else None))
            if target.endswith("/cancel"):
                connection.sendall(plain(200, {"cancelled": True}))
                self.cancelled.set()
            elif isinstance(self.lines, dict):
                connection.sendall(plain(409, self.lines))
            else:
                self.tell(connection)

    def tell(self, connection):
        connection.sendall(HEAD)
        for line in self.lines:
            if line is None:
                self.cancelled.wait(PATIENCE)
                continue
            data = json.dumps(line).encode() + b"\n"
            middle = len(data) // 2  # a line need not come in one piece
            for piece in (data[:middle], data[middle:]):
                connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        connection.sendall(b"0\r\n\r\n")

    def command(self, *words):
        return [KAGED, "--home", self.home, "session", "send", *words]

    def run(self, *words, input=None):
        done = subprocess.run(self.command(*words), input=input, capture_output=True, text=True,
                              timeout=PATIENCE, stdin=None if input else subprocess.DEVNULL)
        return done.returncode, done.stdout, done.stderr


class Send(FlowTest):
    def send(self, lines, *words, input=None):
        with Told(lines) as daemon:
            return daemon.run("ses_1", *(words or ["hello", "there"]), input=input)

    def test_text_goes_to_stdout_and_the_rest_beside_it(self):
        lines = [{"type": "start", "agent": "primary"}, text("Let me "), text("look."),
                 {"type": "tool_call", "call": "c", "tool": "m.recall", "arguments": {"q": 1}},
                 {"type": "tool_result", "call": "c", "tool": "m.recall", "blocked": False,
                  "is_error": True, "result": "no"},
                 {"type": "reasoning", "text": "hm"},
                 {"type": "retry", "after_ms": 1500, "message": "busy"}, text("Done."), end()]
        code, out, err = self.send(lines)
        self.assertEqual((code, out), (0, "Let me look.\nDone.\n"))
        self.assertEqual(err, '-> m.recall {"q":1}\n<- m.recall failed: no\n'
                              "busy; asking again in 1.5s\n")

    def test_text_of_a_model_cannot_steer_a_terminal(self):
        code, out, err = self.send([
            text("\x1b[2Ja\tb\u202e\n"),
            {"type": "tool_call", "call": "c", "tool": "\x1b[1m", "arguments": {"\u009b": "\r"}},
            end()])
        self.assertEqual((code, out), (0, "\\x1b[2Ja\tb\\u202e\n"))
        self.assertNotRegex(err, "[\x00-\x09\x0b-\x1f\x7f-\x9f]")

    def test_lines_are_passed_on_as_json(self):
        lines = [text("a"), end()]
        code, out, err = self.send(lines, "--json", "hello")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual([json.loads(line) for line in out.splitlines()], lines)

    def test_exit_code_tells_how_the_turn_ended(self):
        failure = {"code": "refused", "message": "no model", "hint": "add one"}
        for line, code, words in ((end("length"), 1, "session send ses_1 'go on'"),
                                  (end("refused"), 5, "refused"), (end("steps"), 1, "--steps"),
                                  (end("checkpoint"), 1, "session compact ses_1"),
                                  (end("something"), 1, "session show ses_1"),
                                  (end("failed", failure), 5, "no model\nhint: add one")):
            got, out, err = self.send([line])
            self.assertEqual((got, out), (code, ""), line)
            self.assertIn(words, err)

    def test_refusal_before_the_turn_is_an_error(self):
        error = {"code": "conflict", "message": "a turn runs", "hint": "wait"}
        self.assertEqual(self.send({"error": error}), (1, "", "kaged: a turn runs\nhint: wait\n"))

    def test_turn_without_an_end_is_a_failure(self):
        code, out, err = self.send([text("half")])
        self.assertEqual((code, out), (1, "half\n"))
        self.assertIn("how the turn ended", err)

    def test_line_without_an_end_is_not_kept_for_ever(self):
        code, _, err = self.send([text("x" * (17 << 20)), end()])
        self.assertEqual(code, 6)
        self.assertIn("larger than 16 MiB", err)

    def test_message_is_the_words_or_stdin(self):
        for words, given, sent in ((["a", "b"], None, "a b"), (["-"], "from\nstdin", "from\nstdin"),
                                   ([], "piped", "piped")):
            with Told([end()]) as daemon:
                self.assertEqual(daemon.run("ses_1", *words, input=given)[0], 0)
                self.assertEqual(daemon.asked, [("/api/v1/sessions/ses_1/runs", {"text": sent})])

    def test_empty_message_is_not_sent(self):
        with Told([end()]) as daemon:
            code, _, err = daemon.run("ses_1", input=" \n")
            self.assertEqual((code, daemon.asked), (2, []))
            self.assertIn("the message is empty", err)

    def test_interrupt_cancels_the_turn(self):
        with Told([text("So"), None, end("cancelled")]) as daemon:
            process = subprocess.Popen(daemon.command("ses_1", "go"), stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
            self.assertEqual(process.stdout.read(2), "So")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE)
            self.assertEqual((process.returncode, out), (1, "\n"))
            self.assertIn("the turn was cancelled", err)
            self.assertEqual(daemon.asked[1], ("/api/v1/sessions/ses_1/cancel", None))


if __name__ == "__main__":
    main()
