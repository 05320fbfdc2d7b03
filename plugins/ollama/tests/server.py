"""Servers for the tests: one that speaks the shapes of Ollama's API, and one that says anything."""
import http.server
import json
import socket
import threading

PATIENCE = 20
LAYER = "sha256:" + "ab" * 32
SIZE = 1_000_000

TAGS = {"models": [{"name": "llama3.2:1b", "model": "llama3.2:1b", "size": 1321098329,
                    "digest": "baf6a787fdff", "modified_at": "2025-01-01T10:00:00Z",
                    "details": {"format": "gguf", "family": "llama", "parameter_size": "1.2B",
                                "quantization_level": "Q8_0", "families": ["llama"]}}]}
SHOW = {"license": "LICENSE " * 1000, "modelfile": "FROM x", "parameters": "stop \"<|eot_id|>\"",
        "template": "{{ .Prompt }}", "details": TAGS["models"][0]["details"],
        "capabilities": ["completion", "tools"],
        "model_info": {"general.architecture": "llama", "llama.context_length": 131072,
                       "tokenizer.ggml.tokens": ["a"] * 1000}}


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # clients that leave are part of the tests


class Ollama:
    """Knows llama3.2:1b. A pull writes `steps` lines of progress, then waits for `go`.

    `began` and `left` say that one began, and that its client has left.
    """

    def __init__(self, steps=3):
        self.steps = steps
        self.began, self.go, self.left = (threading.Event() for _ in range(3))
        self.pulled = []
        self.go.set()
        self._server = Server(("127.0.0.1", 0), self._handler())
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.go.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(self):
        ollama = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, value, status=200):
                body = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def line(self, value):
                data = json.dumps(value).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

            def do_GET(self):
                if self.path == "/api/tags":
                    self.answer(TAGS)
                else:
                    self.answer({"error": "not found"}, 404)

            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                model = asked["model"]
                if self.path == "/api/pull":
                    self.pull(model)
                elif model == "llama3.2:1b":
                    self.answer(SHOW)
                else:
                    self.answer({"error": f"model '{model}' not found"}, 404)

            def pull(self, model):
                self.send_response(200)
                self.send_header("Content-Type", "application/x-ndjson")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                ollama.pulled.append(model)
                ollama.began.set()
                try:
                    self.write_pull(model)
                except OSError:
                    ollama.left.set()

            def write_pull(self, model):
                self.line({"status": "pulling manifest"})
                if model == "nobody/knows":
                    self.line({"error": "pull model manifest: file does not exist"})
                else:
                    for step in range(ollama.steps):
                        self.line({"status": f"pulling {LAYER[7:19]}", "digest": LAYER,
                                   "total": SIZE, "completed": SIZE * step // ollama.steps})
                    self.wait_for_go()
                    self.line({"status": "verifying sha256 digest", "digest": LAYER,
                               "total": SIZE, "completed": SIZE})
                    self.line({"status": "success"})
                self.wfile.write(b"0\r\n\r\n")

            def wait_for_go(self):
                """Until the test says so, or the client has left."""
                while not ollama.go.wait(0.02):
                    self.connection.settimeout(0.01)
                    try:
                        if not self.connection.recv(1):
                            raise ConnectionResetError
                    except socket.timeout:
                        pass
                self.connection.settimeout(PATIENCE)

        return Handler


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def endless(prefix):
    """Sends the prefix, then spaces without an end."""
    def serve(connection, over):
        connection.sendall(prefix)
        while not over.is_set():
            connection.sendall(b" " * 65536)
    return serve


def drip(prefix, piece):
    """Sends the prefix, then a piece again and again, slowly."""
    def serve(connection, over):
        connection.sendall(prefix)
        while not over.wait(0.1):
            connection.sendall(piece)
    return serve


def once(answer):
    def serve(connection, over):
        connection.sendall(answer)
    return serve


def with_status(status, body, *headers):
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return once("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


# What a server can do wrong, and words of the error that says so.
HOSTILE = {
    "closes at once": (lambda connection, over: None, "does not answer"),
    "no HTTP": (once(b"SSH-2.0-OpenSSH_9.2\r\n"), "not HTTP"),
    "endless status line": (endless(b"HTTP/1.1 200"), "not HTTP"),
    "endless headers": (drip(HEAD, b"X-More: yes\r\n"), "nothing came"),
    "not JSON": (with_status(200, b"<html>hello</html>"), "not JSON"),
    "not an object": (with_status(200, b"[1, 2]"), "not JSON"),
    "nested too deep": (with_status(200, b"[" * 500_000), "not JSON"),
    "number too long": (with_status(200, b'{"models": [{"size": %s}]}' % (b"9" * 1_000_000)),
                        None),
    "lone surrogate": (with_status(200, b'{"models": [{"name": "\\ud800\\u001b[2J"}]}'), None),
    "endless body": (endless(HEAD + b"\r\n{"), "more than"),
    "endless chunks": (drip(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
                       "nothing came"),
    "chunk of size -1": (endless(HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n"),
                         "more than"),
    "endless continues": (once(b"HTTP/1.1 100 X\r\n\r\n" * 30_000), "more than"),
    "slow drip": (drip(HEAD + b"Content-Length: 100000\r\n\r\n", b" "), "nothing came"),
    "silence": (drip(b"", b""), "nothing came"),
    "redirect": (with_status(302, b"", "Location: http://elsewhere.test/api"), "do not follow"),
    "error with words": (with_status(500, b'{"error": "out of \\u001b[31mmemory"}'),
                         "Ollama says 'out of  [31mmemory'"),
    "error without words": (with_status(500, b"oops"), "status 500"),
    "endless error": (endless(b"HTTP/1.1 503 X\r\n\r\n"), "status 503"),
    "body cut off": (once(HEAD + b'Content-Length: 100\r\n\r\n{"models"'), "not JSON"),
}


class Hostile:
    """A server that does `serve`, one of these, to each connection."""

    def __init__(self, serve):
        self.serve, self._over = serve, threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        with connection:
            try:
                connection.settimeout(PATIENCE)
                read_request(connection)
                self.serve(connection, self._over)
            except OSError:
                pass  # the client has left


def read_request(connection):
    """All of it: closing with a part unread resets the connection, and the answer is lost."""
    length = 0
    with connection.makefile("rb") as request:
        for line in iter(request.readline, b"\r\n"):
            if not line:
                raise ConnectionResetError
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        request.read(length)
