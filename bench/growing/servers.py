"""MCP servers behind one /mcp: the daemon's memory, its list of tools, and a call of one of them."""
import json
import time

from lib.contender import Failed, cores
from lib.growth import Growth, medians
from lib.kaged import PATIENCE, Daemon, Home, folder
from lib.process import resident_kb
from rows.gateway import Session
from rows.mcp import MANIFEST, write_server

COUNTS = (1, 10, 100)


def server_named(name):
    def write(folder):
        write_server(folder)
        with open(f"{folder}/kaged-plugin.yaml", "w") as file:
            file.write(MANIFEST.replace("name: fast-mcp", f"name: {name}"))
    return write


def approve_all(daemon, names):
    deadline = time.monotonic() + PATIENCE
    with daemon.client() as client:
        for name in names:
            while not (waits := client.api("GET", f"/plugins/{name}/tools")["waits"]):
                if time.monotonic() > deadline:
                    raise Failed(f"{name} lists no tools")
                time.sleep(0.05)
            client.api("POST", f"/plugins/{name}/tools", {"approve": waits})


class Of(Session):
    body = Session.body.replace('"say"', '"fast-0__say"')


class Listing(Session):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
                      separators=(",", ":"))


def point(bench, scratch, count):
    names = [f"fast-{number}" for number in range(count)]
    home = Home(scratch, {name: server_named(name) for name in names}, enabled=names)
    with Daemon(home) as daemon:
        approve_all(daemon, names)
        daemon.wait_running(count)
        call, listing = (kind("/mcp", path=daemon.socket, part=part)
                         for kind, part in ((Of, "ok"), (Listing, "fast-0__say")))
        for target in (call, listing):
            if not target.begin():
                raise Failed("kaged's /mcp does not answer")
        calls, lists = (medians(lambda one=one: one.load(scratch, 1, bench.seconds, cores()[1]),
                                bench.rounds, f"{what} with {count} servers")
                        for what, one in (("calls", call), ("lists", listing)))
        return {"mb": resident_kb(daemon.pid) / 1024, "call": calls["p50_us"], "list": lists["p50_us"]}


def measure(bench):
    growth = Growth("MCP servers behind one /mcp", "servers", {
        "mb": "daemon, MB", "call": "call p50, us", "list": "tools/list p50, us"})
    for count in COUNTS:
        with folder() as scratch:
            growth.add(count, point(bench, scratch, count))
    growth.print()
