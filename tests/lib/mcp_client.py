"""A client of MCP over HTTP for tests: one that does as it is told, also what no client should."""
import json
import re
import socket

from harness import PATIENCE, UnixConnection, wait_for

MODERN = "2026-07-28"
LATEST = "2025-11-25"
BOTH = "application/json, text/event-stream"


def approve_tools(daemon, plugin="mcp-reference"):
    def waits():
        status, answer = daemon.api("GET", f"/plugins/{plugin}/tools")
        assert status == 200, answer
        return answer["waits"]
    status, answer = daemon.api("POST", f"/plugins/{plugin}/tools",
                                {"approve": wait_for(waits, "tools that wait for a yes")})
    assert status == 200, answer


class Stream:
    """An answer that comes as events; each is (id or None, message or None)."""

    def __init__(self, connection, response):
        self.connection, self.response = connection, response

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """As a client that leaves."""
        if self.connection.sock is not None:
            self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.response.close()
        self.connection.close()

    def event(self):
        """The next one; None at the end. Comments are passed over."""
        fields = {}
        while True:
            line = self.response.readline().decode()
            if not line:
                return None
            line = line.rstrip("\n")
            if line.startswith(":"):
                continue
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif fields:
                data = fields.get("data", "").strip()
                return fields.get("id"), json.loads(data) if data else None

    def message(self):
        """The next event that has one; None at the end."""
        while True:
            event = self.event()
            if event is None or event[1] is not None:
                return event and event[1]

    def rest(self):
        messages = []
        while (message := self.message()) is not None:
            messages.append(message)
        return messages


class Client:
    def __init__(self, daemon, path="/mcp", revision=LATEST, headers=None, connect=None):
        self.daemon, self.path, self.revision = daemon, path, revision
        self.connect = connect or (lambda: UnixConnection(daemon.socket, PATIENCE))
        self.more = headers or {}
        self.session, self.last_id = None, 0

    # what goes over the wire

    def open(self, method, body=None, headers=None):
        """The connection and its response, whose body is not read yet."""
        connection = self.connect()
        given = {**self.more, **(headers or {})}
        connection.request(method, self.path, body,
                           {name: value for name, value in given.items() if value is not None})
        return connection, connection.getresponse()

    def raw(self, method, body=None, headers=None):
        """(status, headers, body as bytes)"""
        connection, response = self.open(method, body, headers)
        try:
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def headers(self, message):
        legacy = {"Accept": BOTH, "Content-Type": "application/json",
                  "Mcp-Session-Id": self.session,
                  "MCP-Protocol-Version": self.session and self.revision}
        if self.revision != MODERN:
            return legacy
        params = message.get("params", {})
        return {**legacy, "MCP-Protocol-Version": MODERN, "Mcp-Method": message.get("method"),
                "Mcp-Name": params.get("name", params.get("uri"))}

    # messages

    def make(self, method, params=None, **more):
        self.last_id += 1
        params = dict(params or {})
        if self.revision == MODERN:
            params["_meta"] = {"io.modelcontextprotocol/protocolVersion": MODERN,
                               "io.modelcontextprotocol/clientCapabilities": {},
                               "io.modelcontextprotocol/clientInfo": {"name": "test",
                                                                      "version": "1"},
                               **params.get("_meta", {})}
        return {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params, **more}

    def post(self, message, headers=None):
        """(status, the answer or None); what took so long that it became a stream is its last event."""
        status, given, body = self.raw("POST", json.dumps(message),
                                       {**self.headers(message), **(headers or {})})
        if given.get("Content-Type", "").startswith("text/event-stream"):
            body = re.findall(rb"^data: ({.*)$", body, re.MULTILINE)[-1]
        return status, json.loads(body) if body.strip().startswith(b"{") else body

    def stream(self, method, params=None, headers=None, message=None):
        message = message or self.make(method, params)
        connection, response = self.open("POST", json.dumps(message),
                                         {**self.headers(message), **(headers or {})})
        return Stream(connection, response)

    def listen(self, last_event=None):
        connection, response = self.open("GET", None, {
            "Accept": "text/event-stream", "Mcp-Session-Id": self.session,
            "Last-Event-ID": last_event})
        assert response.status == 200, (response.status, response.read())
        return Stream(connection, response)

    def request(self, method, params=None):
        """The result, from JSON or the last event of a stream."""
        message = self.make(method, params)
        with self.stream(method, message=message) as stream:
            if stream.response.headers["Content-Type"].startswith("text/event-stream"):
                answer = stream.rest()[-1]
            else:
                answer = json.loads(stream.response.read())
        assert answer["id"] == message["id"], answer
        assert "result" in answer, answer
        return answer["result"]

    def notify(self, method, params=None):
        status, _ = self.post({"jsonrpc": "2.0", "method": method, "params": params or {}})
        assert status == 202, status

    def initialize(self, capabilities=None, revision=None):
        message = self.make("initialize", {
            "protocolVersion": revision or self.revision, "capabilities": capabilities or {},
            "clientInfo": {"name": "test", "version": "1"}})
        status, headers, body = self.raw("POST", json.dumps(message), self.headers(message))
        assert status == 200, (status, body)
        self.session = headers["Mcp-Session-Id"]
        result = json.loads(body)["result"]
        self.revision = result["protocolVersion"]
        self.notify("notifications/initialized")
        return result

    def leave(self):
        status, _, _ = self.raw("DELETE", None, {"Mcp-Session-Id": self.session})
        return status

    # tools

    def tools(self):
        return {tool["name"]: tool for tool in self.request("tools/list")["tools"]}

    def call(self, name, arguments=None, **meta):
        params = {"name": name, "arguments": arguments or {}}
        return self.request("tools/call", {**params, **({"_meta": meta} if meta else {})})

    def text(self, name, arguments=None):
        return self.call(name, arguments)["content"][0]["text"]
