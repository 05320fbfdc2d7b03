"""Providers of models for tests: one that does as it is told, and aimock; and kaged-model on pipes."""
import json
import os
import re
import select
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest

from harness import BUILD, PATIENCE, ROOT, Listener, wait_for

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
MODULES = os.path.join(ROOT, "build/npm/tests/node_modules")


def event(value):
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def delta(text):
    return event({"choices": [{"delta": {"content": text}}]})


END = event({"choices": [{"delta": {}, "finish_reason": "stop"}]}) + b"data: [DONE]\n\n"


def plain(status, body=b"", headers=""):
    """An answer that is no stream."""
    return (f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
            f"{headers}\r\n").encode() + body


class Provider(Listener):
    """Each request gets the next of the answers: bytes, or a function of the connection."""

    def __init__(self, *answers, context=None):
        self.answers, self.context = list(answers), context
        self.requests = []  # (head, body)
        self.over = threading.Event()
        self.lock = threading.Lock()
        super().__init__(socket.create_server(("127.0.0.1", 0), backlog=64))

    @property
    def port(self):
        return self.listener.getsockname()[1]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/v1"

    def __exit__(self, *exception):
        self.over.set()
        super().__exit__(*exception)

    def serve(self, connection):
        try:
            if self.context is not None:
                connection = self.context.wrap_socket(connection, server_side=True)
            connection.settimeout(PATIENCE)
            self.answer(connection)
        except OSError:
            pass  # clients that leave are part of the tests
        finally:
            connection.close()

    def answer(self, connection):
        request = b""
        while b"\r\n\r\n" not in request:
            piece = connection.recv(65536)
            if not piece:
                return
            request += piece
        head, _, body = request.partition(b"\r\n\r\n")
        length = next((int(line.split(b":")[1]) for line in head.splitlines()
                       if line.lower().startswith(b"content-length:")), 0)
        while len(body) < length:
            body += connection.recv(65536)
        with self.lock:
            self.requests.append((head.decode(), json.loads(body) if body else None))
            answer = self.answers.pop(0) if self.answers else plain(500)
        if callable(answer):
            answer(connection)
        else:
            connection.sendall(answer)


class Client:
    """kaged-model on pipes, without a cage."""

    def __init__(self):
        self.process = subprocess.Popen([os.path.join(BUILD, "src/kaged-model")],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.number, self.rest = 0, b""

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.process.stdin.close()
        code = self.process.wait(PATIENCE)
        self.process.stdout.close()
        if kind is None:
            assert code == 0, f"kaged-model left with {code}"

    def write(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def send(self, url, kind="openai", limits=None, **params):
        """The number of the request."""
        self.number += 1
        params = {"kind": kind, "url": url, "model": "m", "key": "s3cret-key",
                  "messages": [{"role": "user", "content": "hello"}],
                  "limits": {"retries": 0, **(limits or {})}, **params}
        self.write({"id": self.number, "method": "chat", "params": params})
        return self.number

    def cancel(self, number):
        self.write({"method": "cancel", "params": {"id": number}})

    def line(self):
        while b"\n" not in self.rest:
            if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
                raise AssertionError("kaged-model says nothing")
            piece = self.process.stdout.read(65536)
            if not piece:
                raise AssertionError("kaged-model is gone")
            self.rest += piece
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

    def next(self):
        """(number, event, None) or, at its end, (number, None, result or error)"""
        line = self.line()
        if "method" in line:
            params = line["params"]
            return params.pop("id"), params, None
        return line["id"], None, line.get("result") or line["error"]

    def end(self, number):
        """(its events, its end), the only request that is on its way"""
        events = []
        while True:
            who, what, end = self.next()
            assert who == number, who
            if end is not None:
                return events, end
            events.append(what)

    def ask(self, url, **params):
        return self.end(self.send(url, **params))


class Aimock:
    """CopilotKit's stand-in for the APIs of many providers; raises SkipTest where it cannot be.

    Without a key it asks for none.
    """

    def __init__(self, fixtures, key=None):
        self.base = tempfile.mkdtemp(prefix="kaged-aimock-")
        with open(os.path.join(self.base, "fixtures.json"), "w") as file:
            json.dump({"fixtures": fixtures}, file)
        self.process = self.address = None
        try:
            self.start(key)
        except BaseException:
            self.stop()
            raise

    def start(self, key):
        problem = self.install()
        if problem is None:
            # As CommonJS it runs with Debian's node as well: what that lacks is never called.
            command = ["node", os.path.join(MODULES, "@copilotkit/aimock/dist/cli.cjs"), "--port",
                       "0", "--fixtures", self.base, "--strict", "--log-level", "info"]
            keys = {} if key is None else {"AIMOCK_API_KEYS": key}
            log = os.path.join(self.base, "log")
            with open(log, "wb") as file:
                self.process = subprocess.Popen(command, env={**os.environ, **keys}, stderr=file,
                                                stdin=subprocess.DEVNULL, stdout=file)
            wait_for(lambda: self.listens(log) or self.process.poll() is not None, "aimock")
            if self.address is None:
                with open(log, errors="replace") as file:
                    problem = "aimock does not run: " + file.read()[-300:]
        if problem is not None and os.environ.get("CI") == "true":
            raise AssertionError(problem)
        if problem is not None:
            raise unittest.SkipTest(" ".join(problem.split()))

    @staticmethod
    def install():
        """What keeps it from being there, or None."""
        if shutil.which("node") is None or shutil.which("npm") is None:
            return "node and npm are not here"
        done = subprocess.run([os.path.join(ROOT, "scripts/npm"), "tests"], capture_output=True,
                              text=True)
        return None if done.returncode == 0 else "aimock is missing: " + done.stderr[-600:]

    def listens(self, log):
        """Whether it said where, in a whole line."""
        with open(log, errors="replace") as file:
            found = re.search(r"listening on (http://\S+)\n", file.read())
        self.address = found and found.group(1)
        return self.address

    @property
    def port(self):
        return int(self.address.rsplit(":", 1)[1])

    def url(self, kind):
        return self.address + ("/v1" if kind == "openai" else "")

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.base, ignore_errors=True)


def ask_caged(local, alias, request):
    """The whole way of the daemon: a list of what was told, the end last."""
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, "local.toml"), os.path.join(folder, "request.json")]
        for path, text in zip(files, (local, json.dumps(request))):
            with open(path, "w") as file:
                file.write(text)
        done = subprocess.run([os.path.join(BUILD, "tests/cage/model-ask"), files[0], alias,
                               files[1]], capture_output=True, text=True, timeout=PATIENCE * 4)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
