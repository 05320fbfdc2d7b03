"""Homes with plugins, and daemons on them, of the programs in build/bin."""
import contextlib
import http.client
import json
import os
import re
import select
import shutil
import socket
import subprocess
import tempfile
import time

from lib import contender

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.join(ROOT, "build/bin")
PROGRAMS = os.path.join(ROOT, "build/release/bench")
APPROVED_AT_ONCE = 200
PATIENCE = 120  # seconds for what never takes so long


class Home:
    """A folder with plugins that are approved; plugins: {name: folder of bench/plugins, or a function
    that writes the plugin into a folder}."""

    def __init__(self, folder, plugins, enabled=(), config=""):
        self.folder, self.names = os.path.join(folder, "home"), list(plugins)
        os.makedirs(self.folder)
        for name, source in plugins.items():
            self.install(name, source)
        with open(os.path.join(self.folder, "config.toml"), "w") as file:
            bind = "" if "bind" in config else '[daemon]\nbind = ""\n'
            file.write(f"{bind}{config}\n[plugins]\nenabled = {json.dumps(list(enabled))}\n")
        for start in range(0, len(self.names), APPROVED_AT_ONCE):
            self.run("plugin", "approve", "--yes", *self.names[start:start + APPROVED_AT_ONCE])

    def install(self, name, source):
        folder = os.path.join(self.folder, "plugins", name)
        os.makedirs(folder)
        if callable(source):
            source(folder)
            return
        shutil.copy(os.path.join(PROGRAMS, source), folder)
        with open(os.path.join(ROOT, "bench/plugins", source, "kaged-plugin.yaml")) as file:
            manifest = file.read()
        with open(os.path.join(folder, "kaged-plugin.yaml"), "w") as file:
            file.write(re.sub(r"^name: .*", f"name: {name}", manifest))

    def command(self, *arguments):
        return [os.path.join(BIN, "kaged"), "--home", self.folder, *arguments]

    def run(self, *arguments):
        done = subprocess.run(self.command(*arguments), text=True, capture_output=True)
        if done.returncode != 0:
            raise contender.Failed(done.stderr.strip())
        return done.stdout


class Client(http.client.HTTPConnection):
    """The daemon's API over its unix socket."""

    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)

    def api(self, method, route, body=None):
        self.request(method, f"/api/v1{route}", None if body is None else json.dumps(body))
        with self.getresponse() as response:
            text = response.read()
            if response.status >= 300:
                raise contender.Failed(f"{method} {route}: {text.decode()}")
            return json.loads(text)


class Daemon:
    """core: daemon, spawner and plugins stay on that one, the audit writer goes to `writer_core`."""

    def __init__(self, home, core=None, writer_core=None):
        self.home, self.core, self.writer_core = home, core, writer_core
        self.socket = os.path.join(home.folder, "run/kaged.sock")

    def __enter__(self):
        ready, theirs = os.pipe()
        self.process = subprocess.Popen(
            self.home.command("start", "--foreground", "--ready-fd", str(theirs)),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
            pass_fds=[theirs],
            preexec_fn=None if self.core is None else lambda: os.sched_setaffinity(0, {self.core}))
        os.close(theirs)
        if not select.select([ready], [], [], PATIENCE)[0] or os.read(ready, 64) != b"ready\n":
            self.__exit__()
            raise contender.Failed("kaged: it does not start")
        os.close(ready)
        if self.writer_core is not None:
            contender.pin_thread(self.pid, "audit", self.writer_core)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    @property
    def pid(self):
        return self.process.pid

    def client(self):
        return contextlib.closing(Client(self.socket))

    def wait_running(self, count):
        """Until so many plugins run. Asking takes a tenth of the time at most: about a thousand plugins
        there is much to say, and who is asked all the time starts them later."""
        deadline = time.monotonic() + PATIENCE
        with self.client() as client:
            while True:
                asked = time.monotonic()
                plugins = client.api("GET", "/plugins")["plugins"]
                if sum(plugin["state"] == "running" for plugin in plugins) >= count:
                    return
                if asked > deadline:
                    raise contender.Failed(f"kaged: {count} plugins do not run")
                time.sleep(max(0.02, 9 * (time.monotonic() - asked)))


@contextlib.contextmanager
def folder(below="/dev/shm"):
    """One that is gone afterwards; on tmpfs unless told otherwise."""
    path = tempfile.mkdtemp(prefix="kb-", dir=below)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
