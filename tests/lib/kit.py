"""kaged plugin test, run on plugins' folders, several at the same time."""
import concurrent.futures
import json
import os
import shutil
import subprocess
import tempfile

from harness import BUILD, KAGED, PLUGINS, ROOT

WORKERS = 6  # most of the time is spent waiting for plugins that do not answer


def stage(name, folder):
    """Copies tests/plugins/NAME, or plugins/NAME, into the folder, with its program."""
    origin = os.path.join(PLUGINS, name)
    if not os.path.isdir(origin):
        origin = os.path.join(ROOT, "plugins", name)
    target = os.path.join(folder, name)
    shutil.copytree(origin, target)
    program = os.path.join(BUILD, "tests/plugins", name)
    if os.path.isfile(program):
        shutil.copy(program, target)
    return target


def kit(folder, *options, home="/nonexistent/kaged"):
    """(exit code, the report, stderr)"""
    done = subprocess.run([KAGED, "--home", home, "--json", "plugin", "test", *options, folder],
                          capture_output=True, text=True, timeout=280, stdin=subprocess.DEVNULL)
    return done.returncode, json.loads(done.stdout or "null"), done.stderr


def found(report):
    """The rules that were broken."""
    return {rule["rule"] for rule in report["rules"] if rule["status"] == "failed"}


def short_lines(home):
    """A home whose lines are short, since a shell reads a long one for seconds."""
    with open(os.path.join(home, "config.toml"), "w") as file:
        file.write("[limits]\nline_max_bytes = 262144\n")
    return home


def at_once(function, items):
    """{item: what the function made of it}"""
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        return dict(zip(items, pool.map(function, items)))


def temporary():
    return tempfile.TemporaryDirectory(prefix="kg-", dir="/tmp")
