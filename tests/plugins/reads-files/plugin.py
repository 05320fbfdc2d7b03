#!/usr/bin/env python3
"""Reads a file or lists a folder for its caller. What fails is an error with the system's own words."""
import json
import os
import socket
import sys


def read(method, path):
    if method == "read.greet":  # HOST:PORT
        host, _, port = path.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except OSError as error:
            raise OSError(f"cannot greet {host}: {error.strerror}") from error
        return {}
    if method == "read.list":
        return {"names": sorted(os.listdir(path))}
    with open(path) as file:
        return {"text": file.read()}


def answer(message):
    method = message["method"]
    if method == "initialize":
        return {"result": {"name": "reads-files", "version": "1.0.0", "api_version": 1,
                           "methods": ["read.file", "read.list", "read.greet"], "notifications": [],
                           "capabilities_used": []}}
    if not method.startswith("read."):
        return {"result": {"status": "ok"}}
    try:
        return {"result": read(method, message["params"]["path"])}
    except OSError as error:
        return {"error": {"code": -32603, "message": str(error)}}


for line in sys.stdin:
    told = json.loads(line)
    if told.get("method") == "shutdown":
        break
    if "id" in told:
        print(json.dumps({"jsonrpc": "2.0", "id": told["id"], **answer(told)}), flush=True)
