"""Calls of a tool of an MCP server, beside those of the same program in kaged's own protocol.

Both are caged, with the same schema, and called by the same host on one core; the audit writer has the
other.
"""
import contextlib
import os
import shutil
import time

from lib.contender import Contender, Failed, call, cores, each, pin_thread, take_turns
from lib.kaged import BIN, PATIENCE, PROGRAMS, Daemon, Home, folder
from lib.process import family, threads
from lib.table import ratio_of

BYTES = 5
PEER = "kaged's own protocol"
MANIFEST = """name: fast-mcp
version: 1.0.0
kaged_api: 1
protocol: mcp
description: Answers every call at once, as cheaply as a program can.
command: [./fast, mcp]
capabilities: []
process: shared
start: daemon
"""


def write_server(folder):
    shutil.copy(os.path.join(PROGRAMS, "fast"), folder)
    with open(os.path.join(folder, "kaged-plugin.yaml"), "w") as file:
        file.write(MANIFEST)


def approve_tools(home):
    """Whoever calls it gets what the operator approved, and that takes a daemon."""
    with Daemon(home) as daemon, daemon.client() as client:
        deadline = time.monotonic() + PATIENCE
        while not (waits := client.api("GET", "/plugins/fast-mcp/tools")["waits"]):
            if time.monotonic() > deadline:
                raise Failed("fast-mcp lists no tools")
            time.sleep(0.1)
        client.api("POST", "/plugins/fast-mcp/tools", {"approve": waits})


def measure(bench):
    core, other = cores()
    with contextlib.ExitStack() as stack:
        home = Home(stack.enter_context(folder()), {"fast": "fast", "fast-mcp": write_server},
                    enabled=["fast", "fast-mcp"])
        approve_tools(home)
        kaged = stack.enter_context(Contender([os.path.join(BIN, "kaged-bench"), home.folder], core))
        for is_mcp in (0, 1):
            kaged.ask("tools", 0, 1, BYTES, is_mcp)
        pin_thread(kaged.pid, "audit", other)
        kaged.pids, kaged.spared = family(kaged.pid), threads(kaged.pid, "audit")
        for in_flight, name in {1: "tool calls of an MCP server, one at a time",
                                64: "tool calls of an MCP server, 64 in flight"}.items():
            acts = {who: lambda flag=flag, count=in_flight: call(
                kaged, bench.ms, count, BYTES, flag, command="tools")
                for who, flag in {"own": 0, "mcp": 1}.items()}
            figures = take_turns(acts, bench.rounds, name)
            rates, cost = each(figures, "rate"), each(figures, "run_us")
            bench.table.add(name, "calls/s", rates["mcp"], PEER, rates["own"], goal=ratio_of(0.9))
            bench.table.add(f"{name}, processor time", "us", cost["mcp"], PEER, cost["own"],
                            less_is_better=True)
