#!/usr/bin/env python3
"""Remembers its configuration, stores texts, fails when asked."""
import json
import os
import sys

methods = ["all.config", "all.store", "all.fail"]
told = []


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def store(text):
    send({"id": 1, "method": "kaged.storage.exec",
          "params": {"sql": "CREATE TABLE IF NOT EXISTS texts (text TEXT)"}})
    sys.stdin.readline()
    send({"id": 2, "method": "kaged.storage.exec",
          "params": {"sql": "INSERT INTO texts VALUES (?)", "params": [text]}})
    return json.loads(sys.stdin.readline()).get("result")


for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params")
    result = {"status": "ok"}
    if method == "initialize":
        result = {"name": os.environ["KAGED_PLUGIN_NAME"], "version": "1.0.0", "api_version": 1,
                  "methods": methods}
    elif method == "config.update":
        told.append(params["config"])
    elif method == "all.config":
        result = told
    elif method == "all.store":
        result = store(params.get("text", ""))
    if "id" not in message:
        continue
    answer = {"result": result}
    if method == "all.fail":
        answer = {"error": {"code": -32050, "message": "it failed"}}
    send({"id": message["id"], **answer})
