#!/usr/bin/env python3
"""Runs the Python code of its caller; answers with what the code left in `result`."""
import errno
import json
import os
import sys


def run(code):
    names = {}
    try:
        exec(code, names)
    except OSError as error:
        number = getattr(error, "reason", error)  # urllib wraps the one that matters
        name = errno.errorcode.get(getattr(number, "errno", None), type(number).__name__)
        return {"error": name, "words": str(error)}
    except Exception as error:
        return {"error": type(error).__name__, "words": str(error)}
    return {"result": names.get("result")}


for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        result = {"name": os.environ["KAGED_PLUGIN_NAME"], "version": "1.0.0", "api_version": 1,
                  "methods": ["told.run"], "notifications": [], "capabilities_used": []}
    elif method == "shutdown":
        break
    elif method == "told.run":
        result = run(message["params"]["code"])
    else:
        result = {"status": "ok"}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
