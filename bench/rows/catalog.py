"""The catalog: a package of a megabyte from its upload to where it can be used, beside its archive unpacked and its
Python started in a bare bwrap; and lists of an org among 1,000 packages of 20 versions in 50 orgs, beside a catalog
that has that org alone.
"""
import contextlib
import io
import json
import os
import sqlite3
import time
import zipfile

from lib.contender import Failed, take_turns
from lib.kaged import ROOT, Daemon, Home, folder
from lib.table import value_of
from rows.packages import SDK, TREE, start

ORGS, PIDS, VERSIONS = 50, 20, 20
ASKED = 200
UPLOAD, LIST, FIND = "package of 1 MB, upload to ready", "catalog of 20,000 versions, list", \
    "catalog of 20,000 versions, find"
BOUNDARY = "a-boundary-that-is-nowhere-else"


def ask(client, method, path, body=None, kind="application/json"):
    client.request(method, path, body, {"Content-Type": kind})
    with client.getresponse() as response:
        text = response.read()
        if response.status >= 300:
            raise Failed(f"{method} {path}: {text.decode()}")
        return json.loads(text)


# -- uploads -----------------------------------------------------------------------------------------


def package(version):
    """The example, with a file that makes it a megabyte."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as zipped:
        for name in ("plugin.py", "data.py", "logo.png"):
            path = os.path.join(SDK, "example", name)
            if os.path.exists(path):
                with open(path, "rb") as file:
                    zipped.writestr(name, file.read().replace(b'"1.0.0"', f'"{version}"'.encode()))
        zipped.writestr("data.bin", os.urandom(1 << 20))
    return made.getvalue()


def form(content):
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="package.zip"\r\n\r\n'
    return head.encode() + content + f"\r\n--{BOUNDARY}--\r\n".encode()


class Uploads:
    """Each is a newer version than the one before."""

    def __init__(self, client):
        self.client, self.count = client, 0

    def one(self):
        self.count += 1
        body = form(package(f"1.0.{self.count}"))
        began = time.monotonic()
        ask(self.client, "POST", "/api/admin/plugins/upload", body, f"multipart/form-data; boundary={BOUNDARY}")
        return (time.monotonic() - began) * 1000


def by_hand(scratch):
    """What nobody can do without: the files, and a Python that has the SDK."""
    content = package("1.0.0")
    began = time.monotonic()
    with zipfile.ZipFile(io.BytesIO(content)) as zipped:
        zipped.extractall(os.path.join(scratch, "by-hand"))
    start(["/opt/kaged/cadence", "run", "/package", "1.0.0"], [("initialize", {"plugin_name": "parcels"})])
    return (time.monotonic() - began) * 1000


# -- lists -------------------------------------------------------------------------------------------


def fill(database, orgs):
    """Rows as uploads leave them; the org that is asked for is the last one."""
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        for org, pid in ((org, pid) for org in orgs for pid in range(PIDS)):
            name = f"com.org{orgs.index(org)}.package{pid}"
            card = {"pid": name, "version": "", "name": name, "description": "d" * 200, "tag": None, "kind": "python",
                    "is_specialized": True, "is_scoped": False, "stateless": True, "capabilities": [], "declares": [],
                    "dependencies": [], "settings_schema": [], "default_settings": {}, "logo_image": None}
            for number in range(VERSIONS):
                version = f"1.{number}.0"
                connection.execute(
                    "INSERT INTO package VALUES (?, ?, ?, ?, ?, 1000, 1, ?, ?, ?, NULL, ?)",
                    (f"{org}-{pid}-{number}", org, name, version, "0" * 64, int(number == VERSIONS - 1),
                     json.dumps({**card, "version": version}), "{}", number + 1))


def filled(scratch, count):
    home = Home(scratch, {})
    with Daemon(home) as daemon, daemon.client() as client:
        orgs = [ask(client, "POST", "/api/admin/orgs", json.dumps({"name": f"org{number}"}))["org_id"]
                for number in range(count)]
    fill(os.path.join(home.folder, "state/kaged.db"), orgs)
    return home, orgs[-1], f"com.org{count - 1}.package7"


def median(client, path, count):
    """Of some hundred, in milliseconds; so many are in the answer."""
    took = []
    for _ in range(ASKED):
        began = time.monotonic()
        answer = ask(client, "GET", path)
        took.append((time.monotonic() - began) * 1000)
        assert len(answer["plugins"]) == count, len(answer["plugins"])
    return sorted(took)[ASKED // 2]


def measure_lists(bench):
    with folder() as many_folder, folder() as few_folder, contextlib.ExitStack() as stack:
        paths, clients = {}, {}
        for who, scratch, count in (("many", many_folder, ORGS), ("few", few_folder, 1)):
            home, org, pid = filled(scratch, count)
            clients[who] = stack.enter_context(stack.enter_context(Daemon(home)).client())
            paths[who] = {LIST: (f"/api/orgs/{org}/plugins", PIDS),
                          FIND: (f"/api/orgs/{org}/plugins/{pid}/versions", VERSIONS)}
        for row in (LIST, FIND):
            figures = take_turns({who: lambda who=who, row=row: median(clients[who], *paths[who][row])
                                  for who in clients}, bench.rounds, row)
            bench.table.add(row, "ms", figures["many"], "one org alone", figures["few"], goal=value_of(most=5),
                            less_is_better=True)


def measure(bench):
    config = f'[catalog.runtimes.python]\nroot = "{TREE}"\n' if os.path.exists(TREE) else ""
    with folder() as scratch, Daemon(Home(scratch, {}, config=config)) as daemon, daemon.client() as client:
        figures = take_turns({"kaged": Uploads(client).one, "plain": lambda: by_hand(scratch)}, bench.rounds, UPLOAD)
    bench.table.add(UPLOAD, "ms", figures["kaged"], "unzip, and Python started", figures["plain"], less_is_better=True)
    measure_lists(bench)
