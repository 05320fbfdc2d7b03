"""Live plugins in one daemon: its memory, how often it wakes up, all their starts, a call of one."""
import time

from lib.contender import cores
from lib.growth import Growth, medians
from lib.kaged import Daemon, folder
from lib.process import descendants, resident_kb, wake_ups
from rows.many import home_of, target

COUNTS = (1, 10, 100, 1000)
REST = 35  # seconds in which nobody asks for anything; each plugin is pinged in 30


def at_rest(daemon, seconds):
    below = descendants(daemon.pid)
    before = wake_ups([daemon.pid]), wake_ups(below)
    time.sleep(seconds)
    after = wake_ups([daemon.pid]), wake_ups(below)
    return [(b - a) / seconds for a, b in zip(before, after)]


def point(bench, scratch, count):
    home = home_of(scratch, count)
    start = time.monotonic()
    with Daemon(home) as daemon:
        daemon.wait_running(count)
        started = time.monotonic() - start
        time.sleep(1)
        memory = resident_kb(daemon.pid)
        spawner = sum(resident_kb(pid) for pid in descendants(daemon.pid)[:1])
        own, others = at_rest(daemon, 2 if bench.quick else REST)
        call = medians(lambda: target(daemon).load(scratch, 1, bench.seconds, cores()[1]),
                       bench.rounds, f"calls with {count} plugins")
    return {"start": started * 1000, "start_each": started * 1000 / count, "mb": memory / 1024,
            "spawner": spawner / 1024, "own": own, "others": others,
            "call": call["p50_us"]}


def add_slope(growth):
    """What each plugin beyond the first costs the daemon."""
    first, figures_of_first = growth.points[0]
    for count, figures in growth.points:
        more = figures["mb"] - figures_of_first["mb"]
        figures["kb_each"] = more * 1024 / (count - first) if count > first else 0


def measure(bench):
    growth = Growth("live plugins in one daemon (each is its own process in a cage)", "plugins", {
        "start": "start of all, ms", "start_each": "each", "mb": "daemon, MB", "kb_each": "KB each further",
        "spawner": "spawner, MB", "own": "daemon's wake-ups/s", "others": "of all others",
        "call": "call p50, us"})
    for count in COUNTS[:3] if bench.quick else COUNTS:
        with folder() as scratch:
            growth.add(count, point(bench, scratch, count))
    add_slope(growth)
    growth.print()
