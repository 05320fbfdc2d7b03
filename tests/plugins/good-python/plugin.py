#!/usr/bin/env python3
"""Does all as it should, in Python."""
import json
import os
import sys

for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    reply = {"error": {"code": -32601, "message": f"no method {method}"}}
    if method == "initialize":
        reply = {"result": {"name": os.environ["KAGED_PLUGIN_NAME"], "version": "1.0.0",
                            "api_version": 1, "methods": ["good.echo"], "notifications": [],
                            "capabilities_used": []}}
    elif method == "ping":
        reply = {"result": {"status": "ok"}}
    elif method == "shutdown":
        break
    elif method == "good.echo":
        reply = {"result": message["params"]}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
