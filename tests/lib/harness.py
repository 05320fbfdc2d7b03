"""A daemon in a fresh home, and the ways to speak with it, for the tests in tests/flow.

A Daemon is a context manager: it writes config.toml, copies plugins, starts kaged, waits for its
readiness, and at the end stops it and checks that it left cleanly: exit code 0, no process of a
cage left, no report of a sanitizer. Tests are unittest's; main() prints TAP for tests/run.
"""
import contextlib
import http.client
import json
import os
import re
import select
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import unittest
import urllib.parse

import postgres

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("KAGED_BUILD", os.path.join(ROOT, "build/sanitized")))
KAGED = os.path.join(BUILD, "src/kaged")
PLUGINS = os.path.join(ROOT, "tests/plugins")
ON_POSTGRES = os.environ.get("KAGED_TEST_STATE") == "postgres"  # a state that daemons share, see kaged-cluster(7)
PATIENCE = 60  # seconds that a condition gets on a busy machine; when all is well, none needs them

# Short enough that tests are quick, long enough for a loaded machine.
TEST_CONFIG = {
    "limits.initialize_timeout_ms": 60_000,
    "limits.hook_timeout_ms": 60_000,
    "limits.ping_timeout_ms": 60_000,
    "limits.restart_delay_ms": 20,
    "limits.restart_delay_max_ms": 200,
    "limits.restart_failures": 100,
    "limits.shutdown_timeout_ms": 3000,
    "limits.term_timeout_ms": 1000,
    "audit.seal_interval_ms": 50,
    "daemon.bind": "",  # tests of TCP take port 0
}


def suite_skip(suite):
    """Why a test without its public suite is skipped, and what to do about it."""
    with open(os.path.join(ROOT, "tests/suites.txt")) as file:
        place = next(line.split(" ", 1)[1].strip() for line in file if line.startswith(suite + " "))
    return (f"it needs the public suite {suite} ({place}): put it into a folder as {suite}, and run "
            "KAGED_SUITES=FOLDER make test")


def has_sanitizer():
    with open(KAGED, "rb") as program:
        return b"__asan_init" in program.read()


def wait_for(condition, what, timeout=PATIENCE):
    """Asks until the condition gives something true, and returns that."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout} s for: {what}")
        time.sleep(0.01)


def at_once(functions):
    """Runs the functions at the same time; their results, in order."""
    results = [None] * len(functions)

    def run(index):
        try:
            results[index] = functions[index]()
        except Exception as error:  # the caller looks at it
            results[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


class Listener:
    """Calls self.serve(connection) in a thread for each; left threads do not keep the program."""

    def __init__(self, listener):
        self.listener, self.threads = listener, []
        self.spawn(self.accept)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(PATIENCE)

    def spawn(self, function, *arguments):
        self.threads.append(threading.Thread(target=function, args=arguments, daemon=True))
        self.threads[-1].start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.spawn(self.serve, connection)


# -- processes, as /proc shows them ---------------------------------------------------------------


def process_start(pid):
    """When it started, which tells it from a later process with its number; None: it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def process_name(pid):
    try:
        with open(f"/proc/{pid}/comm") as comm:
            return comm.read().strip()
    except OSError:
        return "?"


def processes():
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def descendants(pid):
    """{pid: start} of all that the process started, and what those started."""
    parents = {}
    for other in processes():
        with contextlib.suppress(OSError, IndexError, ValueError):
            with open(f"/proc/{other}/stat") as stat:
                parents.setdefault(int(stat.read().rpartition(")")[2].split()[1]), []).append(other)
    found, todo = {}, [pid]
    while todo:
        for child in parents.get(todo.pop(), []):
            found[child] = process_start(child)
            todo.append(child)
    return {child: start for child, start in found.items() if start is not None}


def memory_kb(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))


# -- HTTP over the unix socket --------------------------------------------------------------------


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)  # with a timeout it would not wait for its turn
        self.sock.settimeout(self.timeout)


# -- the daemon -----------------------------------------------------------------------------------


def toml_value(value):
    return json.dumps(value) if not isinstance(value, bool) else str(value).lower()


def write_config(path, config):
    sections = {}
    for key, value in config.items():
        section, _, name = key.partition(".")
        sections.setdefault(section, []).append(f"{name} = {toml_value(value)}\n")
    with open(path, "w") as file:
        for section, lines in sections.items():
            file.write(f"[{section}]\n" + "".join(lines))


