#!/usr/bin/env python3
"""Sends initialize itself, and answers the daemon's a second time."""
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
                                   "api_version": 1, "methods": ["reply.code"]}})
    elif method == "ping":
        send({"id": id, "result": {"status": "ok"}})
    elif method == "shutdown":
        break
    elif method == "reply.code":
        waiting = id
        send({"id": 1, "result": {"name": "somebody-else"}})
        send({"id": 1, "method": "initialize", "params": {}})
    elif "error" in message:
        send({"id": waiting, "result": message["error"]["code"]})
