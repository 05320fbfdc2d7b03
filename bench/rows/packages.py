"""Packages of the catalog under the runner, in a bare bwrap with the Python that their cages have: from nothing
to an initialized package, and a tool call over the pipe. The peer is what Python itself takes: a start of it in
the same bwrap, and a line through a loop that only echoes.
"""
import contextlib
import json
import os
import subprocess
import time

from lib.contender import take_turns
from lib.kaged import ROOT
from lib.table import value_of

TREE = os.path.join(ROOT, "build/python-runtime")
SDK = os.path.join(ROOT, "sdk/cadence")
START, CALL = "package, start to initialized", "package, tool call over the pipe"
CALLS = 500
ECHO = "import sys\nfor line in sys.stdin.buffer:\n    sys.stdout.buffer.write(line)\n    sys.stdout.buffer.flush()\n"
GREETING = [("initialize", {"plugin_name": "parcels"}), ("config.update", {"config": {"api_key": "k"}})]


def cage():
    """Without a tree, this machine's own Python has to do."""
    usr = os.path.join(TREE, "usr") if os.path.exists(TREE) else "/usr"
    links = [word for name in ("lib", "lib64", "bin") if os.path.exists(os.path.join(usr, name))
             for word in ("--symlink", f"usr/{name}", f"/{name}")]
    return ["/usr/bin/bwrap", "--unshare-all", "--die-with-parent", "--clearenv", "--ro-bind", usr, "/usr", *links,
            "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind", SDK, "/opt/kaged/cadence",
            "--ro-bind", os.path.join(SDK, "example"), "/package", "/usr/bin/python3", "-I", "-B"]


class Process:
    def __init__(self, *words):
        self._process = subprocess.Popen([*cage(), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._next = 0

    def ask(self, method, params):
        self._next += 1
        line = {"jsonrpc": "2.0", "id": self._next, "method": method, "params": params}
        self._process.stdin.write(json.dumps(line).encode() + b"\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert answer["id"] == self._next and "error" not in answer, answer
        return answer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.stdout.read()
        self._process.wait()


def start(words, greeting):
    """Milliseconds until it has answered."""
    began = time.monotonic()
    with Process(*words) as process:
        for method, params in greeting:
            process.ask(method, params)
        return (time.monotonic() - began) * 1000


def calls(process):
    """The median of some hundred, in milliseconds."""
    took = []
    for _ in range(CALLS):
        began = time.monotonic()
        process.ask("parcels.find_parcels", {"query": "lisbon"})
        took.append((time.monotonic() - began) * 1000)
    return sorted(took)[CALLS // 2]


def measure(bench):
    package, plain = ["/opt/kaged/cadence", "run", "/package", "1.0.0"], ["-c", ECHO]
    figures = take_turns({"kaged": lambda: start(package, GREETING), "plain": lambda: start(plain, GREETING[:1])},
                         bench.rounds, START)
    bench.table.add(START, "ms", figures["kaged"], "bare Python", figures["plain"], goal=value_of(most=600),
                    less_is_better=True)
    with contextlib.ExitStack() as stack:
        runner, echo = (stack.enter_context(Process(*words)) for words in (package, plain))
        for method, params in GREETING:
            runner.ask(method, params)
        figures = take_turns({"kaged": lambda: calls(runner), "plain": lambda: calls(echo)}, bench.rounds, CALL)
    bench.table.add(CALL, "ms", figures["kaged"], "a Python that echoes", figures["plain"], goal=value_of(most=0.3),
                    less_is_better=True)