def install(home, plugin):
    """Copies tests/plugins/NAME, or plugins/NAME, into the home; "NAME as OTHER" renames it."""
    source, _, name = plugin.partition(" as ")
    name = name or source
    folder = os.path.join(home, "plugins", name)
    origin = os.path.join(PLUGINS, source)
    if not os.path.isdir(origin):
        origin = os.path.join(ROOT, "plugins", source)
    shutil.copytree(origin, folder)
    program = os.path.join(BUILD, "tests/plugins", source)
    if os.path.isfile(program):
        shutil.copy(program, folder)
    manifest = os.path.join(folder, "kaged-plugin.yaml")
    with open(manifest) as file:
        text = file.read()
    with open(manifest, "w") as file:
        file.write(re.sub(r"^name: .*", f"name: {name}", text))
    return name


def approve(home, *names):
    """The operator's yes to folders in the store as they are now; without names, to all."""
    names = names or sorted(os.listdir(os.path.join(home, "plugins")))
    subprocess.run([os.path.join(BUILD, "tests/approve"), home, *names], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def sanitizer_options(base):
    """The environment in which what sanitizers find goes to files in that folder."""
    report = os.path.join(base, "sanitizer")
    asan = os.environ.get("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=1")
    ubsan = os.environ.get("UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1")
    # Freed memory that is kept for checks would look like growth.
    return {"ASAN_OPTIONS": f"{asan}:log_path={report}:quarantine_size_mb=8",
            "UBSAN_OPTIONS": f"{ubsan}:log_path={report}"}


def check_sanitizers(base):
    for name in sorted(os.listdir(base)):
        if name.startswith("sanitizer"):
            with open(os.path.join(base, name), errors="replace") as report:
                lines = [line for line in report if not line.isspace() and
                         "Unable to get registers from thread" not in line]
            if lines:  # a thread that ended while leaks were looked for is no finding
                raise AssertionError("a sanitizer found something:\n" + "".join(lines))


class Daemon:
    """plugins: folders of tests/plugins, enabled unless `enabled` names others.

    config: dotted keys, over those of TEST_CONFIG. approved: all plugins are before each start.
    """

    def __init__(self, plugins=(), config=None, enabled=None, arguments=(), wait_running=True,
                 approved=True):
        self.base = tempfile.mkdtemp(prefix="kg-", dir="/tmp")
        self.home = os.path.join(self.base, "h")
        os.makedirs(os.path.join(self.home, "plugins"), mode=0o700)
        self.names = [install(self.home, plugin) for plugin in plugins]
        self.enabled = list(self.names if enabled is None else enabled)
        self.config = {**TEST_CONFIG, **(config or {}), "plugins.enabled": self.enabled}
        self.arguments = list(arguments)
        self.wait_running = wait_running
        self.approved = approved
        self.process = None
        self.seen = {}
        self.must_init = ON_POSTGRES
        if ON_POSTGRES:
            self.config["cluster.database"] = postgres.shared_server().database()
        self.write_config()

    # life

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.discard()
            raise
        return self

    def __exit__(self, kind, error, trace):
        try:
            self.stop()
        except AssertionError:
            if kind is None:
                raise
        finally:
            if kind is not None:
                print("\n".join("# daemon: " + line for line in self.log().splitlines()[-40:]))
            self.discard()

    def write_config(self, **changes):
        """Keyword names use two underscores for the dot: limits__call_timeout_ms."""
        self.config.update({key.replace("__", "."): value for key, value in changes.items()})
        write_config(os.path.join(self.home, "config.toml"), self.config)

    def write_local(self, text):
        with open(os.path.join(self.home, "local.toml"), "w") as file:
            file.write(text)

    def declare(self, plugin, *capabilities):
        path = os.path.join(self.home, "plugins", plugin, "kaged-plugin.yaml")
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(re.sub(r"capabilities: .*", "capabilities: " + json.dumps(capabilities),
                              text))

    def project_root(self, folder):
        return os.path.join(os.path.realpath(self.base), folder)

    def write_project(self, folder, text):
        """The file of a project in a folder beside the home; its root."""
        root = self.project_root(folder)
        os.makedirs(os.path.join(root, ".kaged"), exist_ok=True)
        path = os.path.join(root, ".kaged/project.yaml")
        with open(path + ".new", "w") as file:
            file.write(text)
        os.rename(path + ".new", path)  # as editors do
        return root

    def approve(self, *names):
        """For what a test changes while the daemon runs."""
        approve(self.home, *names)

    def environment(self):
        return {**{key: value for key, value in os.environ.items() if key != "KAGED_HOME"},
                **sanitizer_options(self.base)}

    def popen(self, *arguments, **options):
        return subprocess.Popen([KAGED, "--home", self.home, *arguments], env=self.environment(),
                                stdin=subprocess.DEVNULL, **options)

    def init_state(self):
        """Before the first start, where the state is to be in a database."""
        if self.must_init:
            self.must_init = False
            code, _, said = self.cli("cluster", "init")
            assert code == 0, said

    def start(self):
        """Starts the daemon and waits until it listens and its plugins are up, or down again."""
        if self.approved:
            self.approve()
        self.init_state()
        ready, theirs = os.pipe()
        with open(os.path.join(self.base, "log"), "ab") as log:
            self.process = self.popen("start", "--foreground", "--ready-fd", str(theirs),
                                      *self.arguments, stdout=log, stderr=log, pass_fds=[theirs])
        os.close(theirs)
        try:
            if not select.select([ready], [], [], PATIENCE * 3)[0]:
                raise AssertionError("the daemon was not ready in time\n" + self.log())
            if os.read(ready, 64) != b"ready\n":
                code = self.process.wait(PATIENCE)
                raise AssertionError(f"the daemon left with {code}, never ready\n{self.log()}")
        finally:
            os.close(ready)
        self.pid = self.process.pid
        if self.wait_running:
            for name in self.enabled:
                self.wait_status(name, lambda s: s["state"] != "spawning" and
                                 "being compared" not in s["state_meaning"] and
                                 (s["pid"] or s["state"] != "running"), "an end of its start")

    def log(self):
        with open(os.path.join(self.base, "log"), errors="replace") as log:
            return log.read()

    def remember(self):
        """Keeps all processes of the cages in mind, to see later that they are gone."""
        self.seen.update(descendants(self.process.pid))

    def left_over(self):
        """{pid: name} of what was remembered and still runs."""
        return {pid: process_name(pid) for pid, start in self.seen.items()
                if start and process_start(pid) == start}

    def stop(self, timeout=PATIENCE):
        """SIGTERM, then all that must be true of a clean end."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.remember()
            pidfd = os.pidfd_open(self.process.pid)
            try:
                signal.pidfd_send_signal(pidfd, signal.SIGTERM)
                if not select.select([pidfd], [], [], timeout)[0]:
                    self.process.kill()
                    raise AssertionError(f"the daemon did not stop in time\n{self.log()}")
            finally:
                os.close(pidfd)
        self.check_end()

    def check_end(self):
        process, self.process = self.process, None
        code = process.wait()
        self.check_sanitizers()
        assert code == 0, f"the daemon left with {code}\n{self.log()}"
        assert not self.left_over(), f"processes of cages are left: {self.left_over()}"

    def check_sanitizers(self):
        check_sanitizers(self.base)

    def kill(self):
        """As if the machine had pulled the plug on the daemon."""
        self.remember()
        self.process.kill()
        self.process.wait()
        self.process = None
        wait_for(lambda: not self.left_over(), "the end of all cages")

    def kill_if_running(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def discard(self):
        self.kill_if_running()
        shutil.rmtree(self.base, ignore_errors=True)

    # ways to speak with it

    @property
    def socket(self):
        return os.path.join(self.home, "run/kaged.sock")

    def figure(self, name):
        """A figure of /metrics, with its labels, if it has some; None: there is none of it."""
        _, text = self.raw("GET", "/metrics")
        return next((float(line.rsplit(" ", 1)[1]) for line in text.decode().splitlines()
                     if line.startswith(name + " ")), None)

    def raw(self, method, path, body=None, headers=None, timeout=PATIENCE):
        """(status, body as bytes)"""
        connection = UnixConnection(self.socket, timeout)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def api(self, method, path, body=None, headers=None, timeout=PATIENCE):
        """(status, JSON)"""
        text = None if body is None else json.dumps(body)
        status, answer = self.raw(method, "/api/v1" + path, text, headers, timeout)
        return status, json.loads(answer)

    def try_call(self, plugin, method, params=None, headers=None, timeout=PATIENCE):
        """(status, the result or the error object)"""
        status, answer = self.api("POST", f"/plugins/{plugin}/call/{method}", params or {}, headers,
                                  timeout)
        return status, answer if status == 200 else answer["error"]

    def call(self, plugin, method, params=None):
        status, answer = self.try_call(plugin, method, params)
        assert status == 200, f"{plugin} {method}: {status} {answer}"
        return answer

    def act(self, plugin, action):
        status, answer = self.api("POST", f"/plugins/{plugin}/{action}")
        assert status == 200, f"{action} {plugin}: {status} {answer}"
        return answer

    def status(self, plugin):
        status, answer = self.api("GET", f"/plugins/{plugin}")
        assert status == 200, f"status of {plugin}: {status} {answer}"
        return answer

    def audit(self, event=None, plugin=None, **more):
        given = {"event": event, "plugin": plugin, "limit": 10_000, **more}
        query = {key: value for key, value in given.items() if value is not None}
        status, answer = self.api("GET", "/audit?" + urllib.parse.urlencode(query))
        assert status == 200, f"audit: {status} {answer}"
        return answer["events"]

    def edit_manifest(self, plugin, old, new):
        """Of a fixture that was not approved yet."""
        path = os.path.join(self.home, "plugins", plugin, "kaged-plugin.yaml")
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(text.replace(old, new))

    def cli(self, *arguments, input=None, timeout=PATIENCE):
        """(exit code, stdout, stderr) of kaged --home HOME ARGUMENTS"""
        if arguments[:1] == ("start",):
            self.init_state()
        done = subprocess.run([KAGED, "--home", self.home, *arguments], input=input, text=True,
                              errors="surrogateescape", env=self.environment(), timeout=timeout,
                              capture_output=True)
        return done.returncode, done.stdout, done.stderr

    def rows(self, sql):
        """What its state gives for a query, wherever that is."""
        if ON_POSTGRES:
            return postgres.shared_server().ask("SET search_path = kaged; " + sql, self.config["cluster.database"])
        with contextlib.closing(sqlite3.connect(os.path.join(self.home, "state/kaged.db"))) as database:
            return database.execute(sql).fetchall()

    # waiting

    def wait_status(self, plugin, condition, what):
        return wait_for(lambda: (lambda s: condition(s) and s)(self.status(plugin)),
                        f"{plugin}: {what}")

    def wait_state(self, plugin, state):
        return self.wait_status(plugin, lambda status: status["state"] == state, f"state {state}")

    def wait_exit(self, plugin, cause):
        """The report of the plugin's last exit, once it is one of that cause."""
        return self.wait_status(
            plugin, lambda status: status["last_exit"] and status["last_exit"]["cause"] == cause,
            f"an exit with the cause {cause}")["last_exit"]

    def wait_restarted(self, plugin, starts):
        """Runs again, after more starts than the given number."""
        return self.wait_status(
            plugin, lambda status: status["starts"] > starts and status["state"] == "running" and
            status["pid"], f"a start after its {starts}.")

    def wait_audit(self, event, plugin=None):
        return wait_for(lambda: self.audit(event, plugin), f"audit event {event} of {plugin}")


class FlowTest(unittest.TestCase):
    """A class with `plugins` and `config` shares one daemon among its tests, as self.daemon."""

    plugins = None
    config = None
    longMessage = True
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        if cls.plugins is not None:
            cls.share(Daemon(cls.plugins, cls.config))

    @classmethod
    def share(cls, daemon):
        """Starts the daemon of all tests; it is stopped after them, or if the set-up fails."""
        cls.daemon = cls.enterClassContext(daemon)

    def assert_error(self, answer, status, code):
        self.assertEqual((answer[0], answer[1].get("code")), (status, code), answer)


# -- TAP ------------------------------------------------------------------------------------------


def own_traceback(error):
    """The traceback of a failure, without the frames of unittest and other libraries."""
    kind, value, trace = error
    frames = [frame for frame in traceback.extract_tb(trace) if frame.filename.startswith(ROOT)]
    text = traceback.format_list(frames) + traceback.format_exception_only(kind, value)
    return "".join(text).splitlines()


class TapResult(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.count = 0

    def line(self, ok, test, note="", detail=""):
        self.count += 1
        name = getattr(test, "_testMethodName", None) or str(test)
        owner = type(test).__name__ + "." if hasattr(test, "_testMethodName") else ""
        print(f"{'ok' if ok else 'not ok'} {self.count} - {owner}{name}{note}")
        for text in detail.splitlines():
            print("# " + text)
        sys.stdout.flush()

    def failed(self, test, error):
        lines = own_traceback(error)
        daemon = getattr(test, "daemon", None)
        if daemon is not None:
            with contextlib.suppress(OSError):
                log = [line[:300] for line in daemon.log().splitlines()[-25:]]
                lines += ["the daemon's log ends:"] + log
        self.line(False, test, detail="\n".join(lines))

    def addSuccess(self, test):
        self.line(True, test)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.failed(test, error)

    def addError(self, test, error):
        super().addError(test, error)
        self.failed(test, error)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.line(True, test, f" # SKIP {reason}")

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.failed(subtest, error)


def main():
    """Runs the tests of the calling file; arguments choose among them by substring."""
    if ON_POSTGRES and postgres.missing() is not None:
        fails = os.environ.get("CI") == "true"
        print(f"{'not ok' if fails else 'ok'} 1 - on PostgreSQL{' #' if fails else ' # SKIP'} {postgres.missing()}\n1..1")
        sys.exit(fails)
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    chosen = unittest.TestSuite()
    for group in suite:
        for test in group:
            if not sys.argv[1:] or any(word in test.id() for word in sys.argv[1:]):
                chosen.addTest(test)
    result = TapResult()
    chosen.run(result)
    print(f"1..{result.count}")
    sys.exit(0 if result.wasSuccessful() else 1)
