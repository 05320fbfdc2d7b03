#!/usr/bin/env python3
"""Fails at everything but its handshake."""
import json
import os
import sys
import time

for line in sys.stdin:
    message = json.loads(line)
    method, result = message["method"], {"status": "ok"}
    if method == "initialize":
        result = {"name": "breaks", "version": "1.0.0", "api_version": 1, "methods": [],
                  "notifications": [], "capabilities_used": []}
    elif method in ("kaged.hook.on_session_start", "breaks.boom"):
        os._exit(3)
    elif method.startswith("kaged.hook."):
        time.sleep(3600)
    elif method == "shutdown":
        break
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
