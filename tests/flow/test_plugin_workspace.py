"""plugins/workspace: its own tests, and in its cage with a project."""
import os
import subprocess

from harness import FlowTest, main
from staged import StagedDaemon, run_python_tests

NAME = "workspace"
PROJECT = """\
version: 1
name: shop
primary:
  plugins:
    hands: { package: "@kaged/workspace" }
"""


class OwnTests(FlowTest):
    def test_unit_tests_pass(self):
        code, output = run_python_tests(NAME)
        self.assertEqual(code, 0, output)


class InItsCage(FlowTest):
    @classmethod
    def setUpClass(cls):
        daemon = StagedDaemon(NAME)
        cls.root = daemon.write_project("shop", PROJECT)
        daemon.write_config(sandbox__root_writable=[cls.root])  # for tests that root runs
        subprocess.run(["git", "init", "-q", cls.root], check=True)
        with open(os.path.join(cls.root, "fruit.txt"), "w") as file:
            file.write("apple\npear\n")
        with open(os.path.join(daemon.base, "secret"), "w") as file:
            file.write("secret")
        cls.share(daemon)
        status, answer = cls.daemon.api("POST", "/projects", {"path": cls.root})
        assert status in (200, 201), answer
        status, answer = cls.daemon.api("POST", "/projects/shop/sessions", {})
        assert status == 201, answer
        cls.session = answer["id"]

    def use(self, tool, **arguments):
        status, answer = self.daemon.api(
            "POST", f"/sessions/{self.session}/tools/workspace.{tool}", arguments)
        self.assertEqual(status, 200, answer)
        return answer

    def test_an_agent_reads_and_edits_the_project(self):
        self.assertEqual(self.use("read", path="fruit.txt")["result"]["text"], "1\tapple\n2\tpear")
        self.use("edit", path="new/list.txt", old="", new="plum\n")
        with open(os.path.join(self.root, "new/list.txt")) as file:
            self.assertEqual(file.read(), "plum\n")

    def test_a_program_of_the_manifest_runs_in_the_project(self):
        done = self.use("run", program="git", arguments=["status", "--short"])["result"]
        self.assertEqual(done["exit_code"], 0, done)
        self.assertIn("fruit.txt", done["output"])

    def test_git_commits_though_its_hooks_and_config_are_guarded(self):
        self.use("edit", path="plum.txt", old="", new="plum\n")
        identity = ["-c", "user.name=hands", "-c", "user.email=hands@localhost"]
        for words in (["add", "plum.txt"], [*identity, "commit", "-m", "A plum"],
                      ["checkout", "-b", "other"], ["log", "--oneline"]):
            done = self.use("run", program="git", arguments=words)["result"]
            self.assertEqual(done["exit_code"], 0, done)
        self.assertIn("A plum", done["output"])
        self.assertNotEqual(
            self.use("run", program="git", arguments=["config", "core.fsmonitor", "x"])["result"]
            ["exit_code"], 0)

    def test_what_is_not_in_the_project_is_not_there(self):
        self.assertTrue(self.use("read", path="../secret")["is_error"])
        listed = self.use("run", program="git", arguments=["ls-files", "--others", ".."])["result"]
        self.assertNotIn("secret", listed["output"])


if __name__ == "__main__":
    main()
