#!/usr/bin/env python3
"""Does in hooks and tools what their params tell it to, good or bad.

params["acts"], {NAME OF THE PLUGIN: act} or an act for all of them:
  {"result": any}         answers with it; {"raw": text}: with that, JSON or not
  {"error": {...}}        answers with that error
  {"echo": true}          answers with its params as a text to inject
  {"size": true}          answers with the bytes of the line that it got, as a text
  {"fill": count}         answers with so many letters
  {"after": seconds, ...} does the rest so much later, and reads on meanwhile
  {"held": true, ...}     does the rest once told.seen comes with {"release": true}
  {"hang": true}          never answers, and reads on
  {"crash": code}         ends
told.seen lists what it was asked, and whether it had not answered something before.
"""
import json
import os
import sys
import threading
import time

NAME = os.environ["KAGED_PLUGIN_NAME"]
START_DELAY = os.environ.get("START_DELAY")
seen, held, unanswered, lock = [], [], set(), threading.Lock()


def say(text):
    with lock:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def answer(number, act, params, line):
    if "error" in act:
        reply = '"error":' + json.dumps(act["error"])
    elif "raw" in act:
        reply = '"result":' + act["raw"]
    elif "echo" in act:
        reply = '"result":' + json.dumps({"inject": json.dumps(params, sort_keys=True)})
    elif "size" in act:
        reply = '"result":' + json.dumps({"inject": str(len(line))})
    elif "fill" in act:
        reply = '"result":"' + "x" * act["fill"] + '"'
    else:
        reply = '"result":' + json.dumps(act.get("result"))
    unanswered.discard(number)
    say(f'{{"jsonrpc":"2.0","id":{number},{reply}}}')


def do(number, act, params, line):
    if "crash" in act:
        os._exit(act["crash"])
    if "hang" in act:
        unanswered.discard(number)  # for ever: it says nothing about those that follow
        return
    if "held" in act:
        held.append((number, act, params, line))
    elif "after" in act:
        threading.Timer(act["after"], answer, (number, act, params, line)).start()
    else:
        answer(number, act, params, line)


def on_request(message, line):
    method, number, params = message["method"], message["id"], message.get("params", {})
    if method == "initialize":
        time.sleep(float(START_DELAY or 0))
        answer(number, {"result": {"name": NAME, "version": "1.0.0", "api_version": 1,
                                   "methods": ["told.seen"]}}, params, line)
    elif method == "told.seen":
        while isinstance(params, dict) and params.get("release") and held:
            answer(*held.pop())
        answer(number, {"result": seen}, params, line)
    elif method.startswith("kaged.hook.") or method.startswith(NAME + "."):
        acts = params.get("acts", {})
        seen.append({"method": method, "mark": params.get("mark"), "beside": len(unanswered)})
        unanswered.add(number)
        do(number, acts.get(NAME, acts), params, line)
    else:
        answer(number, {"result": {"status": "ok"}}, params, line)


for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "shutdown":
        os._exit(0)
    if "id" in message:
        on_request(message, line)
os._exit(0)
