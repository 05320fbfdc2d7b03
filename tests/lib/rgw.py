"""Ceph's radosgw, from the tree that scripts/s3-server makes: a server of S3 that others wrote, for make test-long."""
import fcntl
import json
import os
import shutil
import socket
import subprocess
import tempfile
import unittest

from harness import PATIENCE, ROOT, wait_for

TREE = os.path.join(ROOT, "build/s3-server")
CONFIG = """[global]
no mon config = true
auth client required = none
rgw backend store = dbstore
rgw config store = dbstore
dbstore db dir = /data
dbstore config uri = file:/data/config.db
rgw frontends = beast endpoint=127.0.0.1:{port}
run dir = /data
log file = /data/log
admin socket =
"""


def tree():
    """Where it is; made at first use. Skips, or fails in CI, if it cannot be had."""
    os.makedirs(os.path.dirname(TREE), exist_ok=True)
    with open(TREE + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(os.path.join(TREE, ".kaged-s3")):
            return TREE
        made = subprocess.run([os.path.join(ROOT, "scripts/s3-server"), TREE], stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1800)
    if made.returncode == 0:
        return TREE
    reason = "there is no radosgw: scripts/s3-server failed: " + made.stdout[-400:]
    if os.environ.get("CI") == "true":
        raise AssertionError(reason)
    raise unittest.SkipTest(reason)


class Rgw:
    """One that runs, with a user and his keys."""

    def __init__(self):
        self.tree, self.base = tree(), tempfile.mkdtemp(prefix="kg-rgw-", dir="/tmp")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        with open(os.path.join(self.base, "ceph.conf"), "w") as file:
            file.write(CONFIG.format(port=self.port))
        self.log = open(os.path.join(self.base, "said"), "wb")
        self.process = None

    def command(self, program, *words):
        return ["bwrap", "--die-with-parent", "--ro-bind", os.path.join(self.tree, "usr"), "/usr", "--symlink", "usr/lib",
                "/lib", "--symlink", "usr/lib64", "/lib64", "--symlink", "usr/bin", "/bin", "--proc", "/proc", "--dev",
                "/dev", "--tmpfs", "/tmp", "--bind", self.base, "/data", "--setenv", "HOME", "/data", "--chdir", "/data",
                f"/usr/bin/{program}", "-c", "/data/ceph.conf", "--no-mon-config", *words]

    def __enter__(self):
        try:
            made = subprocess.run(self.command("radosgw-admin", "user", "create", "--uid=kaged", "--display-name=kaged"),
                                  stdin=subprocess.DEVNULL, text=True, capture_output=True, timeout=PATIENCE * 4)
            assert made.returncode == 0, made.stderr[-2000:]
            keys = json.loads(made.stdout[made.stdout.index("{"):])["keys"][0]
            self.access, self.secret = keys["access_key"], keys["secret_key"]
            self.process = subprocess.Popen(self.command("radosgw", "-f", "-n", "client.rgw"), stdin=subprocess.DEVNULL,
                                            stdout=self.log, stderr=self.log)
            wait_for(self.answers, "an answer of radosgw")
        except BaseException:
            self.__exit__()
            raise
        return self

    def answers(self):
        assert self.process.poll() is None, "radosgw ended"
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        except OSError:
            return False

    def __exit__(self, *_):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.base, ignore_errors=True)
