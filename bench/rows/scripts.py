"""Scripts: from nothing to the first event, an event to ten of them, and the memory of one that is idle."""
import contextlib
import os
import re
import time

from lib.contender import Contender, Failed, take_turns
from lib.kaged import BIN, Daemon, Home, folder
from lib.process import read
from lib.table import value_of

PROJECT = "version: 1\nname: shop\nprimary:\n  model: m\n  prompt: Hello.\n"
LOCAL = '[providers.p]\nkind = "openai"\nbase_url = "http://127.0.0.1:1/v1"\napi_key = "k"\n' \
        '[models.m]\nprovider = "p"\nmodel = "m"\n'
SAYS = "kage.register_command{name = 'hi', description = '', handler = function() return 'hello' end}\n"
HEARS = "kage.on('session_before_fork', function(target) heard = target end)\n"
FORBIDS = "kage.on('session_before_fork', function() return {cancel = 'no'} end)\n"
SETTLE = 0.02  # seconds after a session is closed: what it left to do is no part of the next start
IDLE = 1  # seconds until what was only needed for the start is given back
EVENTS = 20


class Shop(contextlib.ExitStack):
    """A daemon with a project and scripts; {name: text}."""

    def __init__(self, scripts):
        super().__init__()
        scratch = self.enter_context(folder())
        home = Home(scratch, {"fast": "fast"})
        root = os.path.join(scratch, "shop")
        os.makedirs(os.path.join(home.folder, "scripts"))
        os.makedirs(os.path.join(root, ".kaged"))
        files = {os.path.join(root, ".kaged/project.yaml"): PROJECT, os.path.join(home.folder, "local.toml"): LOCAL,
                 **{os.path.join(home.folder, "scripts", f"{name}.lua"): text for name, text in scripts.items()}}
        for path, text in files.items():
            with open(path, "w") as file:
                file.write(text)
        os.chmod(os.path.join(home.folder, "local.toml"), 0o600)
        self.daemon = self.enter_context(Daemon(home))
        self.client = self.enter_context(self.daemon.client())
        self.client.api("POST", "/projects", {"path": root})

    def session(self):
        return self.client.api("POST", "/projects/shop/sessions", {})["id"]

    def ready(self, session):
        """Until its scripts have run to their end."""
        return self.client.api("GET", f"/sessions/{session}/commands")

    def lines(self, route):
        """What is answered in lines, or refused."""
        self.client.request("POST", f"/api/v1{route}", "{}")
        with self.client.getresponse() as response:
            return response.read()

    def leave(self, session):
        self.client.api("DELETE", f"/sessions/{session}")
        time.sleep(SETTLE)


def milliseconds(act, *arguments):
    began = time.perf_counter()
    act(*arguments)
    return (time.perf_counter() - began) * 1000


def start(shop, has_script):
    session = shop.session()
    took = milliseconds(shop.ready, session)
    if has_script:
        took += milliseconds(shop.lines, f"/sessions/{session}/commands/hi")
    shop.leave(session)
    return took


def tell(shop, session):
    return milliseconds(lambda: [shop.lines(f"/sessions/{session}/fork") for _ in range(EVENTS)]) / EVENTS


def own_kb(pid):
    """Of the script's process alone: what no other has."""
    for name in os.listdir("/proc"):
        if name.isdigit() and read(f"/proc/{name}/comm").strip() == "kaged-lua" and descends(int(name), pid):
            rollup = read(f"/proc/{name}/smaps_rollup")
            return sum(int(kb) for kb in re.findall(r"^Private_(?:Clean|Dirty):\s+(\d+)", rollup, re.M))
    raise Failed("scripts: there is no process of one")


def descends(pid, ancestor):
    while pid > 1:
        if pid == ancestor:
            return True
        pid = int(re.search(r"^PPid:\s+(\d+)", read(f"/proc/{pid}/status"), re.M).group(1))
    return False


def measure_start(bench):
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(folder())
        plugin = stack.enter_context(Contender([os.path.join(BIN, "kaged-bench"),
                                                Home(scratch, {"fast": "fast"}).folder]))
        plugin.ask("start")
        none, one = stack.enter_context(Shop({})), stack.enter_context(Shop({"a": SAYS}))
        acts = {"plugin": lambda: plugin.ask("start")["ms"], "none": lambda: start(none, False),
                "one": lambda: start(one, True)}
        times = take_turns(acts, 3 * bench.rounds, "start of a script")
    ours = [max(one - none, 0.01) for one, none in zip(times["one"], times["none"])]
    bench.table.add("script, start to first event", "ms", ours, "an empty plugin", times["plugin"], less_is_better=True)
    over = [max(a - b, 0.01) for a, b in zip(ours, times["plugin"])]
    bench.table.add("script, start over an empty plugin's", "ms", over, "an empty plugin", times["plugin"],
                    less_is_better=True, goal=value_of(most=3))


def measure_events(bench):
    with contextlib.ExitStack() as stack:
        ten = stack.enter_context(Shop({**{f"a{i}": HEARS for i in range(9)}, "z": FORBIDS}))
        one = stack.enter_context(Shop({"z": FORBIDS}))
        sessions = {shop: shop.session() for shop in (ten, one)}
        for shop, session in sessions.items():
            shop.ready(session)
        acts = {name: lambda shop=shop: tell(shop, sessions[shop]) for name, shop in (("ten", ten), ("one", one))}
        times = take_turns(acts, bench.rounds, "an event to scripts")
    ours = [max(a - b, 0.001) * 10 / 9 for a, b in zip(times["ten"], times["one"])]
    bench.table.add("script, an event to ten", "ms", ours, "a request that one hears of", times["one"],
                    less_is_better=True, goal=value_of(most=1))


def measure_memory(bench):
    with Shop({"a": SAYS}) as shop:
        def once():
            session = shop.session()
            shop.ready(session)
            time.sleep(IDLE)
            kb = own_kb(shop.daemon.pid)
            shop.leave(session)
            return {"script": kb / 1024}
        found = take_turns({"kaged": once}, min(bench.rounds, 3), "memory of a script")
    ours = [each["script"] for each in found["kaged"]]
    bench.table.add("script, memory of its own", "MB", ours, "itself", ours, less_is_better=True,
                    goal=value_of(most=1.2))


def measure(bench):
    measure_start(bench)
    measure_events(bench)
    measure_memory(bench)
