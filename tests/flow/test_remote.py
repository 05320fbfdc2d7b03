"""kaged-remote with servers of both eras: as they should be, and as they should not."""
import json
import os
import select
import subprocess
import tempfile

from harness import BUILD, KAGED, PATIENCE, Daemon, FlowTest, main, wait_for
from mcp_http import SESSION, McpHttp, legacy, modern, reply, result_of

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {},
              "clientInfo": {"name": "k", "version": "1"}}


class Bridge:
    """kaged-remote on pipes, without a cage."""

    def __init__(self, url, *headers, code=0):
        env = {**os.environ, **{f"KAGED_REMOTE_HEADER_{i}": text for i, text in enumerate(headers, 1)}}
        self.process = subprocess.Popen([os.path.join(BUILD, "src/kaged-remote"), url], bufsize=0,
                                        env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self.rest, self.code, self.number, self.words = b"", code, 0, ""

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.process.stdin.close()
        code = self.process.wait(PATIENCE)
        self.words = self.process.stderr.read().decode()
        self.process.stdout.close()
        self.process.stderr.close()
        if kind is None:
            assert code == self.code, f"kaged-remote left with {code}: {self.words}"

    def send(self, method, params=None, **more):
        self.number += 1
        self.write({"id": self.number, "method": method, "params": params or {}, **more})
        return self.number

    def tell(self, method, params=None):
        self.write({"method": method, "params": params or {}})

    def write(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def line(self):
        while b"\n" not in self.rest:
            if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
                raise AssertionError("kaged-remote says nothing")
            piece = self.process.stdout.read(65536)
            if not piece:
                raise AssertionError("kaged-remote is gone: " + self.process.stderr.read().decode())
            self.rest += piece
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

    def ask(self, method, params=None):
        number, line = self.send(method, params), self.line()
        assert line.get("id") == number, line
        return line

    def greet(self):
        answer = self.ask("initialize", INITIALIZE)
        self.tell("notifications/initialized")
        return answer["result"]


class Legacy(FlowTest):
    def test_a_session_is_begun_used_and_ended(self):
        with McpHttp(legacy) as server:
            with Bridge(server.url, "Authorization: Bearer k3y", "X-Team: blue") as bridge:
                self.assertEqual(bridge.greet()["protocolVersion"], "2025-06-18")
                self.assertEqual(len(bridge.ask("tools/list")["result"]["tools"]), 1)
            posts = server.seen()
            self.assertEqual([message["method"] for _, message in posts],
                             ["initialize", "notifications/initialized", "tools/list"])
            for headers, _ in posts:
                self.assertEqual((headers["Authorization"], headers["X-Team"]), ("Bearer k3y", "blue"))
                self.assertEqual(headers["Accept"], "application/json, text/event-stream")
                self.assertEqual(headers["Content-Type"], "application/json")
                self.assertNotIn("Mcp-Method", headers)
            self.assertNotIn("Mcp-Session-Id", posts[0][0])
            for headers, _ in posts[1:]:
                self.assertEqual(headers["Mcp-Session-Id"], SESSION)
                self.assertEqual(headers["Mcp-Protocol-Version"], "2025-06-18")
            (headers, _), = server.seen("DELETE")
            self.assertEqual(headers["Mcp-Session-Id"], SESSION)

    def test_who_asks_in_the_modern_way_first_is_answered_with_an_error(self):
        with McpHttp(legacy) as server, Bridge(server.url) as bridge:
            answer = bridge.ask("server/discover", {"_meta": META})
            self.assertEqual(answer["error"]["message"], "Bad Request: no session")
            bridge.greet()

    def test_events_of_an_answer_and_news_come_as_lines(self):
        with McpHttp(legacy) as server, Bridge(server.url) as bridge:
            bridge.greet()
            number = bridge.send("tools/call", {"name": "echo", "arguments": {"text": "hi"}})
            self.assertEqual(bridge.line()["method"], "notifications/message")
            line = bridge.line()
            self.assertEqual((line["id"], line["result"]["content"][0]["text"]), (number, "hi"))
            wait_for(lambda: server.seen("GET"), "the stream of news")
            server.news.put({"jsonrpc": "2.0", "id": "q1", "method": "roots/list"})
            self.assertEqual(bridge.line()["id"], "q1")
            bridge.write({"id": "q1", "result": {"roots": []}})
            wait_for(lambda: any(message and message.get("id") == "q1"
                                 for _, message in server.seen()), "our answer")

    def test_a_stream_that_breaks_is_gone_on_with(self):
        def breaks(handler, method, message):
            if message and message.get("method") == "tools/call":
                handler.begin_events()
                handler.send_event(id="e1", retry="10")
                handler.server.call = message
                return  # and the connection ends
            if method == "GET" and handler.headers["Last-Event-ID"] == "e1":
                handler.begin_events()
                handler.send_event(reply(handler.server.call, {"content": []}), id="e2")
                return
            if method == "GET":
                handler.send_bytes(b"", 405)
                return
            legacy(handler, method, message)
        with McpHttp(breaks) as server, Bridge(server.url) as bridge:
            bridge.greet()
            self.assertEqual(bridge.ask("tools/call", {"name": "x"})["result"], {"content": []})

    def test_a_batch_is_as_many_lines(self):
        def batch(handler, method, message):
            if message and message.get("method") == "tools/list":
                handler.send_json([{"jsonrpc": "2.0", "method": "a"},
                                   reply(message, result_of(message, False))])
            else:
                legacy(handler, method, message)
        with McpHttp(batch) as server, Bridge(server.url) as bridge:
            bridge.greet()
            bridge.send("tools/list")
            self.assertEqual(bridge.line()["method"], "a")
            self.assertEqual(len(bridge.line()["result"]["tools"]), 1)

    def test_a_session_that_the_server_forgot_ends_the_program(self):
        def forgets(handler, method, message):
            if message and message.get("method") == "tools/list":
                handler.send_bytes(b"", 404)
            else:
                legacy(handler, method, message)
        with McpHttp(forgets) as server:
            with Bridge(server.url, code=1) as bridge:
                bridge.greet()
                self.assertIn("status 404", bridge.ask("tools/list")["error"]["message"])
                bridge.process.wait(PATIENCE)
            self.assertIn("forgotten the session", bridge.words)


class Modern(FlowTest):
    def test_headers_say_what_the_body_says(self):
        with McpHttp(modern) as server, Bridge(server.url) as bridge:
            self.assertIn("supportedVersions", bridge.ask("server/discover", {"_meta": META})["result"])
            for name in ("echo", "héllo"):
                bridge.ask("tools/call", {"name": name, "arguments": {}, "_meta": META})
            self.assertEqual(bridge.ask("nothing", {"_meta": META})["error"]["code"], -32601)
            first, plain, other, _ = [headers for headers, _ in server.seen()]
            self.assertEqual(first["Mcp-Protocol-Version"], "2026-07-28")
            self.assertEqual(first["Mcp-Method"], "server/discover")
            self.assertEqual((plain["Mcp-Method"], plain["Mcp-Name"]), ("tools/call", "echo"))
            self.assertEqual(other["Mcp-Name"], "=?base64?aMOpbGxv?=")
            self.assertNotIn("Mcp-Session-Id", plain)
            self.assertEqual(server.seen("GET"), [])

    def test_a_cancel_closes_the_stream_of_what_it_is_about(self):
        closed = []

        def waits(handler, method, message):
            handler.begin_events()
            handler.send_event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}})
            handler.connection.settimeout(PATIENCE)
            closed.append(handler.connection.recv(1))
        with McpHttp(waits) as server, Bridge(server.url) as bridge:
            number = bridge.send("tools/call", {"name": "x", "_meta": META})
            bridge.line()
            bridge.tell("notifications/cancelled", {"requestId": number})
            wait_for(lambda: closed == [b""], "the end of the stream")
            self.assertEqual(len(server.seen()), 1)


