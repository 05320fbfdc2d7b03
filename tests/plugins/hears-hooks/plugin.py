#!/usr/bin/env python3
"""heard.answer gives it Python code for a hook, which leaves `result` or `error`; heard.calls tells all."""
import json
import os
import sys
import time

calls, answers = [], {}


class Refused(Exception):
    """With the error object to answer with."""


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def hook(name, params):
    calls.append({"hook": name, **params})
    names = {"params": params, "result": None, "time": time}
    exec(answers.get(name, ""), names)
    if "error" in names:
        raise Refused(names["error"])
    return names["result"]


def answer(method, params):
    if method == "initialize":
        return {"name": os.environ["KAGED_PLUGIN_NAME"], "version": "1.0.0", "api_version": 1,
                "methods": ["heard.calls", "heard.answer"], "notifications": [],
                "capabilities_used": []}
    if method == "heard.calls":
        told = list(calls)
        calls.clear()
        return {"calls": told}
    if method == "heard.answer":
        answers[params["hook"]] = params["code"]
    elif method.startswith("kaged.hook."):
        return hook(method.rpartition(".")[2], params)
    elif method.endswith(".echo"):
        return {"text": params["text"], "context": params["_context"]}
    elif method.endswith(".die"):
        os._exit(3)
    return {"status": "ok"}


for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "shutdown":
        break
    if message["method"].endswith(".fails"):
        send({"id": message["id"], "error": {"code": -32000, "message": "No more <plugin:x> ink."}})
        continue
    try:
        result = answer(message["method"], message.get("params", {}))
    except Refused as refused:
        send({"id": message["id"], "error": refused.args[0]})
        continue
    if "id" in message:
        send({"id": message["id"], "result": result})
