"""MCP servers that tests write where they need them: what they were started with, they tell."""
import json

from harness import wait_for

TELLS = '''#!/usr/bin/env python3
"""An MCP server with one tool, `tell`: its arguments, its environment, what it finds of a path."""
import json, os, sys

def tell(arguments):
    path = arguments.get("path")
    found = None
    if path:
        try:
            found = open(path).read()
        except OSError as error:
            found = error.strerror
    return {"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd(), "found": found}

TOOLS = [{"name": "tell", "description": "Tells what it was started with.",
          "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}}}]
for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params", {})
    if "id" not in message:
        continue
    answer = {"error": {"code": -32601, "message": "Method not found"}}
    if method == "initialize":
        answer = {"result": {"protocolVersion": "2025-11-25",
                             "capabilities": {"tools": {}, "resources": {}},
                             "serverInfo": {"name": "tells", "version": "1"}}}
    elif method == "ping":
        answer = {"result": {}}
    elif method == "tools/list":
        answer = {"result": {"tools": TOOLS}}
    elif method == "resources/read":
        text = json.dumps(tell({"path": params["uri"][len("test:"):]}))
        answer = {"result": {"contents": [{"uri": params["uri"], "text": text}]}}
    elif method == "tools/call":
        text = json.dumps(tell(params.get("arguments", {})))
        answer = {"result": {"content": [{"type": "text", "text": text}]}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
'''


def told(daemon, plugin, path=""):
    """What a server of this kind tells, as soon as it answers."""
    def answer():
        status, said = daemon.try_call(plugin, "resources%2Fread", {"uri": "test:" + path})
        return said if status == 200 else None
    return json.loads(wait_for(answer, f"an answer of {plugin}")["contents"][0]["text"])
