"""Tool calls of a session, stored and audited, beside plain calls of the same plugin.

Both come over the unix socket, to a daemon that shares one core with its plugin; wrk and the audit
writer have the other. Each round has a session of its own, so that none grows longer than the others.
"""
import os

from lib import http
from lib.contender import cores, take_turns
from lib.kaged import Daemon, Home, folder
from lib.project import begin_session, write_project
from lib.table import ratio_of

PLAIN = "/api/v1/plugins/fast/call/fast.echo"
ROWS = {1: "tool calls in a session, one at a time", 32: "tool calls in a session, 32 connections"}
NO_COMPACTION = "[sessions]\ncontext_window = 100000000\n"


def tool_of(daemon, client):
    route = f"/api/v1/sessions/{begin_session(client)}/tools/fast.say?agent=primary"
    return http.Target(route, path=daemon.socket, part='{"ok":true}')


def measure(bench):
    core, other = cores()
    with folder() as scratch:
        root = os.path.join(os.path.realpath(scratch), "project")
        write_project(root, ["fast"])
        home = Home(scratch, {"fast": "fast"}, enabled=["fast"], config=NO_COMPACTION)
        with Daemon(home, core, other) as daemon, daemon.client() as client:
            daemon.wait_running(1)
            client.api("POST", "/projects", {"path": root})
            plain = http.Target(PLAIN, path=daemon.socket)
            for connections, name in ROWS.items():
                figures = take_turns({
                    "tool": lambda count=connections: tool_of(daemon, client).load(
                        scratch, count, bench.seconds, other),
                    "plain": lambda count=connections: plain.load(scratch, count, bench.seconds, other),
                }, bench.rounds, name)
                bench.table.add(name, "calls/s", [one["rate"] for one in figures["tool"]],
                                "plain calls", [one["rate"] for one in figures["plain"]],
                                goal=ratio_of(0.5))
