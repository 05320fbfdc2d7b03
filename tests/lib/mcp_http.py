"""An MCP server over streamable HTTP on loopback, of either era, honest and otherwise."""
import json
import queue
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SESSION = "session-1"
TOOLS = [{"name": "echo", "description": "Says it again.",
          "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle(self):
        try:
            super().handle()
        except (BrokenPipeError, ConnectionResetError):
            pass

    def send_json(self, value, status=200, **headers):
        self.send_bytes(json.dumps(value, indent=1).encode(), status, **headers)

    def send_bytes(self, body, status=200, kind="application/json", **headers):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        self.wfile.write(body)

    def begin_events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def send_event(self, value=None, **fields):
        lines = [f"{name}: {text}" for name, text in fields.items()]
        lines += [f"data: {json.dumps(value)}"] if value is not None else ["data:"]
        self.wfile.write(("\n".join(lines) + "\n\n").encode())
        self.wfile.flush()

    def answer(self, method):
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        message = json.loads(body) if body else None
        with self.server.lock:
            headers = {name.title(): text for name, text in self.headers.items()}
            self.server.requests.append((method, headers, message))
        self.server.behaviour(self, method, message)

    def do_POST(self):
        self.answer("POST")

    def do_GET(self):
        self.answer("GET")

    def do_DELETE(self):
        self.answer("DELETE")


class McpHttp(ThreadingHTTPServer):
    """behaviour(handler, method, message) answers each request."""
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, behaviour):
        super().__init__(("127.0.0.1", 0), Handler)
        self.behaviour, self.requests, self.lock = behaviour, [], threading.Lock()
        self.news = queue.Queue()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/mcp"

    def seen(self, method="POST"):
        with self.lock:
            return [(headers, message) for how, headers, message in self.requests if how == method]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.news.put(None)
        self.shutdown()
        self.server_close()


def reply(message, result):
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def refusal(message, code, words):
    return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": words}}


def result_of(message, modern):
    """What an honest server answers; None: it does not know the method."""
    method, params = message["method"], message.get("params", {})
    more = {"resultType": "complete"} if modern else {}
    if method == "initialize" and not modern:
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "there", "version": "1"}}
    if method == "server/discover" and modern:
        return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0,
                "cacheScope": "private", **more}
    if method == "tools/list":
        return {"tools": TOOLS, **({"ttlMs": 0, "cacheScope": "private"} if modern else {}), **more}
    if method == "tools/call":
        text = params.get("arguments", {}).get("text", "")
        return {"content": [{"type": "text", "text": text}], **more}
    return {} if method == "ping" else None


def legacy(handler, method, message):
    """Sessions, JSON to most, events to tools/call, and a stream of news."""
    if method == "DELETE":
        handler.send_bytes(b"", 200)
        return
    if method == "GET":
        handler.begin_events()
        while (event := handler.server.news.get()) is not None:
            handler.send_event(event)
        return
    if message.get("method") == "server/discover":
        handler.send_json({"jsonrpc": "2.0", "id": None,
                           "error": {"code": -32000, "message": "Bad Request: no session"}}, 400)
        return
    if message.get("method") != "initialize" and handler.headers["Mcp-Session-Id"] != SESSION:
        handler.send_bytes(b"", 404)
        return
    if "id" not in message or "method" not in message:
        handler.send_bytes(b"", 202)
        return
    result = result_of(message, False)
    said = reply(message, result) if result is not None else refusal(message, -32601, "unknown")
    if message["method"] == "tools/call":
        handler.begin_events()
        handler.send_event({"jsonrpc": "2.0", "method": "notifications/message",
                            "params": {"level": "info", "data": "on it"}})
        handler.send_event(said)
    else:
        handler.send_json(said, **({"Mcp_Session_Id": SESSION}
                                   if message["method"] == "initialize" else {}))


def modern(handler, method, message):
    if method != "POST":
        handler.send_bytes(b"", 405)
        return
    if "id" not in message:
        handler.send_bytes(b"", 202)
        return
    result = result_of(message, True)
    if result is None:
        handler.send_json(refusal(message, -32601, "unknown"), 404)
    else:
        handler.send_json(reply(message, result))
