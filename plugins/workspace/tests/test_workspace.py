"""Tests of the plugin in a host in memory; run in the staged folder, which has kaged_sdk."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from kaged_sdk import PluginError  # noqa: E402
from kaged_sdk.testing import Host  # noqa: E402

from plugin import plugin  # noqa: E402


class WorkspaceTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = os.path.join(folder.name, "project")
        os.makedirs(os.path.join(self.root, "src"))
        os.environ["KAGED_PROJECT_ROOT"] = self.root
        self.put("src/a.py", "def one():\n    return 1\n")
        self.put("../secret", "secret")

    def put(self, path, text):
        with open(os.path.join(self.root, path), "w") as file:
            file.write(text)

    def get(self, path):
        with open(os.path.join(self.root, path)) as file:
            return file.read()

    def use(self, tool, **params):
        with Host(plugin, projects=["p"]) as host:
            return host.tool(tool, params)

    def refused(self, tool, **params):
        with self.assertRaises(PluginError) as caught:
            self.use(tool, **params)
        return str(caught.exception)

    def test_lines_come_with_their_numbers_and_in_parts(self):
        self.assertEqual(self.use("read", path="src/a.py", lines=1),
                         {"path": "src/a.py", "lines": 2, "text": "1\tdef one():", "next_line": 2})
        self.assertEqual(self.use("read", path="src/a.py", from_line=2)["text"], "2\t    return 1")

    def test_nothing_outside_of_the_project_is_reached(self):
        os.symlink("../secret", os.path.join(self.root, "link"))
        for path in ("../secret", "link", "/etc/passwd", "src/../../secret"):
            self.assertIn("not below the project", self.refused("read", path=path))
        self.assertIn("not below", self.refused("edit", path="../new", old="", new="x"))
        self.assertIn("not below", self.refused("run", program="git", folder=".."))

    def test_files_that_are_not_text_are_not_shown(self):
        with open(os.path.join(self.root, "b"), "wb") as file:
            file.write(b"\xff\xfe")
        self.assertIn("is not text", self.refused("read", path="b"))
        self.assertIn("is not a file", self.refused("read", path="src"))

    def test_folders_are_listed_to_a_depth(self):
        os.makedirs(os.path.join(self.root, ".git"))
        self.assertEqual(self.use("list")["entries"], ["src/", "src/a.py 24"])
        self.assertEqual(self.use("list", depth=1)["entries"], ["src/"])

    def test_lines_are_found_by_text_and_by_pattern(self):
        self.assertEqual(self.use("search", pattern="return")["found"], ["src/a.py:2: return 1"])
        self.assertEqual(self.use("search", pattern=r"^def \w+", regex=True, glob="*.py")["found"],
                         ["src/a.py:1: def one():"])
        self.assertEqual(self.use("search", pattern="one", glob="*.c")["found"], [])
        self.assertIn("regular expression", self.refused("search", pattern="(", regex=True))

    def test_an_edit_replaces_what_stands_there_once(self):
        self.assertEqual(self.use("edit", path="src/a.py", old="return 1", new="return 2"),
                         {"path": "src/a.py", "line": 2})
        self.assertEqual(self.get("src/a.py"), "def one():\n    return 2\n")
        self.assertIn("0 times", self.refused("edit", path="src/a.py", old="return 1", new=""))
        self.assertIn("3 times", self.refused("edit", path="src/a.py", old="e", new=""))

    def test_a_new_file_is_written_and_an_old_one_is_not_overwritten(self):
        self.assertTrue(self.use("edit", path="docs/x.md", old="", new="hi\n")["created"])
        self.assertEqual(self.get("docs/x.md"), "hi\n")
        self.assertIn("is there already", self.refused("edit", path="docs/x.md", old="", new="no"))

    def test_an_edit_keeps_the_mode_of_a_file(self):
        os.chmod(os.path.join(self.root, "src/a.py"), 0o755)
        self.use("edit", path="src/a.py", old="one", new="two")
        self.assertEqual(os.stat(os.path.join(self.root, "src/a.py")).st_mode & 0o777, 0o755)

    def test_only_allowed_programs_are_run(self):
        self.assertIn("not among the programs", self.refused("run", program="sh"))
        done = self.use("run", program="git", arguments=["--version"])
        self.assertEqual(done["exit_code"], 0)
        self.assertIn("git version", done["output"])


if __name__ == "__main__":
    unittest.main()
