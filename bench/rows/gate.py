"""The gatekeeper of a cage's network: a connection through it beside the same without it."""
import os

from lib.contender import Contender, take_turns
from lib.kaged import PROGRAMS


def measure(bench):
    with Contender([os.path.join(PROGRAMS, "gate-bench")]) as gate:
        acts = {(kind, way): lambda kind=kind, way=way: gate.ask(kind, way)
                for kind in ("reply", "bulk") for way in (1, 0)}
        figures = take_turns(acts, bench.rounds, "the gate")
    through, direct = (lambda kind, key, way=way: [one[key] for one in figures[kind, way]] for way in (1, 0))
    bench.table.add("network, first reply of a connection", "us", through("reply", "us"),
                    "direct, loopback", direct("reply", "us"), less_is_better=True)
    bench.table.add("network, bytes through a connection", "MB/s", through("bulk", "rate"),
                    "direct, loopback", direct("bulk", "rate"))
