"""An ordinary user on this machine: a HOME of his own, no KAGED_HOME, kaged in its default places."""
import os
import shutil
import subprocess
import tempfile

from harness import KAGED, PATIENCE, check_sanitizers, sanitizer_options

UID = 1234 if os.geteuid() == 0 else os.geteuid()  # who that is, where we are root


class Login:
    """A context manager. run() runs a command as that user; at the end his daemon is stopped."""

    def __init__(self, **environment):
        self.base = tempfile.mkdtemp(prefix="kg-", dir="/tmp")
        self.home, self.runtime = self.path("home"), self.path("runtime")
        for folder in (self.home, self.runtime):
            os.mkdir(folder, 0o700)
        self.environment = {
            "HOME": self.home, "XDG_RUNTIME_DIR": self.runtime, "LANG": "C.UTF-8", "NO_COLOR": "1",
            "PATH": f"{os.path.dirname(KAGED)}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            **sanitizer_options(self.base), **environment}

    def __enter__(self):
        os.chmod(self.base, 0o755)
        self.own()
        return self

    def __exit__(self, kind, *_):
        try:
            self.kaged("stop")
            if kind is None:
                check_sanitizers(self.base)
        finally:
            shutil.rmtree(self.base, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.base, name)

    def own(self):
        """What was put into his folders is his."""
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", f"{UID}:{UID}", self.base], check=True)

    def identity(self):
        return {"user": UID, "group": UID, "extra_groups": []} if os.geteuid() == 0 else {}

    def run(self, *command, cwd=None, timeout=3 * PATIENCE, **options):
        return subprocess.run(command, env=self.environment, cwd=cwd or self.home, text=True,
                              timeout=timeout, capture_output=True, stdin=subprocess.DEVNULL,
                              **self.identity(), **options)

    def kaged(self, *arguments):
        """(exit code, stdout, stderr)"""
        done = self.run(KAGED, *arguments)
        return done.returncode, done.stdout, done.stderr
