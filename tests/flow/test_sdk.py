"""The SDKs for Python and the shell: their own tests, and their examples in real cages."""
import json
import os
import shutil
import subprocess
import sys

from harness import ROOT, Daemon, FlowTest, main

SDK = os.path.join(ROOT, "sdk")

# What of an SDK a plugin has to have in its own folder.
VENDORED = {"python": "kaged_sdk", "shell": "kaged.sh"}


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


class Example:
    """The example of one SDK, greeter, as a stranger would install it."""

    language = None

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(enabled=["greeter"])
        cls.fill(os.path.join(cls.daemon.home, "plugins/greeter"))
        with open(os.path.join(cls.daemon.home, "local.toml"), "w") as file:
            file.write('[plugins.greeter.config]\nword = "Welcome"\n')
        cls.daemon.__enter__()

    @classmethod
    def fill(cls, folder):
        """The plugin, with what it needs of the SDK."""
        part = VENDORED[cls.language]
        source = os.path.join(SDK, cls.language)
        shutil.copytree(os.path.join(source, "example"), folder)
        copy = shutil.copytree if os.path.isdir(os.path.join(source, part)) else shutil.copy
        copy(os.path.join(source, part), os.path.join(folder, part))

    @classmethod
    def tearDownClass(cls):
        cls.daemon.__exit__(None, None, None)

    def greeted(self):
        code, rows, words = self.daemon.cli("--json", "plugin", "storage", "greeter",
                                            "SELECT name, times FROM greeted ORDER BY name")
        self.assertEqual(code, 0, words)
        return json.loads(rows)["rows"]

    def test_it_answers_with_its_config_and_stores(self):
        for name in ("Anna", "Zoë \"Z\"", "Anna"):
            self.assertEqual(self.daemon.call("greeter", "greeting.say", {"name": name}),
                             {"text": f"Welcome, {name}!"})
        self.assertEqual(self.greeted()[:1] + self.greeted()[-1:],
                         [{"name": "Anna", "times": 2}, {"name": "Zoë \"Z\"", "times": 1}])

    def test_it_refuses_wrong_params(self):
        status, error = self.daemon.try_call("greeter", "greeting.say", {"name": 5})
        self.assertEqual((status, error["code"]), (422, "invalid_params"))
        self.assertIn("name must be a string", error["message"])

    def test_it_leaves_cleanly_and_comes_back(self):
        self.daemon.act("greeter", "restart")
        self.daemon.wait_restarted("greeter", 1)
        self.assertEqual(len(self.daemon.wait_audit("plugin.stopped", "greeter")), 1)
        self.assertEqual(self.daemon.audit("plugin.killed", "greeter"), [])
        self.assertEqual(self.daemon.call("greeter", "greeting.say", {"name": "Bo"}),
                         {"text": "Welcome, Bo!"})


class PythonExample(Example, FlowTest):
    language = "python"


class ShellExample(Example, FlowTest):
    language = "shell"

if __name__ == "__main__":
    main()
