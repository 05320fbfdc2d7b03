"""Calls of one plugin: host and plugin on one core, the audit writer on the other.

All peers call the same program, over pipes. The rows of processor time say what a call costs host and
plugin together, on a machine that is busy with other things, too.
"""
import contextlib
import os

from lib import peers
from lib.contender import Contender, Failed, call, cores, pin_thread, take_turns
from lib.kaged import BIN, PROGRAMS, ROOT, Home, folder
from lib.process import threads
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
    kaged.tasks = threads(kaged.pid, without="audit")
    return kaged


def start_peers(stack, core, warm_ms):
    """({name: contender}, {name: why it is not there}), each warm."""
    running, missing = {}, {}
    for name, command in {**RAW, **HOSTS}.items():
        try:
            peer = stack.enter_context(Contender(command(), core))
            peer.ask("calls", warm_ms, 64, BYTES)
            peer.tasks = threads(peer.pid, without="audit")
            running[name] = peer
        except Failed as why:
            missing[name] = str(why)
    return running, missing


def measure_rates(bench, contenders, missing, in_flight, name, goals):
    acts = {who: lambda one=one: call(one, bench.ms, in_flight, BYTES)
            for who, one in contenders.items()}
    figures = take_turns(acts, bench.rounds, name)
    rates = {who: [one["rate"] for one in figures[who]] for who in figures}
    cost = {who: [one["run_us"] for one in figures[who]] for who in figures}
    peer_names = [who for who in {**RAW, **HOSTS} if in_flight > 1 or who != "raw pipes, a write each"]
    for peer in peer_names:
        if peer in missing:
            bench.table.leave_out(name, peer, missing[peer])
        else:
            bench.table.add(name, "calls/s", rates["kaged"], peer, rates[peer], goal=goals.get(peer))
    bench.table.add(f"{name}, log on disk", "calls/s", rates["kaged on disk"], "raw pipes",
                    rates["raw pipes"])
    for peer in ("raw pipes", "Bun host"):
        if peer in cost:
            bench.table.add(f"{name}, processor time", "us", cost["kaged"], peer, cost[peer],
                            less_is_better=True)
    return figures


def add_latency(bench, figures, missing):
    name = "p99 of calls, 64 in flight"
    latency = {who: [one["p99_us"] for one in figures[who]] for who in figures}
    for peer in HOSTS:
        if peer in missing:
            bench.table.leave_out(name, peer, missing[peer])
        else:
            bench.table.add(name, "us", latency["kaged"], peer, latency[peer], less_is_better=True,
                            goal=GOALS_LATENCY.get(peer))


def measure_flood(bench, kaged, other_core):
    name = "p99 of calls while another plugin floods"
    acts = {"quiet": lambda: call(kaged, bench.ms, 64, BYTES),
            "flooded": lambda: call(kaged, bench.ms, 64, BYTES, other_core, command="flood")}
    figures = take_turns(acts, bench.rounds, name)
    bench.table.add(name, "us", [one["p99_us"] for one in figures["flooded"]], "kaged in quiet",
                    [one["p99_us"] for one in figures["quiet"]], less_is_better=True)


def measure(bench):
    core, other = cores()
    with contextlib.ExitStack() as stack:
        kaged = start_kaged(stack, core, other)
        on_disk = start_kaged(stack, core, other, os.path.join(ROOT, "build"))
        running, missing = start_peers(stack, core, bench.ms)
        contenders = {"kaged": kaged, "kaged on disk": on_disk, **running}
        measure_rates(bench, contenders, missing, 1, "calls, one at a time", GOALS_ALONE)
        figures = measure_rates(bench, contenders, missing, 64, "calls, 64 in flight", GOALS_MANY)
        add_latency(bench, figures, missing)
        measure_flood(bench, kaged, other)
