"""A thousand live plugins in one daemon: a call of one of them, beside a daemon with ten."""
from lib import http
from lib.contender import cores, take_turns
from lib.kaged import Daemon, Home, folder
from lib.table import ratio_of

FEW, MANY = 10, 1000
NAME = "call with 1,000 live plugins"


def home_of(scratch, count):
    names = [f"fast-{number}" for number in range(count)]
    return Home(scratch, dict.fromkeys(names, "fast"), enabled=names)


def target(daemon):
    return http.Target("/api/v1/plugins/fast-0/call/fast.echo", path=daemon.socket)


def measure(bench):
    other = cores()[1]
    with folder() as few_home, folder() as many_home, \
            Daemon(home_of(few_home, FEW)) as few, Daemon(home_of(many_home, MANY)) as many:
        few.wait_running(FEW)
        many.wait_running(MANY)
        acts = {who: lambda daemon=daemon: target(daemon).load(few_home, 1, bench.seconds, other)["p50_us"]
                for who, daemon in (("many", many), ("few", few))}
        times = take_turns(acts, bench.rounds, NAME)
    # At most one and a half times as long.
    bench.table.add(NAME, "us", times["many"], "kaged with 10", times["few"], less_is_better=True,
                    goal=ratio_of(round(1 / 1.5, 2)))
