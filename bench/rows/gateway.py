"""A client's call over MCP: HTTP, kaged, a caged server and back, beside gateways that people have.

All of them have the same server behind them, and one core with it; wrk has the other. They are called by
streamable HTTP in a session, but for mcp-hub, whose own API takes calls. The server alone is called over
its pipes. What counts as memory is resident in the gateway's own processes, without the server.
"""
import contextlib
import http.client
import json
import os
import subprocess
import time

from lib import http as load
from lib import peers
from lib.contender import Failed, cores, start_peers, take_turns
from lib.kaged import PROGRAMS, Client, Daemon, Home, folder
from lib.process import family, read, resident_kb
from lib.table import ratio_of
from rows.mcp import approve_tools, write_server

CONNECTIONS = 32
SERVER = os.path.join(PROGRAMS, "fast")
ARGUMENTS = {"text": "hello", "count": 42}
BOTH = "application/json, text/event-stream"


class Session(load.Target):
    """A session of a client at an endpoint of MCP."""

    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "say", "arguments": ARGUMENTS}}, separators=(",", ":"))
    more = load.NUMBERED

    def begin(self):
        """False: nobody answers there yet."""
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"}}}
        self.headers |= {"Accept": BOTH, "Content-Type": "application/json"}
        status, headers = self.post(json.dumps(hello))
        if status != 200:
            return False
        if "Mcp-Session-Id" in headers:
            self.headers["Mcp-Session-Id"] = headers["Mcp-Session-Id"]
        self.headers["MCP-Protocol-Version"] = "2025-06-18"
        self.post(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        return True

    def post(self, body):
        client = Client(self.path) if self.path else http.client.HTTPConnection("127.0.0.1", self.port)
        with contextlib.closing(client):
            client.request("POST", self.route, body, self.headers)
            with client.getresponse() as response:
                response.read()
                return response.status, response.headers


class HubCall(load.Target):
    """A call by mcp-hub's own API."""

    body = json.dumps({"server_name": "fast", "tool": "say", "arguments": ARGUMENTS},
                      separators=(",", ":"))

    def begin(self):
        self.headers |= {"Content-Type": "application/json"}
        with contextlib.suppress(Failed, IndexError):
            return '"ok"' in self.ask_once()[1]
        return False


def program(package, path):
    place = os.path.join(peers.PACKAGES, "node_modules", package, path)
    if not os.path.exists(place):
        raise Failed(f"{package} is not among the packages of npm: scripts/npm bench/peers")
    return [peers.node(), place]


def hub_config(scratch):
    path = os.path.join(scratch, "hub.json")
    with open(path, "w") as file:
        json.dump({"mcpServers": {"fast": {"command": SERVER, "args": ["mcp"]}}}, file)
    return path


GATEWAYS = {
    "mcp-proxy": (Session, "/mcp", lambda port, _: [
        *program("mcp-proxy", "dist/bin/mcp-proxy.mjs"), "--host", "127.0.0.1", "--port", port,
        "--server", "stream", "--", SERVER, "mcp"]),
    "supergateway": (Session, "/mcp", lambda port, _: [
        *program("supergateway", "dist/index.js"), "--stdio", f"{SERVER} mcp", "--outputTransport",
        "streamableHttp", "--stateful", "--logLevel", "none", "--port", port]),
    "mcp-hub": (HubCall, "/api/servers/tools", lambda port, scratch: [
        *program("mcp-hub", "dist/cli.js"), "--port", port, "--config", hub_config(scratch)]),
}


def own_kb(pid):
    """What the gateway takes, and not its server."""
    return sum(resident_kb(one) for one in family(pid)
               if read(f"/proc/{one}/comm").strip() not in ("fast", "sh"))


@contextlib.contextmanager
def gateway(name, scratch, core):
    """(the target, how much memory it has)"""
    kind, route, command = GATEWAYS[name]
    port = load.free_port()
    place = os.path.join(scratch, name)
    os.makedirs(place)
    process = subprocess.Popen(command(str(port), scratch), stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=place,
                               env={**os.environ, "HOME": place, "XDG_STATE_HOME": place},
                               preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    try:
        target = kind(route, port, part='ok')
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if target.begin():
                    break
            if process.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"{name} does not answer")
            time.sleep(0.2)
        yield target, lambda: own_kb(process.pid) / 1024
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def kaged(scratch, core, other):
    port = load.free_port()
    home = Home(scratch, {"fast-mcp": write_server}, enabled=["fast-mcp"],
                config=f'[daemon]\nbind = "127.0.0.1:{port}"\n')
    approve_tools(home)
    with Daemon(home, core, other) as daemon:
        daemon.wait_running(1)
        token = home.run("auth", "token", "create", "--name", "bench", "--scope",
                         "plugins:call").split()[-1]
        target = Session("/mcp/fast-mcp", port, token=token, part='ok')
        if not target.begin():
            raise Failed("kaged's /mcp does not answer")
        yield target, lambda: resident_kb(daemon.pid) / 1024


def measured(one, scratch, connections, seconds, core):
    target, memory = one
    return target.load(scratch, connections, seconds, core) | {"mb": memory()}


def measure(bench):
    core, other = cores()
    missing = {}
    with folder() as scratch, contextlib.ExitStack() as stack:
        running = {"kaged": stack.enter_context(kaged(scratch, core, other))}
        for name in GATEWAYS:
            try:
                running[name] = stack.enter_context(gateway(name, scratch, core))
            except Failed as why:
                missing[name] = str(why)
        alone, lost = start_peers(stack, {"the server alone": lambda: [
            peers.built("raw"), "single", SERVER]}, ("calls", bench.ms, CONNECTIONS, 5), core)
        missing |= lost
        for connections, name in {1: "gateway calls, one at a time",
                                  CONNECTIONS: "gateway calls, 32 at a time"}.items():
            acts = {who: lambda one=one, count=connections: measured(one, scratch, count,
                                                                     bench.seconds, other)
                    for who, one in running.items()}
            acts |= {who: lambda one=one, count=connections: one.ask("calls", bench.ms, count, 5)
                     for who, one in alone.items()}
            add_rows(bench, name, take_turns(acts, bench.rounds, name), missing)


def add_rows(bench, name, figures, missing):
    def of(key):
        return {who: [one[key] for one in rounds] for who, rounds in figures.items() if key in rounds[0]}
    bench.table.add_all(name, "calls/s", of("rate"), [*GATEWAYS, "the server alone"], missing,
                        dict.fromkeys(GATEWAYS, ratio_of(5)))
    bench.table.add_all(f"{name}, p99", "us", of("p99_us"), GATEWAYS, missing,
                        dict.fromkeys(GATEWAYS, ratio_of(10)), less_is_better=True)
    bench.table.add_all(f"{name}, memory", "MB", of("mb"), GATEWAYS, missing,
                        dict.fromkeys(GATEWAYS, ratio_of(10)), less_is_better=True)
