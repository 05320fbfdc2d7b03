#!/usr/bin/env python3
"""Answers initialize with a hundred thousand methods."""
import json
import os
import sys

for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {
            "name": os.environ["KAGED_PLUGIN_NAME"], "version": "1.0.0", "api_version": 1,
            "methods": [f"m.n{n}" for n in range(100000)]}}), flush=True)
