#!/usr/bin/env python3
"""Does all as it should, in Python."""
import json
import os
import sys

for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        result = {"name": os.environ["KAGED_PLUGIN_NAME"], "version": "1.0.0", "api_version": 1,
                  "methods": ["good.echo"], "notifications": [], "capabilities_used": []}
    elif method == "ping":
        result = {"status": "ok"}
    elif method == "shutdown":
        break
    elif method == "good.echo":
        result = message["params"]
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
