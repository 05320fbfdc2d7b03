"""Plugins of one agent that are told of the same thing: one hook, as a client of the API sees it."""
import os
import time

from lib.contender import Failed
from lib.growth import Growth, medians
from lib.kaged import Daemon, Home, folder

COUNTS = (1, 10, 100)
FIRED = 50  # times in a round


def write_project(root, names):
    os.makedirs(f"{root}/.kaged")
    with open(f"{root}/.kaged/project.yaml", "w") as file:
        file.write("version: 1\nname: bench\nprimary:\n  plugins:\n")
        file.writelines(f"    {name}: {{package: {name}}}\n" for name in names)


def begin_session(client, root):
    client.api("POST", "/projects", {"path": root})
    session = client.api("POST", "/projects/bench/sessions", {})["id"]
    client.api("POST", f"/sessions/{session}/messages",
               {"messages": [{"role": "user", "content": "hello"}]})
    return session


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
                session = begin_session(client, root)
                fire(client, session, count)
                growth.add(count, medians(lambda: fire(client, session, count), bench.rounds,
                                          f"a hook on {count} plugins"))
    growth.print()
