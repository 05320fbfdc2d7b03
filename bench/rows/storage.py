"""A plugin's storage, in a process and a cage of its own, beside SQLite in the process that asks."""
import contextlib
import os

from lib import peers
from lib.contender import Contender, take_turns
from lib.kaged import BIN, Home, folder
from lib.table import ratio_of

COUNT, IN_FLIGHT = 30000, 64
KINDS = {"storage-read": "storage, point reads, 64 in flight",
         "storage-write": "storage, single-row writes, 64 in flight"}
PLUGINS = {"storing": "storing", "storing-a": "storing", "storing-b": "storing"}


def measure(bench):
    count = COUNT // 10 if bench.quick else COUNT
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(folder())
        home = Home(scratch, PLUGINS)
        kaged = stack.enter_context(Contender([os.path.join(BIN, "kaged-bench"), home.folder]))
        sqlite = stack.enter_context(Contender([peers.built("sqlite"), f"{scratch}/own.db"]))
        for kind, name in KINDS.items():
            acts = {"kaged": lambda kind=kind: kaged.ask(kind, count, IN_FLIGHT)["rate"],
                    "SQLite": lambda kind=kind: sqlite.ask(kind, count)["rate"]}
            rates = take_turns(acts, bench.rounds, name)
            bench.table.add(name, "1/s", rates["kaged"], "SQLite in process", rates["SQLite"],
                            goal=ratio_of(0.30))
        measure_neighbours(bench, kaged)


def measure_neighbours(bench, kaged):
    name = "storage p99 while two others are at their limit"
    acts = {"quiet": lambda: kaged.ask("storage-quiet")["p99_us"],
            "busy": lambda: kaged.ask("storage-busy")["p99_us"]}
    times = take_turns(acts, min(bench.rounds, 5), name)
    bench.table.add(name, "us", times["busy"], "kaged in quiet", times["quiet"], less_is_better=True)
