#!/usr/bin/env python3
"""Each tool asks what its name says, and returns what it was answered."""
import json
import queue
import sys
import threading

lock = threading.Lock()
answers, cancels = {}, {}
COLOR = {"type": "object", "properties": {"color": {"enum": ["red", "blue"]},
                                          "shade": {"type": "integer", "minimum": 0}},
         "required": ["color"], "additionalProperties": False}
number = 0


def say(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def begin(method, params):
    global number
    with lock:
        number += 1
        own = number
        answers[own] = queue.Queue()
    say({"id": own, "method": method, "params": params})
    return own


def ask(method, params):
    answer = answers[begin(method, params)].get()
    return answer.get("result", answer.get("error"))


def color(params, call):
    return ask("kaged.ask", {"title": "Which color?", "schema": COLOR})


def twice(params, call):
    both = [begin("kaged.ask", {"title": f"Question {i}"}) for i in (1, 2)]
    return [answers[own].get()["result"] for own in both]


def page(params, call):
    return ask("kaged.ask", {"title": "Sign in", "url": "https://example.org/sign-in"})


def odd(params, call):
    return [ask("kaged.ask", wrong) for wrong in (
        {}, {"title": "x" * 5000}, {"title": "x", "url": "file:///etc/passwd"},
        {"title": "x", "schema": {"$ref": "#/nowhere"}}, {"title": "x", "schema": []})]


def sample(params, call):
    return ask("kaged.sample", {"messages": [{"role": "user", "content": {
        "type": "text", "text": "Name a fruit."}}], "systemPrompt": "Be brief.",
        "maxTokens": params.get("tokens", 50)})


def wait(params, call):
    print("waits", file=sys.stderr, flush=True)
    for at in (1, 2):
        say({"method": "kaged.progress", "params": {"id": call, "progress": at, "total": 2}})
    cancels[call].wait()
    return {"cancelled": True}


TOOLS = {"color": color, "twice": twice, "page": page, "odd": odd, "sample": sample, "wait": wait}


def serve(message):
    tool = TOOLS[message["method"].split(".")[1]]
    say({"id": message["id"], "result": tool(message["params"], message["id"])})


for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method is None:
        answers[message["id"]].put(message)
    elif method == "initialize":
        say({"id": message["id"], "result": {"name": "asks", "version": "1.0.0", "api_version": 1,
                                             "methods": ["asks.color"]}})
    elif method == "ping":
        say({"id": message["id"], "result": {"status": "ok"}})
    elif method == "shutdown":
        break
    elif method == "kaged.cancel":
        print("cancelled", message["params"]["id"], file=sys.stderr, flush=True)
        cancels[message["params"]["id"]].set()
    elif method.startswith("asks."):
        cancels[message["id"]] = threading.Event()
        threading.Thread(target=serve, args=(message,), daemon=True).start()
    elif "id" in message:
        say({"id": message["id"], "error": {"code": -32601, "message": "no"}})
