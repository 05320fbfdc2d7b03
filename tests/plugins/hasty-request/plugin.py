#!/usr/bin/env python3
"""Sends a request together with its answer to initialize."""
import json
import sys

line = sys.stdin.readline()
hello = {"name": "hasty-request", "version": "1.0.0", "api_version": 1, "methods": ["reply.code"]}
sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": 1, "result": hello}) + "\n" +
                 json.dumps({"jsonrpc": "2.0", "id": 1, "method": "kaged.storage.schema"}) + "\n")
sys.stdout.flush()
code = None
for line in sys.stdin:
    message = json.loads(line)
    if "error" in message:
        code = message["error"]["code"]
    elif message["method"] == "reply.code":
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": code}), flush=True)
