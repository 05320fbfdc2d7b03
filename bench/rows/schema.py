"""JSON Schema beside ajv: a parsed value, from bytes to verdict, and compiling."""
import contextlib
import os

from lib import peers
from lib.contender import Contender, Failed, take_turns
from lib.kaged import PROGRAMS, ROOT
from lib.table import ratio_of

KINDS = {"check": "check of a parsed value", "text": "from bytes to verdict", "compile": "compile"}
CASES = {"config": "20 properties", "tool": "4 properties"}
PEERS = {"ajv on node": lambda: peers.on_node("ajv.js"), "ajv on Bun": lambda: peers.on_bun("ajv.js")}
GOALS = {"check": ratio_of(2), "text": ratio_of(3), "compile": ratio_of(50)}


def files(case):
    return [os.path.join(ROOT, "bench/data", f"{case}-{what}.json") for what in ("schema", "instance")]


def measure_case(bench, case, words):
    missing = {}
    with contextlib.ExitStack() as stack:
        running = {"kaged": stack.enter_context(
            Contender([os.path.join(PROGRAMS, "schema-bench"), *files(case)]))}
        for name, command in PEERS.items():
            try:
                running[name] = stack.enter_context(Contender([*command(), *files(case)]))
                running[name].ask("check", bench.ms)
            except Failed as why:
                running.pop(name, None)
                missing[name] = str(why)
        acts = {(who, kind): lambda one=one, kind=kind: one.ask(kind, bench.ms // 2)["rate"]
                for kind in KINDS for who, one in running.items()}
        rates = take_turns(acts, bench.rounds, f"schema, {words}")
    for kind, what in KINDS.items():
        for peer in PEERS:
            name = f"schema, {words}: {what}"
            if peer in missing:
                bench.table.leave_out(name, peer, missing[peer])
                continue
            goal = GOALS[kind] if (case, peer) == ("config", "ajv on node") else None
            bench.table.add(name, "1/s", rates["kaged", kind], peer, rates[peer, kind], goal=goal)


def measure(bench):
    for case, words in CASES.items():
        measure_case(bench, case, words)
