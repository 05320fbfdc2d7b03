#!/usr/bin/env python3
"""Passes storage requests of its caller on to the host: one, or many at the same time."""
import json
import os
import sys

told = {}
waiting = {}  # id of ours: (id of the call, place of the answer, answers)
last_id = 0


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def ask(call, requests):
    global last_id
    answers = [None] * len(requests)
    for place, request in enumerate(requests):
        last_id += 1
        waiting[last_id] = (call, place, answers)
        send({"id": last_id, "method": "kaged.storage." + request["method"],
              "params": request["params"]})


def take_answer(message):
    call, place, answers = waiting.pop(message["id"])
    answers[place] = message.get("result", message.get("error"))
    if None not in answers:
        send({"id": call, "result": answers})


for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method is None:
        take_answer(message)
    elif method == "initialize":
        told = message["params"]
        send({"id": message["id"], "result": {
            "name": os.environ["KAGED_PLUGIN_NAME"], "version": "1.0.0", "api_version": 1,
            "methods": ["store.ask", "store.ask_many", "store.initialize"], "notifications": [],
            "capabilities_used": []}})
    elif method == "shutdown":
        break
    elif method == "store.initialize":
        send({"id": message["id"], "result": told})
    elif method == "store.ask":
        ask(message["id"], [message["params"]["request"]])
    elif method == "store.ask_many":
        ask(message["id"], message["params"]["requests"])
    elif "id" in message:
        send({"id": message["id"], "result": {"status": "ok"}})
