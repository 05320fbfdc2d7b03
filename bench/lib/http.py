"""wrk, and nginx for it to ask; both on loopback, started and stopped here."""
import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import time

from lib.contender import Failed
from lib.kaged import PROGRAMS, Client

ANSWER = '{"ok":true}'
BODY = '{"text":"hello","count":42}'

NGINX = """
daemon off;
master_process off;
worker_processes 1;
pid {dir}/nginx.pid;
error_log {dir}/nginx.log;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  keepalive_requests 100000000;
  client_body_temp_path {dir}/body;
  proxy_temp_path {dir}/proxy;
  fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi;
  scgi_temp_path {dir}/scgi;
  default_type application/json;
  server {{ listen 127.0.0.1:{port}; listen unix:{dir}/nginx.sock; return 200 '{answer}'; }}
}}
"""

# Its last words are the figures; bytes are those of all answers, so that one that differs shows.
WRK = """
wrk.method = "POST"
wrk.body = '{body}'
{headers}
{more}
function done(summary, latency)
  local errors = summary.errors
  io.write(string.format('{{"requests":%d,"bytes":%d,"us":%d,"p50_us":%d,"p99_us":%d,"errors":%d}}',
    summary.requests, summary.bytes, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
"""

# Requests of JSON-RPC that are under way at the same time have an id each.
NUMBERED = """
local number, body = 100, wrk.body
function request()
  number = number + 1
  return wrk.format(nil, nil, nil, (body:gsub('"id":1,', '"id":' .. number .. ',')))
end
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Target:
    """Something that answers a POST: over TCP, or over a unix socket if `path` names one. `part` is in
    every right answer where they are not all the same."""

    body, more = BODY, ""

    def __init__(self, route, port=1, path=None, token=None, part=None):
        self.route, self.port, self.path, self.part = route, port, path, part
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def ask_once(self):
        """(the length of the whole answer, its body)"""
        client = Client(self.path) if self.path else http.client.HTTPConnection("127.0.0.1", self.port)
        with contextlib.closing(client):
            client.request("POST", self.route, self.body, self.headers)
            with client.getresponse() as response:
                status = f"HTTP/1.1 {response.status} {response.reason}\r\n"
                head = sum(len(f"{name}: {value}\r\n") for name, value in response.getheaders())
                body = response.read().decode()
                return len(status) + head + 2 + len(body), body

    def wait_right(self):
        """Until the right answer comes; its length."""
        deadline = time.monotonic() + 30
        body = None
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                length, body = self.ask_once()
                if body == ANSWER if self.part is None else self.part in body:
                    return length
            time.sleep(0.02)
        raise Failed(f"{self.path or self.port}: another answer: {body}")

    def load(self, scratch, connections, seconds, core):
        """{"rate", "p50_us", "p99_us"} of wrk; fails unless every answer was right."""
        length = self.wait_right()
        figures = self.run_wrk(scratch, connections, seconds, core)
        behind = 0 if self.part else figures["bytes"] - figures["requests"] * length
        if figures["errors"] or not 0 <= behind <= connections * length:
            raise Failed(f"not every answer was right, each of {length} bytes: {figures}")
        return {"rate": figures["requests"] * 1e6 / figures["us"], **figures}

    def run_wrk(self, scratch, connections, seconds, core):
        script = os.path.join(scratch, "wrk.lua")
        headers = "\n".join(f'wrk.headers["{name}"] = "{value}"' for name, value in self.headers.items())
        with open(script, "w") as file:
            file.write(WRK.format(body=self.body, headers=headers, more=self.more))
        environment = dict(os.environ)
        if self.path:
            environment |= {"LD_PRELOAD": os.path.join(PROGRAMS, "unix-sockets.so"),
                            "BENCH_SOCKET": self.path}
        said = subprocess.run(
            ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", script,
             f"http://127.0.0.1:{self.port}{self.route}"], env=environment, capture_output=True,
            text=True, check=True, preexec_fn=lambda: os.sched_setaffinity(0, {core})).stdout
        return json.loads(said[said.rindex("{"):])


@contextlib.contextmanager
def nginx(scratch, core):
    """({"tcp": target, "unix": target}) with a fixed answer."""
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    if not os.path.exists(program) or shutil.which("wrk") is None:
        raise Failed("nginx or wrk is not here")
    port = free_port()
    with open(f"{scratch}/nginx.conf", "w") as file:
        file.write(NGINX.format(dir=scratch, port=port, answer=ANSWER))
    process = subprocess.Popen(
        [program, "-p", scratch, "-c", f"{scratch}/nginx.conf", "-e", f"{scratch}/nginx.log"],
        preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    try:
        yield {"tcp": Target("/", port), "unix": Target("/", path=f"{scratch}/nginx.sock")}
    finally:
        process.terminate()
        process.wait()
