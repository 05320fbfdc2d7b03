#!/usr/bin/env python3
"""Takes as much of the machine as it is told to."""
import ctypes
import json
import os
import signal
import sys
import time

METHODS = ["greedy.memory", "greedy.children", "greedy.processes", "greedy.call", "greedy.files"]
kept = []


def take(mib):
    kept.append(bytearray(os.urandom(1024)) * (mib * 1024))


def start(work):
    child = os.fork()
    if child == 0:
        os.close(0)
        os.close(1)
        work()
        os._exit(0)
    return child


def wait():
    time.sleep(600)


def act(method, params):
    if method == "greedy.memory":  # in this process
        take(params["mib"])
    elif method == "greedy.children":  # in so many others, each of which waits
        for _ in range(params["count"]):
            start(lambda: (take(params["mib"]), wait()))
    elif method == "greedy.processes":  # so many at once, and then none
        children = []
        try:
            for _ in range(params["count"]):
                children.append(start(wait))
        except OSError:
            pass
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        return {"started": len(children)}
    elif method == "greedy.files":  # so many, and nothing in them
        for number in range(params["count"]):
            os.close(os.open(f"/tmp/{number}", os.O_CREAT | os.O_WRONLY))
    elif method == "greedy.call":  # by the ABI of x32
        ctypes.CDLL(None).syscall(0x40000000 | 39)
    return {}


for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        result = {"name": os.environ["KAGED_PLUGIN_NAME"], "version": "1.0.0", "api_version": 1,
                  "methods": METHODS, "notifications": [], "capabilities_used": []}
    elif method == "ping":
        result = {"status": "ok"}
    elif method == "shutdown":
        break
    elif method in METHODS:
        result = act(method, message["params"])
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
