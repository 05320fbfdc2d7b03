"""Processes as /proc shows them: who started whom, memory, and how often they woke up."""
import contextlib
import os
import re
import time

CPUCLOCK_SCHED = 2  # of the kernel's numbers for a process's own clock


def read(path):
    with open(path) as file:
        return file.read()


def descendants(pid):
    """All that the process started, and what those started."""
    children = {}
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parent = int(read(f"/proc/{int(entry)}/stat").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry))
    found, todo = [], [pid]
    while todo:
        more = children.get(todo.pop(), [])
        found += more
        todo += more
    return found


def family(pid):
    return [pid, *descendants(pid)]


def threads(pid, name):
    """Those of that name."""
    tasks = [f"/proc/{pid}/task/{task}" for task in os.listdir(f"/proc/{pid}/task")]
    return [task for task in tasks if read(f"{task}/comm").strip() == name]


def run_us(pids, without):
    """Processor time of these processes, also of their threads that have ended, as the scheduler counts
    it; but for that of some threads."""
    whole = sum(time.clock_gettime_ns(~pid << 3 | CPUCLOCK_SCHED) for pid in pids)
    return (whole - sum(int(read(f"{task}/schedstat").split()[0]) for task in without)) / 1000


def resident_kb(pid):
    return int(re.search(r"^Rss:\s+(\d+)", read(f"/proc/{pid}/smaps_rollup"), re.M).group(1))


def wake_ups(pids):
    """How often all of their threads have waited and gone on."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):
                status = read(f"/proc/{pid}/task/{task}/status")
                total += int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.M).group(1))
    return total
