#!/usr/bin/env python3
"""Writes more stderr lines than are kept, then the reason, and ends."""
import json
import os
import sys

for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {
            "name": os.environ["KAGED_PLUGIN_NAME"], "version": "1.0.0", "api_version": 1,
            "methods": ["work.do"]}}), flush=True)
    elif message.get("method") == "work.do":
        print("\n".join(f"line {n}" for n in range(1000)), file=sys.stderr)
        print("FATAL: the reason", file=sys.stderr, flush=True)
        os._exit(3)
