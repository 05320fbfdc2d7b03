"""An empty call in each SDK's language: through the daemon, and over bare pipes.

The same four programs, each once in its cage, called over the unix socket as clients do, and once as a
child of this script, with the very line that the daemon sends. What lies between the two figures is the
daemon's share: HTTP, the checks, the audit log and the cage.
"""
import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import time

from lib.contender import Failed, take_turns
from lib.kaged import ROOT, Daemon, Home, folder

SHARE = os.path.join(ROOT, "build/share/kaged/sdk")
SOURCES = os.path.join(ROOT, "bench/plugins/empty")
CALLS = 300  # of each program in each round
PEER = "bare pipes"

LANGUAGES = {"c": ("empty.c", ["./empty"]), "ts": ("empty.js", ["/usr/bin/env", "node", "./empty.js"]),
             "python": ("empty.py", ["./empty.py"]), "shell": ("empty.sh", ["./empty.sh"])}
MANIFEST = """name: empty-{language}
version: 1.0.0
kaged_api: 1
description: Answers with nothing.
command: {command}
capabilities: {capabilities}
methods: [empty.call]
"""
CONTEXT = {"operator_id": "root", "project_id": None, "agent_path": None, "session_id": None,
           "request_id": "req_01KA5W3M8Q2Z7X9T4B6N1C0V5R"}


def write_plugin(language, folder):
    source, command = LANGUAGES[language]
    shutil.copytree(os.path.join(SHARE, language), folder, dirs_exist_ok=True)
    shutil.copy(os.path.join(SOURCES, source), folder)
    needs = ["exec:jq:config:/", "write:fs:config:/"] if language == "shell" else []
    with open(os.path.join(folder, "kaged-plugin.yaml"), "w") as file:
        file.write(MANIFEST.format(language=language, command=json.dumps(command),
                                   capabilities=json.dumps(needs)))
    if language == "ts":
        with open(os.path.join(folder, "package.json"), "w") as file:
            file.write('{ "private": true, "type": "module" }\n')
    if language == "c":
        subprocess.run("cc -O2 -D_GNU_SOURCE -Isdk -o empty empty.c "
                       "sdk/*.c sdk/base/*.c sdk/base/json/*.c", shell=True, cwd=folder, check=True)


class Pipes:
    """The program as a child, and no daemon."""

    def __init__(self, folder, language):
        self.process = subprocess.Popen(LANGUAGES[language][1], cwd=folder, bufsize=0,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL)
        self.id = 0
        self.ask("initialize", {"daemon_version": "0", "api_version": 1, "projects": [],
                                "plugin_name": f"empty-{language}", "storage_available": False})
        self.process.stdin.write(b'{"jsonrpc":"2.0","method":"initialized","params":{}}\n')

    def ask(self, method, params):
        """(seconds, answer)"""
        self.id += 1
        line = json.dumps({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params},
                          separators=(",", ":")).encode() + b"\n"
        answer, start = b"", time.perf_counter()
        self.process.stdin.write(line)
        while not answer.endswith(b"\n"):
            piece = os.read(self.process.stdout.fileno(), 65536)
            if not piece:
                raise Failed(f"an empty plugin ended at {method}")
            answer += piece
        return time.perf_counter() - start, json.loads(answer)

    def call(self):
        took, answer = self.ask("empty.call", {"_context": CONTEXT})
        if (answer["id"], answer.get("result", 0)) != (self.id, None):
            raise Failed(f"that is not the answer: {answer}")
        return took

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Client:
    """One connection to the daemon, for one plugin; with as little of its own time as can be."""

    def __init__(self, path, plugin):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.request = (f"POST /api/v1/plugins/{plugin}/call/empty.call HTTP/1.1\r\n"
                        "Host: localhost\r\nContent-Length: 2\r\n\r\n{}").encode()

    def call(self):
        answer, start = b"", time.perf_counter()
        self.socket.sendall(self.request)
        while b"\r\n\r\nnull" not in answer:
            piece = self.socket.recv(65536)
            if not piece or not (answer + piece).startswith(b"HTTP/1.1 200 "):
                raise Failed(f"that is not the answer: {(answer + piece).decode()}")
            answer += piece
        return time.perf_counter() - start

    def close(self):
        self.socket.close()


def median_us(caller):
    return lambda: statistics.median(caller.call() for _ in range(CALLS)) * 1e6


def measure(bench):
    languages = [one for one in LANGUAGES if os.path.isdir(os.path.join(SHARE, one))]
    names = {one: f"empty-{one}" for one in languages}
    with contextlib.ExitStack() as stack:
        home = Home(stack.enter_context(folder("/tmp")),
                    {names[one]: lambda at, one=one: write_plugin(one, at) for one in languages},
                    enabled=names.values())
        daemon = stack.enter_context(Daemon(home))
        daemon.wait_running(len(languages))
        acts = {}
        for one in languages:
            client = Client(daemon.socket, names[one])
            pipes = Pipes(os.path.join(home.folder, "plugins", names[one]), one)
            stack.callback(client.close)
            stack.callback(pipes.close)
            acts |= {(one, "daemon"): median_us(client), (one, PEER): median_us(pipes)}
        figures = take_turns(acts, bench.rounds, "an empty call by SDK")
    for one in LANGUAGES:
        name = f"an empty call, SDK for {one}"
        if one in languages:
            bench.table.add(name, "us", figures[one, "daemon"], PEER, figures[one, PEER],
                            less_is_better=True)
        else:
            bench.table.leave_out(name, PEER, f"its SDK is not built: scripts/share {one}")
