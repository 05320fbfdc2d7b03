"""The SDK for C, as a stranger uses it: installed, found by pkg-config, in a plugin in a real cage."""
import glob
import os
import shutil
import subprocess
import tempfile
import unittest

from harness import BUILD, ROOT, FlowTest, main
from test_sdk import Example

SOURCE = os.path.join(ROOT, "sdk/c/example/plugin.c")
STRICT = ["-std=c17", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def run(*command, **env):
    done = subprocess.run(command, text=True, capture_output=True, env={**os.environ, **env})
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@unittest.skipUnless(os.access(os.path.join(BUILD, "meson-logs"), os.W_OK),
                     "meson notes what it installs in the build folder, which is another user's")
class InstalledExample(Example, FlowTest):
    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="kg-", dir="/tmp")
        run("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--tags", "devel",
            "--destdir", cls.root)
        found, = glob.glob(f"{cls.root}/**/kaged-plugin.pc", recursive=True)
        cls.flags = run("pkg-config", "--cflags", "--libs", "kaged-plugin",
                        PKG_CONFIG_PATH=os.path.dirname(found),
                        PKG_CONFIG_SYSROOT_DIR=cls.root).split()
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.root)

    @classmethod
    def fill(cls, folder):
        os.makedirs(folder)
        run("cc", *STRICT, "-o", os.path.join(folder, "greeter"), SOURCE, *cls.flags)
        shutil.copy(os.path.join(os.path.dirname(SOURCE), "kaged-plugin.yaml"), folder)

    def test_example_has_less_than_100_lines(self):
        with open(SOURCE) as file:
            self.assertLess(len(file.readlines()), 100)

    def test_library_takes_no_name_but_its_own(self):
        library, = glob.glob(f"{self.root}/**/libkaged-plugin.a", recursive=True)
        names = [line.split()[-1] for line in run("nm", "-g", "--defined-only", library).splitlines()
                 if " T " in line or " D " in line or " B " in line or " R " in line]
        self.assertIn("kaged_run", names)
        self.assertEqual([name for name in names if not name.startswith("kaged_")], [])


if __name__ == "__main__":
    main()
