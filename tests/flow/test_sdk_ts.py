"""The SDK for TypeScript: its own tests, and its example in a real cage, with the package that npm packs."""
import os
import shutil
import subprocess
import tempfile
import unittest

from harness import ROOT, FlowTest, main
from test_sdk import Example

BUILT = os.path.join(ROOT, "build/sdk-ts")


def run(*command, cwd=ROOT, **env):
    return subprocess.run(command, cwd=cwd, text=True, timeout=280, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                          env={**os.environ, **env})


def build():
    """Without a network there is no compiler, and nothing to test."""
    done = run(os.path.join(ROOT, "scripts/sdk-ts"))
    if done.returncode == 0:
        return
    if os.environ.get("CI") == "true" or "cannot install" not in done.stdout:
        raise AssertionError(done.stdout)
    raise unittest.SkipTest(done.stdout.splitlines()[-1])


class OwnTests(FlowTest):
    def test_sdk_passes_its_own_tests(self):
        build()
        done = run("npm", "test", "--silent", cwd=os.path.join(BUILT, "sdk/ts"))
        self.assertEqual(done.returncode, 0, done.stdout)


class PackedExample(Example, FlowTest):
    @classmethod
    def setUpClass(cls):
        build()
        super().setUpClass()

    @classmethod
    def fill(cls, folder):
        shutil.copytree(os.path.join(BUILT, "example"), folder)
        with tempfile.TemporaryDirectory() as cache:
            def npm(*arguments, cwd):
                done = run("npm", *arguments, "--no-audit", "--no-fund", "--offline", "--silent",
                           cwd=cwd, npm_config_cache=cache)
                assert done.returncode == 0, done.stdout
                return done.stdout.split()[-1:]

            packed, = npm("pack", "--pack-destination", cache, cwd=os.path.join(BUILT, "sdk/ts"))
            npm("install", "--no-package-lock", os.path.join(cache, packed), cwd=folder)

    def test_package_has_code_types_and_nothing_else(self):
        package = os.path.join(self.daemon.home, "plugins/greeter/node_modules/@kaged/plugin-sdk")
        self.assertEqual(sorted(os.listdir(package)),
                         ["LICENSE", "README.md", "dist", "package.json"])
        files = os.listdir(os.path.join(package, "dist"))
        self.assertNotIn("test", files)
        for file in ("index.js", "index.d.ts", "testing.js", "testing.d.ts"):
            self.assertIn(file, files)

    def test_in_its_cage_too_fd_1_is_stderr(self):
        pid = self.daemon.status("greeter")["pid"]
        opened = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in (0, 1, 2)]
        self.assertEqual(opened[0], "/dev/null")
        self.assertEqual(opened[1], opened[2])


if __name__ == "__main__":
    main()
