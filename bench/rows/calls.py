"""Calls of one plugin: host and plugin on one core, the audit writer on the other.

All peers call the same program, over pipes. The rows of processor time say what a call costs host and
plugin together, on a machine that is busy with other things, too.
"""
import contextlib
import os

from lib import peers
from lib.contender import Contender, call, cores, each, pin_thread, start_peers, take_turns
from lib.kaged import BIN, PROGRAMS, ROOT, Home, folder
from lib.process import family, threads
from lib.table import ratio_of, value_of

PLUGIN = os.path.join(PROGRAMS, "fast")
BYTES = 5  # of the text in a call: "hello"

HOSTS = {
    "Bun host": lambda: [*peers.on_bun("bun_host.js"), PLUGIN],
    "MCP SDK on Bun": lambda: [*peers.on_bun("mcp.js"), PLUGIN],
    "MCP SDK on node": lambda: [*peers.on_node("mcp.js"), PLUGIN],
    "vscode-jsonrpc on node": lambda: [*peers.on_node("vscode_jsonrpc.js"), PLUGIN],
    "Python asyncio": lambda: [*peers.on_python("asyncio_host.py"), PLUGIN],
}
RAW = {
    "raw pipes": lambda: [peers.built("raw"), "gathered", PLUGIN],
    "raw pipes, a write each": lambda: [peers.built("raw"), "single", PLUGIN],
}
GOALS_ALONE = {"raw pipes": ratio_of(0.60)}
GOALS_MANY = {"raw pipes": ratio_of(0.15), "Bun host": ratio_of(5)}
GOALS_LATENCY = {"Bun host": value_of(most=200)}


def start_kaged(stack, core, writer_core, below="/dev/shm"):
    """The daemon's host with its log on tmpfs, unless told otherwise."""
    home = Home(stack.enter_context(folder(below)), {"fast": "fast", "flood": "flood"})
    kaged = stack.enter_context(Contender([os.path.join(BIN, "kaged-bench"), home.folder], core))
    kaged.ask("calls", 0, 1, BYTES)
    pin_thread(kaged.pid, "audit", writer_core)
    kaged.pids, kaged.spared = family(kaged.pid), threads(kaged.pid, "audit")
    return kaged


def measure_rates(bench, contenders, missing, in_flight, name, goals):
    acts = {who: lambda one=one: call(one, bench.ms, in_flight, BYTES) for who, one in contenders.items()}
    figures = take_turns(acts, bench.rounds, name)
    rates, cost = each(figures, "rate"), each(figures, "run_us")
    raw = RAW if in_flight > 1 else ["raw pipes"]
    bench.table.add_all(name, "calls/s", rates, [*raw, *HOSTS], missing, goals)
    bench.table.add(f"{name}, log on disk", "calls/s", rates["kaged on disk"], "raw pipes",
                    rates["raw pipes"])
    bench.table.add_all(f"{name}, processor time", "us", cost, ["raw pipes", "Bun host"], missing,
                        less_is_better=True)
    return figures


def measure_flood(bench, kaged, other_core):
    name = "p99 of calls while another plugin floods"
    acts = {"quiet": lambda: call(kaged, bench.ms, 64, BYTES),
            "flooded": lambda: call(kaged, bench.ms, 64, BYTES, other_core, command="flood")}
    figures = take_turns(acts, bench.rounds, name)
    latency = each(figures, "p99_us")
    bench.table.add(name, "us", latency["flooded"], "kaged in quiet", latency["quiet"],
                    less_is_better=True)


def measure(bench):
    core, other = cores()
    with contextlib.ExitStack() as stack:
        kaged = start_kaged(stack, core, other)
        on_disk = start_kaged(stack, core, other, os.path.join(ROOT, "build"))
        running, missing = start_peers(stack, {**RAW, **HOSTS}, ("calls", bench.ms, 64, BYTES), core)
        contenders = {"kaged": kaged, "kaged on disk": on_disk, **running}
        measure_rates(bench, contenders, missing, 1, "calls, one at a time", GOALS_ALONE)
        figures = measure_rates(bench, contenders, missing, 64, "calls, 64 in flight", GOALS_MANY)
        bench.table.add_all("p99 of calls, 64 in flight", "us", each(figures, "p99_us"), HOSTS, missing,
                            GOALS_LATENCY, less_is_better=True)
        measure_flood(bench, kaged, other)
