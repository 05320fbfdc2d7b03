#!/usr/bin/env python3
"""Tells what it sees of the world, and tries to write to its folder."""
import json
import os
import sys


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def fds():
    """Open fds, without the one that lists them."""
    return [fd for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")]


def attempt(path):
    try:
        open(path, "w").close()
    except OSError as error:
        return error.strerror
    return "written"


for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        send({"id": id, "result": {"name": os.environ["KAGED_PLUGIN_NAME"], "version": "1.0.0",
                                   "api_version": 1, "methods": ["world.show", "folder.write"]}})
    elif method == "ping":
        send({"id": id, "result": {"status": "ok"}})
    elif method == "shutdown":
        break
    elif method == "world.show":
        send({"id": id, "result": {"env": dict(os.environ), "cwd": os.getcwd(), "argv": sys.argv,
                                   "fds": sorted(int(fd) for fd in fds()), "uid": os.getuid()}})
    elif method == "folder.write":
        send({"id": id, "result": attempt(os.environ["KAGED_PLUGIN_DIR"] + "/written")})
