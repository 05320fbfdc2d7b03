"""The operator's page: what it weighs, and how long it takes until its first view is there.

The peer is a page of one line from the same daemon in the same browser: what is left is the page's own. The
view is the overview with its figures, after all that it asks of the daemon.
"""
import gzip
import http.client
import os
import re
import sys

from lib.contender import Failed, say, take_turns
from lib.http import free_port
from lib.kaged import ROOT, Daemon, Home, folder
from lib.table import value_of

sys.path.append(os.path.join(ROOT, "tests/lib"))
from browser import Browser, skip_reason  # noqa: E402

PLUGINS = 20


def fetch(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
    with connection.getresponse() as answer:
        text = answer.read()
        if answer.status != 200:
            raise Failed(f"GET {path}: {answer.status}")
    connection.close()
    return text


def weigh(port):
    """(compressed, as it is) in KB, of the page and all that it names."""
    page = fetch(port, "/")
    sizes = [len(page)] * 2
    for name in re.findall(rb'"(/page/[^"]+)"', page):
        text = fetch(port, name.decode())
        sizes[0] += len(text)
        sizes[1] += len(gzip.decompress(text) if text.startswith(b"\x1f\x8b") else text)
    return [size / 1024 for size in sizes]


def measure(bench):
    if skip_reason():
        say(f"page: left out: {skip_reason()}")
        return
    with folder() as scratch:
        port = free_port()
        names = [f"fast-{number}" for number in range(PLUGINS)]
        home = Home(scratch, {name: "fast" for name in names}, enabled=names,
                    config=f'[daemon]\nbind = "127.0.0.1:{port}"\n')
        with Daemon(home) as daemon:
            daemon.wait_running(PLUGINS)
            weight = weigh(port)
            with daemon.client() as client, Browser() as browser:
                browser.open(client.api("POST", "/launch")["url"])
                browser.wait("header.bar")
                origin = f"http://127.0.0.1:{port}"
                figures = take_turns({
                    "page": lambda: browser.firstView(origin + "/", ".figures .value"),
                    "line": lambda: browser.firstView(origin + "/healthz", "body"),
                }, bench.rounds, "first views")
    bench.table.add("page, compressed", "KB", [weight[0]], "as it is", [weight[1]], less_is_better=True,
                    goal=value_of(most=150))
    bench.table.add(f"page, first view with {PLUGINS} plugins", "ms", figures["page"], "a page of one line",
                    figures["line"], less_is_better=True, goal=value_of(most=100))
