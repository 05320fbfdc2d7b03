#!/usr/bin/env python3
"""Ends as it is told to, in the middle of a call."""
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
                                   "api_version": 1, "methods": ["crash.exit", "crash.signal"]}})
    elif method == "ping":
        send({"id": id, "result": {"status": "ok"}})
    elif method == "shutdown":
        break
    elif method == "crash.exit":
        print("last words", file=sys.stderr, flush=True)
        os._exit(message["params"]["code"])
    elif method == "crash.signal":
        os.kill(os.getpid(), message["params"]["signal"])
