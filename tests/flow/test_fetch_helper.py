"""kaged-fetch on pipes: requests as they should be, and servers as they should not."""
import json
import os
import select
import socket
import subprocess

from harness import BUILD, PATIENCE, FlowTest, Listener, main


def plain(body=b"", status="200 OK", headers=""):
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{headers}\r\n".encode() + body


class Server(Listener):
    """Answers each request with these bytes."""

    def __init__(self, answer):
        self.bytes, self.heads = answer, []
        super().__init__(socket.create_server(("127.0.0.1", 0)))

    @property
    def url(self):
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}/x"

    def serve(self, connection):
        with connection:
            connection.settimeout(PATIENCE)
            try:
                request = b""
                while b"\r\n\r\n" not in request:
                    piece = connection.recv(65536)
                    if not piece:
                        return
                    request += piece
                self.heads.append(request)
                connection.sendall(self.bytes)
            except OSError:
                pass  # it leaves when it has had enough


class Fetch:
    def __enter__(self):
        self.process = subprocess.Popen([os.path.join(BUILD, "src/kaged-fetch")], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, bufsize=0)
        self.rest = b""
        return self

    def __exit__(self, kind, *_):
        self.process.stdin.close()
        code = self.process.wait(PATIENCE)
        self.process.stdout.close()
        if kind is None:
            assert code == 0, f"kaged-fetch left with {code}"

    def ask(self, params):
        """The result or the error."""
        self.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "fetch", "params": params}).encode() + b"\n")
        return self.line()

    def write(self, data):
        self.process.stdin.write(data)

    def line(self):
        while b"\n" not in self.rest:
            assert select.select([self.process.stdout], [], [], PATIENCE)[0], "kaged-fetch says nothing"
            piece = self.process.stdout.read(65536)
            assert piece, "kaged-fetch is gone"
            self.rest += piece
        line, _, self.rest = self.rest.partition(b"\n")
        line = json.loads(line)
        return line.get("result") or line["error"]


class Requests(FlowTest):
    def exchange(self, answer, http="GET", **params):
        with Server(answer) as server, Fetch() as fetch:
            wanted = {"method": http, "url": server.url, "headers": ["X-Key: sesame"], "body": "",
                      "timeout_ms": PATIENCE * 1000, "answer_bytes": 1000, **params}
            return fetch.ask(wanted), server.heads

    def test_a_request_goes_out_as_it_was_asked_for(self):
        answer, (request,) = self.exchange(plain(b"hello"), http="PUT", body="body")
        self.assertEqual(answer, {"status": 200, "body": "hello", "truncated": False})
        self.assertTrue(request.startswith(b"PUT /x HTTP/1.1\r\n"), request)
        self.assertIn(b"\r\nX-Key: sesame\r\n", request)
        self.assertNotIn(b"Expect", request)

    def test_a_redirect_is_an_answer_and_is_not_followed(self):
        answer, requests = self.exchange(plain(status="302 Found", headers="Location: http://127.0.0.1:1/\r\n"))
        self.assertEqual((answer["status"], len(requests)), (302, 1))

    def test_no_more_of_a_body_is_kept_than_its_bound(self):
        answer, _ = self.exchange(plain(b"x" * 100000))
        self.assertEqual((answer["status"], answer["body"], answer["truncated"]), (200, "x" * 1000, True))

    def test_bytes_go_out_and_come_back_as_they_are(self):
        answer, (request,) = self.exchange(plain(b"\xff\x00ok", headers="Content-Type: image/png\r\n"), http="POST",
                                           body_base64="/wA=")
        self.assertEqual((answer["body_base64"], answer["content_type"]), ("/wBvaw==", "image/png"))
        self.assertNotIn("body", answer)
        self.assertIn(b"Content-Length: 2\r\n", request)

    def test_a_request_that_is_cancelled_is_not_answered(self):
        with socket.create_server(("127.0.0.1", 0)) as silent, Server(plain(b"hello")) as server, Fetch() as fetch:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
            params = {"method": "GET", "url": url, "timeout_ms": PATIENCE * 1000, "answer_bytes": 10}
            fetch.write(json.dumps({"jsonrpc": "2.0", "id": 7, "method": "fetch", "params": params}).encode() + b"\n")
            silent.settimeout(PATIENCE)
            connection, _ = silent.accept()
            with connection:
                fetch.write(b'{"jsonrpc":"2.0","method":"cancel","params":{"id":7}}\n')
                connection.settimeout(PATIENCE)
                while connection.recv(65536):
                    pass  # until it is let go
            self.assertEqual(fetch.ask({**params, "url": server.url})["body"], "hello")

    def test_servers_that_do_not_speak_http_are_errors_in_words(self):
        for answer in (b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
                       b"HTTP/1.1 200 OK\r\n" + b"X-Many: " + b"y" * 8000 + b"\r\n" +
                       b"".join(b"X-%d: %s\r\n" % (i, b"z" * 8000) for i in range(40)) + b"\r\n"):
            with self.subTest(answer[:20]):
                error, _ = self.exchange(answer)
                self.assertTrue(error.get("message"), error)

    def test_nobody_there_and_too_late_are_errors_in_words(self):
        with socket.create_server(("127.0.0.1", 0)) as silent, Fetch() as fetch:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
            for target, timeout_ms in ((url, 50), ("http://127.0.0.1:1/", PATIENCE * 1000), ("file:///etc/passwd", 1000)):
                params = {"method": "GET", "url": target, "headers": [], "body": "", "timeout_ms": timeout_ms,
                          "answer_bytes": 10}
                self.assertTrue(fetch.ask(params)["message"])

    def test_requests_that_do_not_fit_are_refused(self):
        with Fetch() as fetch:
            for params in ({"url": "http://x/", "method": "GET", "answer_bytes": 1, "body_base64": "?"}, {}, [], {"url": 1, "method": "GET"}, {"url": "http://x/", "method": "GET", "answer_bytes": -1}):
                self.assertIn("does not fit", fetch.ask(params)["message"])
            fetch.write(b'{"jsonrpc":"2.0","id":1,"method":"chat"}\n')
            self.assertIn("no such method", fetch.line()["message"])


if __name__ == "__main__":
    main()
