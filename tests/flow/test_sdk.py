"""The SDKs for Python and the shell: their own tests. test_plugin_new.py has plugins in real cages."""
import os
import subprocess
import sys

from harness import ROOT, FlowTest, main

SDK = os.path.join(ROOT, "sdk")


def run(*command, cwd=ROOT):
    return subprocess.run(command, cwd=cwd, text=True, timeout=120, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)


class OwnTests(FlowTest):
    def test_python_sdk(self):
        done = run(sys.executable, "-W", "error::ResourceWarning", "-m", "unittest", "discover",
                   "-s", "tests", cwd=os.path.join(SDK, "python"))
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_shell_sdk(self):
        done = run(os.path.join(SDK, "shell/tests/run"))
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    main()
