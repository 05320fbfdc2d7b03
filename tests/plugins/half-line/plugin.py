#!/usr/bin/env python3
"""Answers a call with half a line, then says nothing more."""
import json
import os
import sys
import time


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        send({"id": id, "result": {"name": os.environ["KAGED_PLUGIN_NAME"], "version": "1.0.0",
                                   "api_version": 1, "methods": ["half.send"]}})
    elif method == "ping":
        send({"id": id, "result": {"status": "ok"}})
    elif method == "shutdown":
        break
    elif method == "half.send":
        half = "x" * message["params"]["bytes"]
        sys.stdout.write('{"jsonrpc":"2.0","id":%d,"result":"%s' % (id, half))
        sys.stdout.flush()
        time.sleep(3600)
