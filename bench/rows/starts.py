"""From nothing to the first answer: a plugin in its cage against a bare process and other sandboxes.

kaged compares the plugin's files with what was approved, builds the cage and shakes hands; the others
execute the program and ask it once.
"""
import contextlib
import json
import os
import time

from lib import peers
from lib.contender import Contender, start_peers, take_turns
from lib.kaged import BIN, PROGRAMS, Home, folder
from lib.table import ratio_of, value_of

PLUGIN = os.path.join(PROGRAMS, "fast")
BWRAP = ["/usr/bin/bwrap", "--unshare-all", "--ro-bind", "/", "/"]
NOTHING = {"network": {"allowedDomains": [], "deniedDomains": []},
           "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}
SETTLE = 0.02  # seconds after a stop: what it left to do is no part of the next start
NAME = "start to first answer"
GOALS = {"sandbox-runtime, library": ratio_of(30), "sandbox-runtime, command": ratio_of(30)}


def command_of_sandbox_runtime(scratch):
    settings = os.path.join(scratch, "settings.json")
    with open(settings, "w") as file:
        json.dump(NOTHING, file)
    command = os.path.join(peers.PACKAGES, "node_modules/@anthropic-ai/sandbox-runtime/dist/cli.js")
    return [peers.built("raw"), "single", peers.node(), command, "-s", settings, PLUGIN]


def starters(scratch):
    return {
        "plain exec": lambda: [peers.built("raw"), "single", PLUGIN],
        "bare bwrap, all namespaces": lambda: [peers.built("raw"), "single", *BWRAP, PLUGIN],
        "sandbox-runtime, library": lambda: [*peers.on_node("sandbox_runtime.js"), "own", PLUGIN],
        "sandbox-runtime, rules shared": lambda: [*peers.on_node("sandbox_runtime.js"), "shared", PLUGIN],
        "sandbox-runtime, command": lambda: command_of_sandbox_runtime(scratch),
    }


def start_once(one):
    time.sleep(SETTLE)
    return one.ask("start")["ms"]


def measure(bench):
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(folder())
        home = Home(scratch, {"fast": "fast"})
        commands = starters(scratch)
        kaged = stack.enter_context(Contender([os.path.join(BIN, "kaged-bench"), home.folder]))
        kaged.ask("start")
        running, missing = start_peers(stack, commands, ("start",))
        acts = {name: lambda one=one: start_once(one) for name, one in {"kaged": kaged, **running}.items()}
        times = take_turns(acts, 3 * bench.rounds, NAME)
    bench.table.add_all(NAME, "ms", times, commands, missing, GOALS, less_is_better=True)
    add_cost(bench, times)


def add_cost(bench, times):
    """What the walls cost: beyond plain exec, beside what bare bwrap costs beyond it."""
    plain = times["plain exec"]
    cost = {name: [max(a - b, 0.01) for a, b in zip(times[name], plain)]
            for name in ("kaged", "bare bwrap, all namespaces")}
    bench.table.add("start, over plain exec", "ms", cost["kaged"], "bare bwrap, all namespaces",
                    cost["bare bwrap, all namespaces"], less_is_better=True, goal=value_of(most=7))
