#!/usr/bin/env python3
"""Writes terminal escapes and newlines wherever text may come from it."""
import json
import os
import sys

METHODS = ["text.error", "text.log", "text.notify", "text.crash"]
EVIL = "\x1b[31mred\x1b]0;title\x07\r\nplugin good: fine\u202e\x9b"


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        send({"id": id, "result": {"name": os.environ["KAGED_PLUGIN_NAME"], "version": "1.0.0",
                                   "api_version": 1, "methods": METHODS}})
    elif method == "ping":
        send({"id": id, "result": {"status": "ok"}})
    elif method == "shutdown":
        break
    elif method == "text.error":
        send({"id": id, "error": {"code": -32000, "message": EVIL, "data": EVIL}})
    elif method == "text.log":
        print(EVIL, file=sys.stderr, flush=True)
        send({"id": id, "result": None})
    elif method == "text.notify":
        send({"method": EVIL, "params": {}})
        print(EVIL, flush=True)
        send({"id": id, "result": None})
    elif method == "text.crash":
        print(EVIL, file=sys.stderr, flush=True)
        os._exit(1)
