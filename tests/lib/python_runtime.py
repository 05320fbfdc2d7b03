"""A Python that packages of the catalog run under: the machine's own if it has pydantic 2, else the tree
that scripts/python-runtime makes, kept in build/."""
import fcntl
import glob
import os
import subprocess
import unittest

from harness import ROOT

TREE = os.path.join(ROOT, "build/python-runtime")
SDK = os.path.join(ROOT, "sdk/cadence")


def _system_serves():
    """What a cage sees of the machine is /usr, so it is the Python there that counts."""
    tried = subprocess.run(["/usr/bin/python3", "-I", "-c", "import packaging; from pydantic import field_validator"],
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    return tried.returncode == 0


def root():
    """The folder of the tree; None: the machine's own Python will do. Skips, or fails in CI, without both."""
    if os.path.exists("/usr/bin/python3") and _system_serves():
        return None
    os.makedirs(os.path.dirname(TREE), exist_ok=True)
    with open(TREE + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(os.path.join(TREE, ".kaged-python")):
            return TREE
        made = subprocess.run([os.path.join(ROOT, "scripts/python-runtime"), TREE], stdin=subprocess.DEVNULL,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900)
    if made.returncode != 0:
        reason = "there is no Python with pydantic 2 here, and scripts/python-runtime failed: " + made.stdout[-400:]
        if os.environ.get("CI") == "true":
            raise AssertionError(reason)
        raise unittest.SkipTest(reason)
    return TREE


def command(tree):
    """(words, environment) that start that Python without a cage; it brings its own library of C."""
    if tree is None:
        return ["/usr/bin/python3"], dict(os.environ)
    python = glob.glob(os.path.join(tree, "usr/bin/python3.[0-9]*"))[0]
    libraries = glob.glob(os.path.join(tree, "usr/lib/*-linux-gnu"))[0]
    loader = glob.glob(os.path.join(libraries, "ld-linux*.so.*"))[0]
    return ([loader, "--library-path", libraries, python],
            {**os.environ, "PYTHONHOME": os.path.join(tree, "usr")})
