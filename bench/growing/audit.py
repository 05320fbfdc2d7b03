"""Lines of the audit log: writing them, and asking all of it."""
import os

from lib.contender import Contender, say
from lib.growth import Growth
from lib.kaged import PROGRAMS, folder

COUNTS = (1000, 10_000, 100_000, 1_000_000)


def measure(bench):
    growth = Growth("lines of the audit log", "lines", {
        "rate": "written/s", "last_ms": "last 100, ms", "plugin_ms": "100 of a rare plugin, ms",
        "event_ms": "100 of a rare event, ms", "page_ms": "100 after an id, ms",
        "none_ms": "of none, ms", "verify_ms": "verify, ms"})
    with folder() as scratch, Contender([os.path.join(PROGRAMS, "audit-bench"), scratch]) as audit:
        for count in COUNTS[:3] if bench.quick else COUNTS:
            say(f"{count} lines of the audit log")
            growth.add(count, audit.ask("log", count))
    growth.print()