class Hostile(FlowTest):
    def words_of(self, behaviour):
        with McpHttp(behaviour) as server, Bridge(server.url) as bridge:
            return bridge.ask("initialize", INITIALIZE)["error"]["message"]

    def test_what_is_no_answer_is_an_error_in_words(self):
        def status(number, body=b"", **headers):
            return lambda handler, method, message: handler.send_bytes(body, number, **headers)

        def cut(handler, method, message):
            handler.begin_events()

        def endless(handler, method, message):
            handler.send_response(200)
            handler.send_header("Content-Type", "application/json")
            handler.end_headers()
            for _ in range(64):
                handler.wfile.write(b" " * (1 << 20))

        def head(handler, method, message):
            handler.send_response(200)
            for i in range(64):
                handler.send_header(f"X-{i}", "x" * 8000)
            handler.end_headers()

        for behaviour, words in ((status(401), "needs login"), (status(403), "status 403"),
                                 (status(302, Location="http://127.0.0.1:1/"), "not followed"),
                                 (status(500, b"<html>"), "status 500"), (cut, "without an answer"),
                                 (endless, "larger than"), (head, "larger than")):
            with self.subTest(words=words):
                self.assertIn(words, self.words_of(behaviour))

    def test_a_server_that_is_not_there_is_named(self):
        with Bridge("http://127.0.0.1:1/mcp") as bridge:
            self.assertIn("could not be reached", bridge.ask("initialize", INITIALIZE)["error"]["message"])

    def test_what_is_no_json_is_answered_all_the_same(self):
        def garbage(handler, method, message):
            handler.send_bytes(b"hello\nworld")
        with McpHttp(garbage) as server, Bridge(server.url) as bridge:
            number = bridge.send("initialize", INITIALIZE)
            with self.assertRaises(json.JSONDecodeError):
                bridge.line()  # one line of noise, which the daemon counts
            self.assertEqual(bridge.line()["id"], number)


