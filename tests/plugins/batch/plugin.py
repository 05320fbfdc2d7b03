#!/usr/bin/env python3
"""Sends a batch, and tells how that was answered."""
import json
import os
import sys


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        send({"id": id, "result": {"name": os.environ["KAGED_PLUGIN_NAME"], "version": "1.0.0",
                                   "api_version": 1, "methods": ["batch.send"]}})
    elif method == "ping":
        send({"id": id, "result": {"status": "ok"}})
    elif method == "shutdown":
        break
    elif method == "batch.send":
        print(json.dumps(message["params"]["batch"]), flush=True)
        waiting = id
    elif "error" in message:
        send({"id": waiting, "result": message})
