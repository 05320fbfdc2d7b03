"""Plugins of one agent that are told of the same thing: one hook, as a client of the API sees it."""
import os
import time

from lib.contender import Failed
from lib.growth import Growth, medians
from lib.kaged import Daemon, Home, folder
from lib.project import begin_session, write_project

COUNTS = (1, 10, 100)
FIRED = 50  # times in a round


def fire(client, session, count):
    start = time.perf_counter()
    for _ in range(FIRED):
        hooks = client.api("POST", f"/sessions/{session}/idle")["hooks"]
        if len(hooks) != count or not all(hook["ok"] for hook in hooks):
            raise Failed(f"not every plugin answered: {hooks}")
    us = (time.perf_counter() - start) * 1e6 / FIRED
    return {"us": us, "each": us / count}


def measure(bench):
    growth = Growth("plugins that one hook is told to", "plugins", {"us": "us", "each": "us/plugin"})
    for count in COUNTS:
        names = [f"hook-{number}" for number in range(count)]
        with folder() as scratch:
            root = os.path.join(os.path.realpath(scratch), "project")
            write_project(root, names)
            with Daemon(Home(scratch, dict.fromkeys(names, "fast"))) as daemon, daemon.client() as client:
                client.api("POST", "/projects", {"path": root})
                session = begin_session(client)
                fire(client, session, count)
                growth.add(count, medians(lambda: fire(client, session, count), bench.rounds,
                                          f"a hook on {count} plugins"))
    growth.print()
