"""Lines of 1 KB: cut, validated, their envelope found; peers make a tree or a document of each."""
import contextlib
import os

from lib import peers
from lib.contender import Contender, Failed, take_turns
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
    missing = {}
    with contextlib.ExitStack() as stack:
        running = {"kaged": stack.enter_context(Contender([os.path.join(PROGRAMS, "scan-bench"), LINE]))}
        for name, command in PEERS.items():
            try:
                peer = stack.enter_context(Contender([*command(), LINE]))
                peer.ask("scan", bench.ms)
                running[name] = peer
            except Failed as why:
                missing[name] = str(why)
        acts = {who: lambda one=one: one.ask("scan", bench.ms // 2)["rate"] for who, one in running.items()}
        rates = take_turns(acts, bench.rounds, NAME)
    for number, peer in enumerate(PEERS):
        if peer in missing:
            bench.table.leave_out(NAME, peer, missing[peer])
        else:
            bench.table.add(NAME, "MB/s", rates["kaged"], peer, rates[peer],
                            goal=value_of(least=1000) if number == 0 else None)
