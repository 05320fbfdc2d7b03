#!/usr/bin/env python3
"""An MCP server of the era that ERA names, which offers resources, prompts and completion, tells of
changes and progress, logs, and whose tool `wait` lasts until it is cancelled. The resource test:told
is what it was told so far."""
import json
import os
import queue
import sys
import threading

MODERN = os.environ["ERA"] == "modern"
told, subscribed, cancelled = [], set(), {}
lock = threading.Lock()
OBJECT = {"type": "object"}
TOOLS = {name: {"name": name, "inputSchema": OBJECT} for name in (
    "wait", "progress", "log", "update", "link", "bytes", "ask", "sample")}
RESOURCES = [{"uri": f"test:{name}", "name": name, "description": f"What is {name}."}
             for name in ("told", "one", "two", "bytes", "broken")]
PROMPTS = [{"name": "greet", "description": "Greets somebody.",
            "arguments": [{"name": "whom", "required": True}, {"name": "how"}]}]
CAPABILITIES = {"tools": {}, "resources": {"subscribe": True, "listChanged": True},
                "prompts": {"listChanged": True}, "completions": {}, "logging": {}}


def say(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


FORM = {"message": "Which color?", "requestedSchema": {
    "type": "object", "properties": {"color": {"type": "string", "enum": ["red", "blue"]}},
    "required": ["color"]}}
SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "Name a fruit."}}],
          "maxTokens": 20}
answers = {}


def notify(method, **params):
    say({"method": "notifications/" + method, "params": params})


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


def ask(request, method, params):
    """What was answered; None: the answer asks, and the call comes again."""
    if MODERN:
        given = request["params"].get("inputResponses")
        if given is not None and request["params"].get("requestState") == "kept":
            return given["it"]
        say({"id": request["id"], "result": {
            "resultType": "input_required", "requestState": "kept",
            "inputRequests": {"it": {"method": method, "params": params}}}})
        return None
    own = f"own-{request['id']}"
    answers[own] = queue.Queue()
    say({"id": own, "method": method, "params": params})
    answer = answers[own].get()
    return answer.get("result", answer.get("error"))


def call(request):
    name = request["params"]["name"]
    if name in ("ask", "sample"):
        answer = ask(request, "elicitation/create", FORM) if name == "ask" else \
            ask(request, "sampling/createMessage", SAMPLE)
        return None if answer is None else text(json.dumps(answer))
    token = request["params"].get("_meta", {}).get("progressToken")
    if name == "wait":
        notify("message", level="info", data="it waits")
        cancelled[request["id"]].wait()
        notify("message", level="info", data="it was cancelled")
        return None  # what was cancelled is not answered
    if name == "progress":
        for at in (1, 2, 1, 3):
            notify("progress", progressToken=token, progress=at, total=3, message=f"step {at}")
        notify("progress", progressToken="never given", progress=9)
        return text("done")
    if name == "log":
        for level in ("debug", "warning"):
            notify("message", level=level, logger="rich", data={"said": level})
        return text("logged")
    if name == "update":
        notify("resources/updated", uri="test:one")
        notify("resources/list_changed")
        return text("updated")
    if name == "link":
        return {"content": [{"type": "resource_link", "uri": "file:///etc/passwd", "name": "link"}]}
    return {"content": [{"type": "image", "mimeType": "image/png", "data": "not base64!"}]}


def page(items, key, params):
    at = int(params.get("cursor", 0))
    more = {"nextCursor": str(at + 1)} if at + 1 < len(items) else {}
    return {key: items[at:at + 1], **({"ttlMs": 0, "cacheScope": "private"} if MODERN else {}), **more}


def read(uri):
    if uri == "test:told":
        return {"contents": [{"uri": uri, "text": json.dumps(told)}]}
    if uri == "test:bytes":
        return {"contents": [{"uri": uri, "mimeType": "image/png", "blob": "AAEC/w=="}]}
    if uri == "test:broken":
        return {"contents": [{"uri": uri, "mimeType": "image/png", "blob": "A"}]}
    return {"contents": [{"uri": uri, "text": f"this is {uri}\nand more"}]}


def result(request):
    method, params = request["method"], request.get("params", {})
    if method == "server/discover" and MODERN:
        return {"supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
                "capabilities": CAPABILITIES}
    if method == "initialize" and not MODERN:
        return {"protocolVersion": "2025-11-25", "serverInfo": {"name": "rich", "version": "1"},
                "capabilities": CAPABILITIES}
    if method == "tools/list":
        return page(list(TOOLS.values()), "tools", params)
    if method == "tools/call":
        return call(request)
    if method == "resources/list":
        return page(RESOURCES, "resources", params)
    if method == "resources/templates/list":
        return page([{"uriTemplate": "test:{name}", "name": "any"}], "resourceTemplates", params)
    if method == "resources/read":
        if params["uri"] == "test:wait":
            cancelled[request["id"]].wait()
            return None
        return read(params["uri"])
    if method == "resources/subscribe":
        subscribed.add(params["uri"])
        return {}
    if method == "resources/unsubscribe":
        subscribed.discard(params["uri"])
        return {}
    if method == "prompts/list":
        return page(PROMPTS, "prompts", params)
    if method == "prompts/get":
        whom = params.get("arguments", {}).get("whom", "nobody")
        return {"messages": [{"role": "user", "content": {"type": "text", "text": f"Greet {whom}."}}]}
    if method == "completion/complete":
        values = [name for name in ("anna", "anton", "bert")
                  if name.startswith(params["argument"]["value"])]
        return {"completion": {"values": values}}
    return {} if method in ("ping", "logging/setLevel") else {"unknown": method}


def serve(request):
    found = result(request)
    if found is None:
        return
    if "unknown" in found:
        say({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
    else:
        say({"id": request["id"], "result": {"resultType": "complete", **found} if MODERN else found})


def work(jobs):
    while True:
        serve(jobs.get())


jobs = queue.Queue()
for _ in range(4):
    threading.Thread(target=work, args=(jobs,), daemon=True).start()
for line in sys.stdin:
    message = json.loads(line)
    told.append(message)
    method = message.get("method")
    if method == "notifications/cancelled" and message["params"]["requestId"] in cancelled:
        cancelled[message["params"]["requestId"]].set()
    if method is None and message.get("id") in answers:
        answers[message["id"]].put(message)
    if "id" not in message or method is None:
        continue
    if method == "subscriptions/listen":
        notify("subscriptions/acknowledged", notifications=message["params"]["notifications"])
        continue
    cancelled[message["id"]] = threading.Event()
    jobs.put(message)
