"""Lines of 1 KB: cut, validated, their envelope found; peers make a tree or a document of each."""
import contextlib
import os

from lib import peers
from lib.contender import Contender, start_peers, take_turns
from lib.kaged import PROGRAMS, ROOT
from lib.table import value_of

LINE = os.path.join(ROOT, "bench/data/line.json")
NAME = "scanning lines and envelopes, 1 KB"
PEERS = {
    "jansson, tree": lambda: [peers.built("jansson")],
    "JSON.parse on node": lambda: peers.on_node("scan.js"),
    "JSON.parse on Bun": lambda: peers.on_bun("scan.js"),
    "simdjson, DOM": lambda: [peers.built("simdjson")],
}


def measure(bench):
    commands = {name: lambda command=command: [*command(), LINE] for name, command in PEERS.items()}
    with contextlib.ExitStack() as stack:
        kaged = stack.enter_context(Contender([os.path.join(PROGRAMS, "scan-bench"), LINE]))
        running, missing = start_peers(stack, commands, ("scan", bench.ms))
        acts = {who: lambda one=one: one.ask("scan", bench.ms // 2)["rate"]
                for who, one in {"kaged": kaged, **running}.items()}
        rates = take_turns(acts, bench.rounds, NAME)
    bench.table.add_all(NAME, "MB/s", rates, PEERS, missing, {"jansson, tree": value_of(least=1000)})
