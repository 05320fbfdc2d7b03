"""PostgreSQL for tests: a server of the test's own, in a temporary folder and on a unix socket alone.

The folder is made once for all tests that run at the same time, by initdb, which takes seconds, and copied. A
server runs as nobody if the tests run as root, which PostgreSQL refuses. As a program it is for tests in C: it
starts a server, prints the folder of its socket, and stops the server when its stdin ends.
"""
import atexit
import contextlib
import fcntl
import glob
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PATIENCE = 120
USER = "nobody"
TEMPLATE = f"/tmp/kaged-postgres-template-{os.getuid()}"
# What is tested is what becomes of connections and commits, not of the machine's power.
SETTINGS = """
listen_addresses = ''
max_connections = 40
shared_buffers = 8MB
fsync = off
logging_collector = off
"""


def programs():
    """The folder of the newest server's programs, or None."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"), key=lambda path: int(path.split("/")[4]))
    return os.path.dirname(found[-1]) if found else None


def missing():
    """Why there can be no server here, or None."""
    if programs() is None:
        return "there is no PostgreSQL server on this machine (Debian: postgresql)"
    if not (glob.glob("/usr/lib/*/libpq.so.5") or glob.glob("/usr/lib64/libpq.so.5")):
        return "there is no libpq on this machine (Debian: libpq5)"
    return None


def as_user(*words):
    if os.getuid() != 0:
        return list(words)
    user = pwd.getpwnam(USER)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", *words]


def give(folder):
    if os.getuid() == 0:
        user = pwd.getpwnam(USER)
        for place, _, files in os.walk(folder):
            for path in [place, *(os.path.join(place, name) for name in files)]:
                os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)


def template():
    """A folder as initdb makes it; whoever comes first makes it, the others wait."""
    version = programs().split("/")[4]
    done = f"{TEMPLATE}-{version}"
    with open(done + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(done):
            folder = tempfile.mkdtemp(prefix="kg-pg-", dir="/tmp")
            give(folder)
            data = os.path.join(folder, "data")
            subprocess.run(as_user(os.path.join(programs(), "initdb"), "-D", data, "-U", "kaged", "-E", "UTF8",
                                   "--locale=C", "-A", "trust", "--no-sync", "--no-instructions"),
                           check=True, stdout=subprocess.DEVNULL, cwd="/")
            os.rename(data, done)
            shutil.rmtree(folder)
    return done


class Server:
    """A context manager. url: of its database, in which there is nothing yet."""

    def __init__(self):
        self.base = tempfile.mkdtemp(prefix="kg-pg-", dir="/tmp")
        self.data = os.path.join(self.base, "data")
        subprocess.run(["cp", "-a", template(), self.data], check=True)
        with open(os.path.join(self.data, "postgresql.conf"), "a") as file:
            file.write(SETTINGS + f"unix_socket_directories = '{self.base}'\n")
        give(self.base)
        os.chmod(self.base, 0o755)
        self.process = None
        self.names = 0

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.base)

    def start(self, *settings):
        words = [word for setting in settings for word in ("-c", setting)]
        with open(os.path.join(self.base, "log"), "ab") as log:
            self.process = subprocess.Popen(as_user(os.path.join(programs(), "postgres"), "-D", self.data, *words),
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")
        deadline = time.monotonic() + PATIENCE
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError("PostgreSQL does not start:\n" + self.log())
            time.sleep(0.02)

    def log(self):
        with open(os.path.join(self.base, "log"), errors="replace") as file:
            return file.read()

    def answers(self):
        return subprocess.run([os.path.join(programs(), "pg_isready"), "-q", "-d", self.url()]).returncode == 0

    def stop(self, number=signal.SIGINT):
        """SIGINT ends connections and stops; SIGQUIT is a crash, after which it recovers at the next start."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(PATIENCE)

    def url(self, database="postgres"):
        return f"postgres://kaged@/{database}?host={self.base}"

    def database(self):
        """A new one, and its URL."""
        self.names += 1
        name = f"kaged{os.getpid()}_{self.names}"
        self.ask(f"CREATE DATABASE {name}")
        return self.url(name)

    def ask(self, sql, url=None):
        """What the statement gives: a list of rows of texts."""
        answer = subprocess.run([os.path.join(programs(), "psql"), "-X", "-q", "-A", "-t", "-F", "\t", "-v",
                                 "ON_ERROR_STOP=1", "-c", sql, url or self.url()],
                                check=True, capture_output=True, text=True)
        return [line.split("\t") for line in answer.stdout.splitlines()]


def need():
    """Skips the class or the test where there can be no server, and says why; with CI=true it fails."""
    why = missing()
    if why is None:
        return
    if os.environ.get("CI") == "true":
        raise AssertionError(why)
    raise unittest.SkipTest(why)


shared = []


def shared_server():
    """One for all tests of this program, which ends with it."""
    if not shared:
        shared.append(Server().__enter__())
        atexit.register(shared[0].__exit__)
    return shared[0]


def main():
    why = missing()
    if why is not None:
        print("missing: " + why, flush=True)
        return
    with Server() as server:
        print(server.base, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            sys.stdin.read()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    main()
