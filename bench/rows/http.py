"""Over HTTP to a caged plugin and back, beside nginx with a fixed answer.

Daemon and plugin, or nginx, have one core; wrk and the audit writer the other. Over TCP kaged is
asked with a token, as any program would.
"""
import contextlib

from lib import http
from lib.contender import cores, take_turns
from lib.kaged import Daemon, Home, folder
from lib.table import ratio_of

CONNECTIONS = 32
ROUTE = "/api/v1/plugins/fast/call/fast.echo"
WAYS = {"tcp": "HTTP calls, 32 connections", "unix": "HTTP calls, 32 connections, unix socket"}


@contextlib.contextmanager
def kaged(scratch, core, other):
    port = http.free_port()
    config = f'[daemon]\nbind = "127.0.0.1:{port}"\n'
    home = Home(scratch, {"fast": "fast"}, enabled=["fast"], config=config)
    with Daemon(home, core, other) as daemon:
        daemon.wait_running(1)
        token = home.run("auth", "token", "create", "--name", "bench", "--scope",
                         "plugins:call").split()[-1]
        yield {"tcp": http.Target(ROUTE, port, token=token),
               "unix": http.Target(ROUTE, path=daemon.socket)}


def measure(bench):
    core, other = cores()
    with folder() as scratch, kaged(scratch, core, other) as ours, http.nginx(scratch, core) as theirs:
        acts = {(who, way): lambda one=targets[way]: one.load(scratch, CONNECTIONS, bench.seconds, other)
                for who, targets in (("kaged", ours), ("nginx", theirs)) for way in WAYS}
        figures = take_turns(acts, bench.rounds, "HTTP calls")
    for way, name in WAYS.items():
        pair = [[one["rate"] for one in figures[who, way]] for who in ("kaged", "nginx")]
        bench.table.add(name, "calls/s", pair[0], "nginx, fixed answer", pair[1], goal=ratio_of(0.40))
    for share in ("p50", "p99"):
        pair = [[one[f"{share}_us"] for one in figures[who, "tcp"]] for who in ("kaged", "nginx")]
        bench.table.add(f"HTTP calls, {share}", "us", pair[0], "nginx, fixed answer", pair[1],
                        less_is_better=True)
