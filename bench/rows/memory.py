"""Memory of a host with 100 plugins that are idle, and what each further one costs.

What counts is resident in the host's own process; plugins, and kaged's cages, are not in it.
"""
import os
import time

from lib import peers
from lib.contender import Contender, Failed, each, take_turns
from lib.kaged import PROGRAMS, Daemon, Home, folder
from lib.process import resident_kb
from lib.table import value_of

PLUGIN = os.path.join(PROGRAMS, "fast")
FIRST, MORE = 100, 50
SETTLE = 1  # seconds until what was only needed for the start is given back

HOSTS = {
    "Bun host": lambda: [*peers.on_bun("bun_host.js"), PLUGIN],
    "MCP SDK on Bun": lambda: [*peers.on_bun("mcp.js"), PLUGIN],
    "MCP SDK on node": lambda: [*peers.on_node("mcp.js"), PLUGIN],
}


def settled_kb(pid):
    time.sleep(SETTLE)
    return resident_kb(pid)


def figures(first_kb, all_kb):
    return {"mb": first_kb / 1024, "kb_each": max((all_kb - first_kb) / MORE, 0.01)}


def host(command):
    with Contender(command) as one:
        one.ask("plugins", FIRST)
        first = settled_kb(one.pid)
        one.ask("plugins", FIRST + MORE)
        return figures(first, settled_kb(one.pid))


def kaged():
    names = [f"fast-{number}" for number in range(FIRST + MORE)]
    with folder() as scratch:
        home = Home(scratch, dict.fromkeys(names, "fast"), enabled=names[:FIRST])
        with Daemon(home) as daemon:
            daemon.wait_running(FIRST)
            first = settled_kb(daemon.pid)
            with daemon.client() as client:
                for name in names[FIRST:]:
                    client.api("POST", f"/plugins/{name}/enable")
            daemon.wait_running(FIRST + MORE)
            return figures(first, settled_kb(daemon.pid))


def measure(bench):
    acts, missing = {"kaged": kaged}, {}
    for name, command in HOSTS.items():
        try:
            words = command()
            with Contender(words) as one:
                one.ask("plugins", 1)
            acts[name] = lambda words=words: host(words)
        except Failed as why:
            missing[name] = str(why)
    found = take_turns(acts, min(bench.rounds, 5), "memory of 100 idle plugins")
    for name, unit, key, most in (("memory, 100 idle plugins", "MB", "mb", 12),
                                  ("memory of a further plugin", "KB", "kb_each", 30)):
        bench.table.add_all(name, unit, each(found, key), HOSTS, missing,
                            {"Bun host": value_of(most=most)}, less_is_better=True)
