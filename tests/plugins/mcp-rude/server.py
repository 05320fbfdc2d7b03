#!/usr/bin/env python3
"""A legacy MCP server that does wrong what RUDE says, and all else right. The resource test:told is what it
was told."""
import json
import os
import sys
import threading

RUDE = os.environ["RUDE"]
told = []
TOOLS = [{"name": "plain", "inputSchema": {"type": "object"}}]


def bomb(depth):
    return {"type": "object"} if depth == 0 else {"properties": {"deeper": bomb(depth - 1)}}


if RUDE == "many":
    TOOLS = [{"name": f"tool{i}", "inputSchema": {"type": "object"}} for i in range(10_000)]
elif RUDE == "alike":
    TOOLS = [{"name": name, "inputSchema": {"type": "object"}}
             for name in ("plain", "read_file", "read_fi1e", "Read-File", "re\u0430d_file", "write_file")]
elif RUDE == "bomb":
    TOOLS.append({"name": "bomb", "inputSchema": {
        "$defs": {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 10} for i in range(30)} |
                 {"d30": {"type": "object"}}, "$ref": "#/$defs/d0"}})
    TOOLS.append({"name": "deep", "inputSchema": bomb(120)})


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def storm():
    while True:
        say({"method": "notifications/tools/list_changed"})
        threading.Event().wait(0.05)


def result(method, params):
    if method == "initialize":
        return {"protocolVersion": "2025-11-25", "serverInfo": {"name": "rude", "version": "1"},
                "capabilities": {"tools": {"listChanged": True}, "resources": {},
                                 **({"prompts": {}} if RUDE == "prompts" else {})}}
    if method == "tools/list" and RUDE == "pages":
        return {"tools": [], "nextCursor": str(int(params.get("cursor", 0)) + 1)}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": "fine"}]}
    if method == "prompts/list":
        return {"prompts": [{"name": f"prompt number {i}"} for i in range(5000)]}
    if method == "prompts/get":
        return {"messages": [{"role": "user", "content": {"type": "text", "text": params["name"]}}]}
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": json.dumps(told)}]}
    return {} if method == "ping" else None


for line in sys.stdin:
    message = json.loads(line)
    told.append(message)
    method = message.get("method")
    if method == "notifications/initialized" and RUDE == "change":
        threading.Thread(target=storm, daemon=True).start()
    if "id" not in message or method is None:
        continue
    found = result(method, message.get("params", {}))
    if RUDE == "garbage":
        for noise in ("{", "[1, 2]", "null", '{"jsonrpc": "1.0"}', "\x00\x1b[2J", '{"id": 999999, "result": 1}'):
            print(noise, flush=True)
    if method == "tools/call" and RUDE == "line":
        sys.stdout.write("x" * (16 << 20) + "\n")
    if method == "tools/call" and RUDE == "requests":
        for i, wanted in enumerate(("sampling/createMessage", "elicitation/create", "roots/list",
                                    "kaged.ask", "no/such")):
            say({"id": (1.5, "a", 0, -1, 2)[i], "method": wanted, "params": {}})
    answer = {"result": found} if found is not None else \
        {"error": {"code": -32601, "message": "Method not found"}}
    for _ in range(2 if RUDE == "twice" else 1):
        say({"id": message["id"], **answer})
