#!/usr/bin/env python3
"""Writes a line that is not UTF-8 before its answer."""
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
                                   "api_version": 1, "methods": ["work.do"]}})
    elif method == "ping":
        send({"id": id, "result": {"status": "ok"}})
    elif method == "shutdown":
        break
    elif method == "work.do":
        os.write(1, b'{"jsonrpc":"2.0","method":"bad.text","params":["\xff\xc0\x80\xed\xa0\x80"]}\n')
        send({"id": id, "result": "still here"})
