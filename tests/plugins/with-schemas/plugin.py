#!/usr/bin/env python3
"""Has schemas for its methods, and breaks them when asked: params.answer is the result as it is."""
import json
import os
import sys

methods = ["sum.add", "sum.slow", "sum.free"]
for line in sys.stdin:
    message = json.loads(line)
    method, params = message["method"], message.get("params", {})
    if "id" not in message or method == "sum.slow":
        continue
    result = {"status": "ok"}
    if method == "initialize":
        result = {"name": os.environ["KAGED_PLUGIN_NAME"], "version": "1.0.0", "api_version": 1,
                  "methods": methods}
    elif method in methods:
        result = params["answer"] if "answer" in params else {"sum": sum(params["numbers"])}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
