"""JSON Schema beside ajv: a parsed value, from bytes to verdict, and compiling."""
import contextlib
import os

from lib import peers
from lib.contender import Contender, start_peers, take_turns
from lib.kaged import PROGRAMS, ROOT
from lib.table import ratio_of

KINDS = {"check": "check of a parsed value", "text": "from bytes to verdict", "compile": "compile"}
CASES = {"config": "20 properties", "tool": "4 properties"}
PEERS = {"ajv on node": lambda: peers.on_node("ajv.js"), "ajv on Bun": lambda: peers.on_bun("ajv.js")}
GOALS = {"check": ratio_of(2), "text": ratio_of(3), "compile": ratio_of(50)}


def files(case):
    return [os.path.join(ROOT, "bench/data", f"{case}-{what}.json") for what in ("schema", "instance")]


def measure_case(bench, case, words):
    commands = {name: lambda command=command: [*command(), *files(case)] for name, command in PEERS.items()}
    with contextlib.ExitStack() as stack:
        kaged = stack.enter_context(Contender([os.path.join(PROGRAMS, "schema-bench"), *files(case)]))
        running, missing = start_peers(stack, commands, ("check", bench.ms))
        contenders = {"kaged": kaged, **running}
        for kind, what in KINDS.items():
            name = f"schema, {words}: {what}"
            acts = {who: lambda one=one: one.ask(kind, bench.ms // 2)["rate"]
                    for who, one in contenders.items()}
            rates = take_turns(acts, bench.rounds, name)
            goals = {"ajv on node": GOALS[kind]} if case == "config" else {}
            bench.table.add_all(name, "1/s", rates, PEERS, missing, goals)


def measure(bench):
    for case, words in CASES.items():
        measure_case(bench, case, words)
