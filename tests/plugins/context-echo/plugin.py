#!/usr/bin/env python3
"""Returns the messages it got, as it got them."""
import json
import os
import sys

seen = []
for line in sys.stdin:
    message = json.loads(line)
    seen.append(message)
    if "id" not in message:
        continue
    result = {"status": "ok"}
    if message["method"] == "initialize":
        result = {"name": os.environ["KAGED_PLUGIN_NAME"], "version": "1.0.0", "api_version": 1,
                  "methods": ["messages.seen", "params.echo"]}
    elif message["method"] == "messages.seen":
        result = seen
    elif message["method"] == "params.echo":
        result = message["params"]
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
