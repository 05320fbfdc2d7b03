"""An MCP server with one fault, which FAULT names; without one it keeps every rule."""

SERVER = '''#!/usr/bin/env python3
import json, os, sys, time

FAULT = os.environ.get("FAULT", "")
SUM = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
       "required": ["a", "b"], "additionalProperties": False}
TOOL = {"name": "add", "description": "Adds two numbers.", "inputSchema": SUM,
        "outputSchema": {"type": "object", "properties": {"sum": {"type": "number"}},
                         "required": ["sum"]}}
if FAULT == "bad schema":
    TOOL["inputSchema"] = {"type": "objekt"}
if FAULT == "other tools":
    TOOL["description"] += f" {time.time_ns()}"
if FAULT == "undescribed":
    del TOOL["description"]
if FAULT == "hidden words":
    TOOL["description"] += "\\u200b And more."


def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def fits(arguments):
    return isinstance(arguments, dict) and set(arguments) == {"a", "b"} and all(
        isinstance(value, (int, float)) and not isinstance(value, bool)
        for value in arguments.values())


def call(params):
    token = params.get("_meta", {}).get("progressToken")
    if params["name"] != "add":
        return {"result": {"content": []}} if FAULT == "knows all" else {
            "error": {"code": -32602, "message": "Unknown tool"}}
    if not fits(params.get("arguments")) and FAULT != "takes all":
        return {"result": {"content": [{"type": "text", "text": "that does not fit"}],
                           "isError": True}}
    if FAULT == "dies":
        sys.exit(3)
    if FAULT == "asks":
        say({"id": 0, "method": "roots/list"})
    if FAULT == "odd news":
        say({"method": "notifications/odd"})
    if FAULT == "falls":
        for progress in (2, 1):
            say({"method": "notifications/progress",
                 "params": {"progressToken": token, "progress": progress}})
    if FAULT == "no content":
        return {"result": {}}
    total = "three" if FAULT == "misfit" else 3
    return {"result": {"content": [{"type": "text", "text": "3"}],
                       "structuredContent": {"sum": total}}}


def answer(method, params):
    if method == "initialize":
        info = {} if FAULT == "nameless" else {"serverInfo": {"name": "faulty", "version": "1"}}
        revision = "1999-01-01" if FAULT == "old" else "2025-11-25"
        return {"result": {"protocolVersion": revision, **info,
                           "capabilities": {"tools": {}, "resources": {}, "prompts": {}}}}
    if method == "ping" and FAULT != "no ping":
        return {"result": {}}
    if method == "tools/list":
        return {"result": {"tools": [TOOL, TOOL] if FAULT == "twins" else [TOOL]}}
    if method == "tools/call":
        return call(params)
    if method == "resources/list":
        return {"result": {"resources": [{"uri": "test:a", "name": "a"}]}}
    if method == "resources/read" and FAULT != "unread":
        return {"result": {"contents": [{"uri": "test:a", "text": "a"}]}}
    if method == "prompts/list":
        return {"result": {"prompts": [{"name": "p"}]}}
    if method == "prompts/get":
        role = "nobody" if FAULT == "odd prompt" else "user"
        return {"result": {"messages": [{"role": role, "content": {"type": "text", "text": "t"}}]}}
    return {"error": {"code": -32601, "message": "Method not found"}}


if FAULT == "banner":
    print("Welcome!", flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if "method" not in message:
        continue
    if message["method"] == "notifications/cancelled" and FAULT == "cancel kills":
        sys.exit(4)
    if "id" in message:
        say({"id": message["id"], **answer(message["method"], message.get("params", {}))})
while FAULT == "stays":
    time.sleep(1)
'''

MANIFEST = """\
name: faulty
version: 1.0.0
kaged_api: 1
protocol: mcp
description: An MCP server with a fault.
command: [./server.py]
env: {{ FAULT: "{fault}" }}
capabilities: []
"""
