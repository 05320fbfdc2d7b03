"""Chats with an orchestrator, all at once, of which each has a tool of a package called before it is answered; beside
the same questions to the provider itself. Every one has to be answered.
"""
import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time

from lib.contender import Failed, take_turns
from lib.kaged import PATIENCE, ROOT, Daemon, Home, folder
from rows.catalog import BOUNDARY, ask, form, package
from rows.packages import TREE

CHATS = 200
NAME = "200 chats at once, a tool call in each"
LOCAL = """[providers.here]
kind = "openai"
base_url = "http://127.0.0.1:{port}/v1"
[models.talker]
provider = "here"
model = "any"
"""


@contextlib.contextmanager
def provider():
    """Its port."""
    program = subprocess.Popen([sys.executable, os.path.join(ROOT, "bench/lib/provider.py"), "parcels__find_parcels",
                                '{"query":"lisbon"}'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield int(program.stdout.readline())
    finally:
        program.stdin.close()
        program.wait(PATIENCE)
        program.stdout.close()


def orchestrator(client):
    """(org, instance), loaded."""
    org = ask(client, "POST", "/api/admin/orgs", json.dumps({"name": "acme"}))["org_id"]
    pid = ask(client, "POST", "/api/admin/plugins/upload", form(package("1.0.0")),
              f"multipart/form-data; boundary={BOUNDARY}")["pid"]
    one = f"/api/orgs/{org}/orchestrators"
    made = ask(client, "POST", one, json.dumps({
        "name": "Parcels", "framework_type": "langgraph", "mode": "supervisor", "active_plugin_ids": [pid],
        "config": {"model": "talker"}}))["instance_id"]
    ask(client, "PATCH", f"{one}/{made}/plugin-settings", json.dumps(
        {"plugin_settings": {pid: {"settings": [{"key": "api_key", "value": "k-1234567890"}]}}}))
    ask(client, "POST", f"{one}/{made}/load")
    return org, made


async def exchange(reader, writer, path, headers, body):
    """The body of a 200."""
    text = json.dumps(body).encode()
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{lines}Content-Length: {len(text)}\r\n\r\n".encode() + text)
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    answer = await reader.readexactly(int(head.partition(b"content-length:")[2].split(b"\r\n")[0]))
    if not head.startswith(b"http/1.1 200 "):
        raise Failed(f"{path}: {answer.decode()}")
    return answer


async def chat(connected, headers):
    reader, writer = await asyncio.open_connection(sock=connected)
    answer = await exchange(reader, writer, "/api/chat/completion", headers, {"message": "Where is it?", "stream": False})
    writer.close()
    if json.loads(answer)["response"] != "Here it is.":
        raise Failed(answer.decode())


async def directly(connected):
    reader, writer = await asyncio.open_connection(sock=connected)
    for role in ("user", "tool"):
        await exchange(reader, writer, "/v1/chat/completions", {}, {"messages": [{"role": role, "content": "x"}]})
    writer.close()


def connect(family, address):
    connected = socket.socket(family)
    connected.connect(address)
    connected.setblocking(False)
    return connected


def all_at_once(one, *place):
    """Milliseconds until the last is answered, of those that are connected already."""
    connections = [connect(*place) for _ in range(CHATS)]

    async def run():
        await asyncio.gather(*map(one, connections))
    began = time.monotonic()
    asyncio.run(run())
    return (time.monotonic() - began) * 1000


def measure(bench):
    config = f'[catalog.runtimes.python]\nroot = "{TREE}"\n' if os.path.exists(TREE) else ""
    with folder("/tmp") as scratch, provider() as port:
        home = Home(scratch, {}, config=config)
        path = os.path.join(home.folder, "local.toml")
        with open(path, "a") as file:
            file.write(LOCAL.format(port=port))
        os.chmod(path, 0o600)
        with Daemon(home) as daemon, daemon.client() as client:
            org, instance = orchestrator(client)
            headers = {"X-ORG-ID": org, "X-INSTANCE-ID": instance}
            figures = take_turns({"kaged": lambda: all_at_once(lambda one: chat(one, headers), socket.AF_UNIX, daemon.socket),
                                  "plain": lambda: all_at_once(directly, socket.AF_INET, ("127.0.0.1", port))},
                                 bench.rounds, NAME)
    bench.table.add(NAME, "ms", figures["kaged"], "the provider, asked directly", figures["plain"], less_is_better=True)
