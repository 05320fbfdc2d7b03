"""Disks that are full, slow or read-only: what is said about them, and that nothing is lost."""
import contextlib
import ctypes
import ctypes.util
import os
import subprocess
import threading
import unittest

from harness import PATIENCE, Daemon, FlowTest, at_once, main, wait_for

LIBC = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
CLONE_NEWNS = 0x00020000
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000


def leave_mounts():
    """What is mounted from now on is seen by this program and its children alone."""
    if LIBC.unshare(CLONE_NEWNS) != 0:
        raise unittest.SkipTest("no mount namespace: " + os.strerror(ctypes.get_errno()))
    mount("--make-rprivate", "/")


def mount(*words):
    subprocess.run(["mount", *words], check=True)


def ptrace(request, thread):
    LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    LIBC.ptrace.restype = ctypes.c_long
    if LIBC.ptrace(request, thread, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")


class StoppedWriter:
    """The thread that writes the audit log stands still, as if the disk took for ever."""

    def __init__(self, daemon):
        tasks = f"/proc/{daemon.pid}/task"
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/comm") as comm:
                if comm.read() == "audit\n":
                    self.thread = int(task)

    def waits(self):
        """It sleeps, and that is not for the disk, so that it holds no lock."""
        with open(f"/proc/{self.thread}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "S"

    def __enter__(self):
        wait_for(self.stop_while_it_waits, "the writer to wait")
        return self

    def stop_while_it_waits(self):
        if not self.waits():
            return False
        ptrace(PTRACE_SEIZE, self.thread)
        ptrace(PTRACE_INTERRUPT, self.thread)
        os.waitpid(self.thread, WALL)
        return True

    def __exit__(self, *_):
        ptrace(PTRACE_DETACH, self.thread)


class SlowDisk(FlowTest):
    plugins = ["good-c"]
    config = {"audit.queue_bytes": 65536}

    def test_a_log_that_falls_behind_slows_callers_and_refuses_none(self):
        answers, finished = [], threading.Event()

        def call_on():
            answers.extend(at_once([self.call_often] * 8))
            finished.set()

        with StoppedWriter(self.daemon):
            thread = threading.Thread(target=call_on)
            thread.start()
            wait_for(lambda: "slower" in (self.daemon.api("GET", "/status")[1]["audit_problem"] or ""),
                     "a log that is behind")
            self.assertFalse(finished.is_set())
        thread.join(PATIENCE)
        self.assertTrue(finished.is_set())
        self.assertEqual({status for each in answers for status in each}, {200})
        self.assertEqual(self.daemon.cli("audit", "verify")[0], 0)

    def call_often(self):
        return [self.daemon.try_call("good-c", "good.echo")[0] for _ in range(100)]


@unittest.skipUnless(os.getuid() == 0, "only root can make a small disk")
class FullDisk(FlowTest):
    @classmethod
    def setUpClass(cls):
        leave_mounts()

    @contextlib.contextmanager
    def disk(self, folder, size):
        os.makedirs(folder, exist_ok=True)
        mount("-t", "tmpfs", "-o", f"size={size},mode=700", "none", folder)
        try:
            yield
        finally:
            subprocess.run(["umount", "-l", folder], check=True)

    def fill(self, folder):
        with open(os.path.join(folder, "ballast"), "wb", buffering=0) as ballast:
            with contextlib.suppress(OSError):
                while True:
                    ballast.write(b"x" * 4096)

    def test_a_full_disk_is_not_told_as_the_quota_of_a_plugin(self):
        daemon = Daemon(["stores"])
        daemon.declare("stores", "kaged:storage:write")
        folder = os.path.join(daemon.home, "state/storage")
        with self.disk(folder, "512k"), daemon:
            def ask(sql):
                return daemon.call("stores", "store.ask", {
                    "request": {"method": "exec", "params": {"sql": sql}}})[0]
            ask("CREATE TABLE t (a)")
            error = wait_for(lambda: (lambda answer: answer if "code" in answer else None)(
                ask("INSERT INTO t VALUES (randomblob(50000))")), "a full disk")
            self.assertIn("the disk is full", error["message"])
            self.assertNotIn("size_bytes", error["message"])

    def test_a_start_on_a_full_disk_says_so(self):
        daemon = Daemon([])
        state = os.path.join(daemon.home, "state")
        with self.disk(state, "128k"):
            self.fill(state)
            code, _, err = daemon.cli("start")
            daemon.discard()
        self.assertNotEqual(code, 0)
        self.assertIn("full", err)
        self.assertNotIn("I/O error", err)

    def test_the_audit_log_is_verified_on_a_read_only_disk(self):
        daemon = Daemon(["good-c"])
        with daemon:
            daemon.call("good-c", "good.echo")
            daemon.kill()
            mount("--bind", daemon.home, daemon.home)
            mount("-o", "remount,bind,ro", daemon.home)
            try:
                code, out, err = daemon.cli("audit", "verify")
            finally:
                subprocess.run(["umount", "-l", daemon.home], check=True)
            self.assertEqual((code, err), (0, ""), out)


if __name__ == "__main__":
    main()
