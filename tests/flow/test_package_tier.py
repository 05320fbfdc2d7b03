"""Processes of packages in a host: tests/cage/package_host.c has the tests, here is what they need."""
import os
import subprocess
import tempfile

import packages
import python_runtime
from harness import BUILD, ROOT, FlowTest, main

PROGRAM = os.path.join(BUILD, "tests/cage/package-host")
SLOW = """
def get_tools(self):
    import os, time
    @uvtool
    def wait(seconds: float) -> str:
        time.sleep(seconds)
        return self.greeting
    @uvtool
    def die():
        os._exit(7)
    return [wait, die]
def initialize(self, config):
    self.greeting = config.get("greeting")
"""
SHOUT = {"kaged-plugin.yaml": """
name: shout
version: 1.2.0
kaged_api: 1
description: Says it louder.
command: [./shout]
capabilities: ["net:api.example.com:443"]
tools:
  - {name: shout, description: Says it louder., parameters_schema: {type: object, required: [text]}}
catalog:
  pid: com.example.shout
  settings_schema: [{key: volume, type: int, description: How loud, default: 1}]
""", "shout": """#!/usr/bin/python3
import json, sys
config = {}
for line in sys.stdin:
    message = json.loads(line)
    method, params, result = message.get("method"), message.get("params"), None
    if method == "initialize":
        result = {"name": "shout", "version": "1.2.0", "api_version": 1}
    elif method == "config.update":
        config = params["config"]
    elif method == "ping":
        result = {"status": "ok"}
    elif method == "shout.shout":
        result = params["text"].upper() * config["volume"]
    elif method == "shutdown":
        break
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""}


class Tier(FlowTest):
    def test_processes_of_packages(self):
        subprocess.run([os.path.join(ROOT, "scripts/share"), "cadence"], check=True, stdout=subprocess.DEVNULL)
        tree = python_runtime.root()
        config = ('[daemon]\nbind = ""\n[limits]\ninitialize_timeout_ms = 60000\nrestart_delay_ms = 20\n'
                  + (f'[catalog.runtimes.python]\nroot = "{tree}"\n' if tree else ""))
        with tempfile.TemporaryDirectory(prefix="kaged-packages-") as base:
            slow = packages.write(os.path.join(base, "slow"), agent=SLOW)
            stateful = packages.write(os.path.join(base, "stateful"), metadata=", stateless=False")
            shout = packages.put(os.path.join(base, "shout"), SHOUT)
            os.chmod(os.path.join(shout, "shout"), 0o755)
            done = subprocess.run([PROGRAM, config, os.path.join(python_runtime.SDK, "example"), slow, stateful, shout],
                                  env={**os.environ, "KAGED_SHARE": os.path.join(ROOT, "build/share/kaged")},
                                  text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout[-6000:])


if __name__ == "__main__":
    main()
