"""Appends to a session on both kinds of state, beside what pgbench makes of single inserts on the same server."""
import contextlib
import os
import re
import subprocess
import sys

from lib.contender import Contender, Failed, each, take_turns
from lib.kaged import PROGRAMS, ROOT, folder
from lib.table import ratio_of

sys.path.insert(0, os.path.join(ROOT, "tests/lib"))

import postgres  # noqa: E402

IN_FLIGHT = 64  # as many clients for pgbench
CONTENT_BYTES = 400
# What is on the disk counts: as an operator has it, and not as tests do.
SETTINGS = ("fsync=on", "synchronous_commit=on", "full_page_writes=on", "shared_buffers=128MB", "max_connections=100")
INSERT = f"INSERT INTO line (bytes) VALUES (repeat('x', {CONTENT_BYTES}));\n"


def measure(bench):
    why = postgres.missing()
    if why is None and not os.path.exists(os.path.join(postgres.programs(), "pgbench")):
        why = "there is no pgbench on this machine (Debian: postgresql-contrib)"
    if why is not None:
        bench.table.leave_out("appends to a session on PostgreSQL", "pgbench", why)
        return
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(folder())
        server = postgres.Server()
        stack.callback(server.__exit__)
        server.start(*SETTINGS)
        program = os.path.join(PROGRAMS, "session-bench")
        states = {"SQLite": stack.enter_context(Contender([program, scratch])),
                  "PostgreSQL": stack.enter_context(Contender([program, scratch, server.database()]))}
        inserts = Inserts(server, scratch)
        for flight, words in ((IN_FLIGHT, f"{IN_FLIGHT} in flight"), (1, "one at a time")):
            measure_flight(bench, states, inserts, flight, words)


def measure_flight(bench, states, inserts, flight, words):
    count = (2000 if flight > 1 else 200) * (1 if bench.quick else 5)
    acts = {name: lambda state=state: state.ask("appends", count, flight) | state.ask("latencies")
            for name, state in states.items()}
    acts["pgbench"] = lambda: inserts.run(flight, bench.seconds)
    figures = take_turns(acts, bench.rounds, f"appends to a session, {words}")
    rates, times = each(figures, "rate"), each(figures, "p50_us")
    for name in states:
        goal = ratio_of(0.5) if name == "PostgreSQL" and flight > 1 else None
        bench.table.add(f"appends to a session on {name}, {words}", "1/s", rates[name], "pgbench, single inserts",
                        rates["pgbench"], goal=goal)
        bench.table.add("the same, how long one takes (p50)", "us", times[name], "pgbench, single inserts",
                        times["pgbench"], less_is_better=True)


class Inserts:
    """What the database itself does of single inserts, each with its commit."""

    def __init__(self, server, scratch):
        self.url, self.path = server.database(), os.path.join(scratch, "insert.sql")
        server.ask("CREATE TABLE line (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, bytes text)", self.url)
        with open(self.path, "w") as file:
            file.write(INSERT)

    def run(self, clients, seconds):
        done = subprocess.run([os.path.join(postgres.programs(), "pgbench"), "-n", "-M", "prepared", "-c", str(clients),
                               "-j", str(min(clients, os.cpu_count() or 1)), "-T", str(seconds), "-f", self.path,
                               self.url], capture_output=True, text=True)
        rate, latency = (re.search(pattern, done.stdout) for pattern in (r"tps = ([\d.]+)", r"average = ([\d.]+) ms"))
        if done.returncode != 0 or rate is None or latency is None:
            raise Failed("pgbench: " + (done.stderr.strip().splitlines() or ["it said nothing"])[-1])
        return {"rate": float(rate[1]), "p50_us": float(latency[1]) * 1000}
