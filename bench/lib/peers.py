"""What kaged is measured against, of bench/peers: where each is, and why one is not there."""
import os
import platform
import shutil
import subprocess
import sys

from lib.contender import Failed
from lib.kaged import ROOT

SOURCE = os.path.join(ROOT, "bench/peers")
BUILT = os.path.join(ROOT, "build/bench")  # by bench/peers/Makefile
PACKAGES = os.path.join(ROOT, "build/npm/bench/peers")  # by scripts/npm


def built(name):
    path = os.path.join(BUILT, name)
    if not os.path.exists(path):
        raise Failed(f"{name} was not built: see make -C bench/peers")
    return path


def staged(script):
    """A script of bench/peers beside the packages of npm, where it finds them."""
    if not os.path.isdir(os.path.join(PACKAGES, "node_modules")):
        raise Failed("the packages of npm are not here: scripts/npm bench/peers")
    for name in (script, "contender.js"):
        shutil.copy(os.path.join(SOURCE, name), PACKAGES)
    return os.path.join(PACKAGES, script)


def bun():
    machine = {"x86_64": "x64", "aarch64": "aarch64"}.get(platform.machine(), "unknown")
    path = os.path.join(PACKAGES, f"node_modules/@oven/bun-linux-{machine}/bin/bun")
    if not os.path.exists(path):
        raise Failed(f"no Bun for {platform.machine()} among the packages of npm")
    return path


def node(least=18):
    if shutil.which("node") is None:
        raise Failed("node is not here")
    version = subprocess.run(["node", "--version"], check=True, text=True, capture_output=True).stdout
    if int(version.lstrip("v").split(".")[0]) < least:
        raise Failed(f"it needs node {least}, here is {version.strip()}")
    return "node"


def on_node(script):
    return [node(), staged(script)]


def on_bun(script):
    return [bun(), staged(script)]


def on_python(script):
    return [sys.executable, os.path.join(SOURCE, script)]
