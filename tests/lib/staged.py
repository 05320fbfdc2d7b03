"""Plugins of plugins/ as one can install them: with their SDK, by scripts/plugins."""
import os
import re
import shutil
import subprocess
import sys

from harness import ROOT, Daemon


def stage(name):
    """The folder of the plugin with its SDK, and without its tests."""
    done = subprocess.run([os.path.join(ROOT, "scripts/plugins"), name], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return os.path.join(ROOT, "build/share/kaged/plugins", name)


def run_python_tests(name):
    """(exit code, output) of the plugin's own unit tests."""
    done = subprocess.run([sys.executable, "-W", "error::ResourceWarning", "-m", "unittest",
                           "discover", "-s", os.path.join(ROOT, "plugins", name, "tests")],
                          env={**os.environ, "PYTHONPATH": stage(name)}, text=True, timeout=240,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


class StagedDaemon(Daemon):
    """A daemon with one such plugin in its store; `changes` are made to the manifest's text."""

    def __init__(self, name, config=None, changes=()):
        super().__init__(config=config, enabled=[name])
        folder = shutil.copytree(stage(name), os.path.join(self.home, "plugins", name))
        manifest = os.path.join(folder, "kaged-plugin.yaml")
        with open(manifest) as file:
            text = file.read()
        for old, new in changes:
            assert re.search(old, text), f"{manifest} has no {old}"
            text = re.sub(old, new, text)
        with open(manifest, "w") as file:
            file.write(text)
