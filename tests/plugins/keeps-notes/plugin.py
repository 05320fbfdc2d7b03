#!/usr/bin/env python3
"""Keeps notes in memory, in a file and in storage, and does not look who asks."""
import json
import os
import sys

notes, unread = [], []


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def ask(method, params):
    send({"id": 1, "method": method, "params": params})
    while True:
        answer = json.loads(sys.stdin.readline())
        if "method" not in answer:
            return answer.get("result")
        unread.append(answer)


def add(text):
    notes.append(text)
    path = os.environ["KAGED_CONFIG_ROOT"] + "/notes"
    with open(path, "a") as file:
        file.write(text + "\n")
    ask("kaged.storage.exec", {"sql": "CREATE TABLE IF NOT EXISTS note (text)"})
    ask("kaged.storage.exec", {"sql": "INSERT INTO note VALUES (?)", "params": [text]})
    rows = ask("kaged.storage.query", {"sql": "SELECT text FROM note ORDER BY rowid"})["rows"]
    with open(path) as file:
        return {"memory": notes, "file": file.read().split(), "path": path,
                "storage": [list(row.values())[0] if isinstance(row, dict) else row[0]
                            for row in rows],
                "project": os.environ.get("KAGED_PROJECT_ID"), "pid": os.getpid()}


def messages():
    while unread or (line := sys.stdin.readline()):
        yield unread.pop(0) if unread else json.loads(line)


for message in messages():
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        send({"id": id, "result": {"name": os.environ["KAGED_PLUGIN_NAME"], "version": "1.0.0",
                                   "api_version": 1, "methods": ["notes.add"]}})
    elif method == "ping":
        send({"id": id, "result": {"status": "ok"}})
    elif method == "shutdown":
        break
    elif method in ("notes.add", os.environ["KAGED_PLUGIN_NAME"] + ".add"):
        send({"id": id, "result": add(str(message["params"].get("text", "")))})
    elif id is not None:
        send({"id": id, "error": {"code": -32601, "message": "no such method"}})
