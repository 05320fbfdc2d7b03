#!/usr/bin/env python3
"""The smallest whole plugin: it gives back what it is told.

kaged starts it in a cage and writes one JSON-RPC message a line to its stdin; the answers go to
stdout, one a line. Whatever else there is to say goes to stderr, which is the plugin's log.
"""
import json
import sys

NAME, VERSION, API_VERSION = "echo", "0.1.0", 1


class Refusal(Exception):
    """An answer that is an error: a JSON-RPC code and words for the caller."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def text_of(params):
    text = params.get("text")
    if not isinstance(text, str):
        raise Refusal(-32602, 'params need a string "text"')
    return text


def initialize(params):
    return {"name": NAME, "version": VERSION, "api_version": API_VERSION,
            "methods": [method for method in METHODS if method.startswith("echo.")],
            "notifications": [], "capabilities_used": []}


METHODS = {
    "initialize": initialize,
    "ping": lambda params: {"status": "ok"},
    "echo.say": lambda params: {"text": text_of(params)},
    "echo.upper": lambda params: {"text": text_of(params).upper()},
    "echo.context": lambda params: params.get("_context"),
}


def answer(request):
    """The response to one request; a notification needs none and never comes here."""
    response = {"jsonrpc": "2.0", "id": request["id"]}
    try:
        if request["method"] not in METHODS:
            raise Refusal(-32601, f"no method {request['method']}")
        params = request.get("params", {})
        if not isinstance(params, dict):
            raise Refusal(-32602, "params must be an object")
        response["result"] = METHODS[request["method"]](params)
    except Refusal as refusal:
        response["error"] = {"code": refusal.code, "message": str(refusal)}
    return response


def main():
    for line in sys.stdin:  # ends when kaged closes our stdin
        message = json.loads(line)
        if "id" in message:
            print(json.dumps(answer(message)), flush=True)
        elif message["method"] == "initialized":
            print("ready", file=sys.stderr, flush=True)
        elif message["method"] == "shutdown":
            break


if __name__ == "__main__":
    main()
