#!/usr/bin/env python3
"""Keeps what remains and puts one sentence in place of the rest; or as compacts.obey said."""
import json
import sys

how = "well"


def well(params):
    going = params["messages_being_compacted"]
    new = {"role": "system", "content": f"{len(going)} messages were about colours."}
    return {"role": "compactor", "messages": [*params["messages_remaining"], new],
            "superseded": [message["id"] for message in going], "summary": "colours"}


def greedily(params):
    """Without what has to stay."""
    going = params["messages_being_compacted"]
    return {"role": "compactor", "messages": params["messages_remaining"][1:],
            "superseded": [message["id"] for message in going]}


for line in sys.stdin:
    message = json.loads(line)
    method, params, result = message["method"], message.get("params", {}), {"status": "ok"}
    if method == "initialize":
        result = {"name": "compacts", "version": "1.0.0", "api_version": 1,
                  "methods": ["compacts.obey"], "notifications": [], "capabilities_used": []}
    elif method == "compacts.obey":
        how = params["how"]
    elif method == "kaged.hook.pre_compact":
        result = {"well": well, "greedily": greedily}[how](params)
    elif method == "shutdown":
        break
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
