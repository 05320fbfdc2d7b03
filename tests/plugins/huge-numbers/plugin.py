#!/usr/bin/env python3
"""Answers with numbers that no machine type holds."""
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
                                   "api_version": 1, "methods": ["numbers.huge"]}})
    elif method == "ping":
        send({"id": id, "result": {"status": "ok"}})
    elif method == "shutdown":
        break
    elif method == "numbers.huge":
        digits = "7" * message["params"]["digits"]
        print('{"jsonrpc":"2.0","id":%d,"result":[%s,1e400,-0,0.1]}' % (id, digits), flush=True)
