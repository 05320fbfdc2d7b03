#!/usr/bin/env python3
"""Remembers its configuration, or refuses it as MODE says.

MODE: accept; slow (an answer to config.update takes half a second); never (there is none); or
codes, one for each config.update, "ok" among them: "-32002 ok" refuses the first one only.
"""
import json
import os
import sys
import time

mode = os.environ["MODE"]
answers = [] if mode in ("accept", "slow", "never") else mode.split()
methods = ["config.get", "messages.seen"]
configs, seen = [], []


def error(code):
    return {"error": {"code": int(code), "message": "I do not like the field",
                      "data": {"field": "x"}}}


def answer_config(params):
    configs.append(params)
    time.sleep(0.5 if mode == "slow" else 0)
    code = answers.pop(0) if answers else "ok"
    return {"result": {}} if code == "ok" else error(code)


def answer(method, params):
    if method == "initialize":
        return {"result": {"name": os.environ["KAGED_PLUGIN_NAME"], "version": "1.0.0",
                           "api_version": 1, "methods": methods}}
    if method == "config.update":
        return answer_config(params)
    return {"result": {"config.get": configs, "messages.seen": seen}.get(method, {"status": "ok"})}


for line in sys.stdin:
    message = json.loads(line)
    seen.append(message["method"])
    if "id" not in message or (message["method"] == "config.update" and mode == "never"):
        continue
    reply = answer(message["method"], message.get("params"))
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
