#!/usr/bin/env python3
"""Well-behaved, but writes its keys with escapes."""
import json
import os
import sys


def send(id, result):
    print('{"\\u006asonrpc":"2.\\u0030","\\u0069d":%d,"r\\u0065sult":%s}' % (id, json.dumps(result)),
          flush=True)


for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        send(1, {"name": os.environ["KAGED_PLUGIN_NAME"], "version": "1.0.0", "api_version": 1,
                 "methods": ["work.do"]})
    elif message["method"] == "work.do":
        send(message["id"], "done")