MANIFEST = """name: there
version: 1.0.0
kaged_api: 1
protocol: mcp
description: Somewhere else.
url: {url}
headers: {{ Authorization: "Bearer ${{env.THERE_KEY}}", X-Team: "${{config.team}}" }}
config_schema: {{ type: object, properties: {{ team: {{ type: string, default: blue }} }} }}
capabilities: ["net:127.0.0.1:{port}"]
"""
PROJECT = """version: 1
name: shop
primary: { model: m0, prompt: Hello., plugins: { there: { package: there } } }
"""


class Caged(FlowTest):
    def start(self, behaviour, manifest=MANIFEST):
        server = self.enterContext(McpHttp(behaviour))
        # Where there are no cgroups, memory is address space, of which a sanitizer takes terabytes.
        daemon = self.enterContext(Daemon([], {"sandbox.memory_mb": 0}))
        folder = os.path.join(daemon.home, "there")
        os.mkdir(folder)
        with open(os.path.join(folder, "kaged-plugin.yaml"), "w") as file:
            file.write(manifest.format(url=server.url, port=server.server_address[1]))
        self.assertEqual(daemon.cli("secret", "set", "there-key", input="s3cret-value")[0], 0)
        code, out, err = daemon.cli("plugin", "install", "--yes", "--secret", "THERE_KEY=there-key",
                                    folder)
        self.assertEqual(code, 0, out + err)
        daemon.cli("plugin", "enable", "there")
        return server, daemon

    def check_calls(self, behaviour):
        server, daemon = self.start(behaviour)
        daemon.wait_state("there", "running")
        code, out, err = daemon.cli("plugin", "tools", "there", "--approve", "--yes")
        self.assertEqual(code, 0, out + err)
        root = daemon.write_project("shop", PROJECT)
        status, answer = daemon.api("POST", "/projects", {"path": root})
        self.assertIn(status, (200, 201), answer)
        status, answer = daemon.api("POST", "/projects/shop/sessions", {})
        status, answer = daemon.api("POST", f"/sessions/{answer['id']}/tools/there.echo",
                                    {"text": "over there"})
        self.assertEqual(status, 200, answer)
        self.assertIn("over there", json.dumps(answer))
        for headers, _ in server.seen():
            self.assertEqual(headers["Authorization"], "Bearer s3cret-value")
            self.assertEqual(headers["X-Team"], "blue")
        daemon.wait_audit("plugin.net_connected", "there")
        self.assertNotIn("s3cret-value", json.dumps(daemon.audit()))

    def test_a_legacy_server_somewhere_else_is_a_plugin(self):
        self.check_calls(legacy)

    def test_a_modern_server_somewhere_else_is_a_plugin(self):
        self.check_calls(modern)

    def test_one_that_wants_a_login_says_so(self):
        _, daemon = self.start(lambda handler, method, message: handler.send_bytes(b"", 401))
        wait_for(lambda: "needs login" in daemon.cli("plugin", "status", "there")[1], "needs login")

    def test_a_manifest_of_one_is_checked(self):
        with tempfile.TemporaryDirectory(prefix="kg-") as folder:
            for url, more, words in (
                    ("http://example.org/mcp", "", "without TLS"),
                    ("https://example.org/mcp", "", "not granted to reach its own host"),
                    ("https://u:p@example.org/mcp", "", "host or port"),
                    ("https://example.org/mcp", "command: [x]\n", "command as well"),
                    ("ftp://example.org/mcp", "", "url")):
                with open(os.path.join(folder, "kaged-plugin.yaml"), "w") as file:
                    file.write(MANIFEST.format(url=url, port=1) + more)
                done = subprocess.run([KAGED, "plugin", "validate", folder], capture_output=True,
                                      text=True)
                self.assertEqual(done.returncode, 6, done.stdout)
                self.assertIn(words, done.stdout + done.stderr)


if __name__ == "__main__":
    main()
