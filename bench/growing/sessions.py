"""Entries of one session, and sessions in one database."""
import os

from lib.contender import Contender, say
from lib.growth import Growth
from lib.kaged import PROGRAMS, folder

COUNTS = (10, 100, 1000, 10_000, 100_000)
ENTRIES = {
    "appends": "appends/s", "loop_us": "loop, us", "all_us": "in all, us", "page_ms": "page, ms",
    "context_ms": "context", "plan_ms": "plan", "payload_ms": "payload", "result_ms": "result",
    "apply_ms": "apply", "context_after_ms": "context'", "undo_ms": "undo", "fork_ms": "fork"}
SESSIONS = {"find_us": "find, us", "list_us": "newest 50, us", "create_us": "create, us"}


def measure(bench):
    tables = {
        "entries": Growth("entries of one session, 400 bytes each: appending one (us of processor time);"
                          " then ms of steps on all", "entries", ENTRIES),
        "sessions": Growth("sessions in one database", "sessions", SESSIONS)}
    with folder() as scratch, Contender([os.path.join(PROGRAMS, "session-bench"), scratch]) as bench_of:
        for command, growth in tables.items():
            for count in COUNTS[:3] if bench.quick else COUNTS:
                say(f"{count} {command}")
                growth.add(count, bench_of.ask(command, count))
            growth.print()
