"""An MCP server on stdio, in one file without dependencies: tools, progress and cancellation.

    server = Server("my-plugin", "0.1.0")

    @server.tool("Adds two numbers.", {"a": {"type": "number"}, "b": {"type": "number"}})
    def add(call, a, b):
        return str(a + b)

    server.run()

It speaks the revisions up to 2025-11-25 and 2026-07-28. Tools run in threads of their own, so that a
slow one keeps nobody waiting. What a tool prints goes to stderr: stdout is the wire.
"""
import contextlib
import json
import sys
import threading

LEGACY = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
MODERN = "2026-07-28"
TYPES = {"string": str, "boolean": bool, "object": dict, "array": list, "number": (int, float),
         "integer": int}  # 1.0 is no integer here
CALLS_MAX = 64  # at the same time


class ToolError(Exception):
    """What a tool could not do, in words for who called it."""


class RpcError(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class Call:
    """What a tool knows of the call that it works at."""

    def __init__(self, server, token):
        self._server, self._token, self._cancelled = server, token, threading.Event()

    @property
    def cancelled(self):
        """Whether the caller has left: then nobody waits for the result."""
        return self._cancelled.is_set()

    def progress(self, progress, total=None, message=None):
        """Tells the caller how far the call is; the number has to rise."""
        if self._token is None or self.cancelled:
            return
        more = {"total": total, "message": message}
        self._server._notify("notifications/progress", {
            "progressToken": self._token, "progress": progress,
            **{key: value for key, value in more.items() if value is not None}})


class Server:
    def __init__(self, name, version):
        self.name, self.version, self.tools = name, version, {}
        self._calls, self._lock, self._out = {}, threading.Lock(), None

    def tool(self, description, properties=None, required=None):
        """Makes a tool of a function. All properties are required unless `required` says which."""
        properties = properties or {}
        required = list(properties) if required is None else required

        def add(function):
            self.tools[function.__name__] = function, {
                "name": function.__name__, "description": description,
                "inputSchema": {"type": "object", "properties": properties, "required": required,
                                "additionalProperties": False}}
            return function
        return add

    def call(self, name, arguments, call=None):
        """The result of a tool, as tools/call has it."""
        if name not in self.tools:
            raise RpcError(-32602, f"Unknown tool: {name}")
        function, declared = self.tools[name]
        problem = _problem(declared["inputSchema"], arguments)
        if problem:
            return _text(problem, is_error=True)
        try:
            return _text(function(call or Call(self, None), **arguments))
        except ToolError as error:
            return _text(str(error), is_error=True)

    def run(self, lines=sys.stdin, out=sys.stdout):
        """Serves until stdin ends."""
        self._out = out
        with contextlib.redirect_stdout(sys.stderr):
            for line in lines:
                if line.strip():
                    self._take(line)

    # -- the wire --

    def _say(self, message):
        text = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False)
        with self._lock:
            self._out.write(text + "\n")
            self._out.flush()

    def _notify(self, method, params):
        self._say({"method": method, "params": params})

    def _fail(self, identity, code, message):
        self._say({"id": identity, "error": {"code": code, "message": message}})

    def _take(self, line):
        try:
            message = json.loads(line)
        except ValueError:
            self._fail(None, -32700, "not JSON")
            return
        if not isinstance(message, dict) or "method" not in message:
            return
        params = message.get("params", {})
        params = params if isinstance(params, dict) else {}
        if message["method"] == "notifications/cancelled":
            call = self._calls.get(repr(params.get("requestId")))
            if call:
                call._cancelled.set()
        elif "id" in message:
            self._answer(message["id"], message["method"], params)

    def _answer(self, identity, method, params):
        if method == "tools/call":
            self._begin(identity, params)
            return
        try:
            self._say({"id": identity, "result": self._result(method, params)})
        except RpcError as error:
            self._fail(identity, error.code, str(error))

    def _result(self, method, params):
        capabilities = {"capabilities": {"tools": {}}}
        cached = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        more = cached if _is_modern(params) else {}
        if method == "server/discover":
            return {"supportedVersions": [MODERN], **capabilities, **cached}
        if method == "initialize":
            wanted = params.get("protocolVersion")
            return {"protocolVersion": wanted if wanted in LEGACY else LEGACY[0], **capabilities,
                    "serverInfo": {"name": self.name, "version": self.version}}
        if method == "tools/list":
            return {"tools": [declared for _, declared in self.tools.values()], **more}
        if method == "ping":
            return {}
        raise RpcError(-32601, f"Method not found: {method}")

    def _begin(self, identity, params):
        meta = params.get("_meta")
        call = Call(self, meta.get("progressToken") if isinstance(meta, dict) else None)
        if len(self._calls) >= CALLS_MAX:
            self._fail(identity, -32000, "too many calls at the same time")
            return
        self._calls[repr(identity)] = call
        threading.Thread(target=self._work, args=(identity, params, call), daemon=True).start()

    def _work(self, identity, params, call):
        try:
            result = self.call(params.get("name"), params.get("arguments", {}), call)
            answer = {"result": {**result, "resultType": "complete"} if _is_modern(params)
                      else result}
        except RpcError as error:
            answer = {"error": {"code": error.code, "message": str(error)}}
        except Exception as error:  # of the tool: its caller is told, and the server lives on
            print(f"tools/call: {error!r}", file=sys.stderr)
            answer = {"result": _text(f"{type(error).__name__}: {error}", is_error=True)}
        del self._calls[repr(identity)]
        if not call.cancelled:
            self._say({"id": identity, **answer})


def _is_modern(params):
    meta = params.get("_meta")
    return isinstance(meta, dict) and "io.modelcontextprotocol/protocolVersion" in meta


def _text(text, is_error=False):
    return {"content": [{"type": "text", "text": str(text)}], **({"isError": True} if is_error else {})}


def _problem(schema, value, name="arguments"):
    """What is wrong with a value, by what the schema says of types, members and items; or None."""
    kind = TYPES.get(schema.get("type"), object)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind not in (bool, object)):
        return f"{name} must be a {schema['type']}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{name} must be one of {schema['enum']}"
    if isinstance(value, str) and len(value) < schema.get("minLength", 0):
        return f"{name} is too short"
    if isinstance(value, list):
        return _first(_problem(schema.get("items", {}), item, f"{name}[{i}]")
                      for i, item in enumerate(value))
    return _member_problem(schema, value) if isinstance(value, dict) else None


def _member_problem(schema, value):
    known = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in value:
            return f"{name} is missing"
    for name in value:
        if name not in known and schema.get("additionalProperties") is False:
            return f"there is no argument {name}"
    return _first(_problem(known.get(name, {}), member, name) for name, member in value.items())


def _first(problems):
    return next((problem for problem in problems if problem), None)
