"""plugins/presets: its own tests, and in its cage with a catalog that changes."""
import json
import os

from harness import FlowTest, main, wait_for
from staged import StagedDaemon
from test_plugin_notes import run_own_tests

NAME = "presets"
PROJECT = """\
version: 1
name: home
primary:
  plugins:
    shell: { package: presets }
"""


class OwnTests(FlowTest):
    def test_unit_tests_pass(self):
        code, output = run_own_tests(NAME, "tests/run")
        self.assertEqual(code, 0, output)


class Presets(StagedDaemon):
    def __init__(self):
        super().__init__(NAME, {"sandbox.root_writable": ["/tmp"]})
        self.write_local("[plugins.presets.config]\ncheck_seconds = 1\n")
        data = os.path.join(self.home, "plugin-data", NAME)
        self.catalog, self.installed = os.path.join(data, "presets"), os.path.join(data, "installed")
        self.add("prompt", "A prompt with the branch of git")

    def add(self, name, description, folder=None):
        os.makedirs(folder or self.catalog, exist_ok=True)
        with open(os.path.join(folder or self.catalog, name + ".sh"), "w") as file:
            file.write(f"# name: {name}\n# description: {description}\n# tags: test\nPS1='{name} '\n")

    def files(self):
        return sorted(os.listdir(self.installed))


class InItsCage(FlowTest):
    @classmethod
    def setUpClass(cls):
        cls.share(Presets())
        status, _ = cls.daemon.api("POST", "/projects",
                                   {"path": cls.daemon.write_project("home", PROJECT)})
        assert status == 200
        status, session = cls.daemon.api("POST", "/projects/home/sessions", {})
        assert status == 201, session
        cls.session = session["id"]

    def tool(self, tool, arguments):
        """(exit code, the result or the words of the error) of kaged session tool"""
        code, out, err = self.daemon.cli("session", "tool", self.session, f"{NAME}.{tool}",
                                         json.dumps(arguments))
        return code, json.loads(out) if code == 0 else err

    def test_an_agent_finds_installs_and_removes(self):
        code, found = self.tool("preset_search", {"query": "BRANCH git"})
        self.assertEqual((code, found["results"][0]["name"]), (0, "prompt"), found)
        code, answer = self.tool("preset_install", {"name": "prompt"})
        self.assertEqual((code, answer["installed"], self.daemon.files()), (0, True, ["prompt.sh"]))
        with open(os.path.join(self.daemon.installed, "prompt.sh")) as file:
            self.assertIn("PS1='prompt '", file.read())
        code, listed = self.tool("preset_list", {"filter": "prompt"})
        self.assertEqual([preset["installed"] for preset in listed["presets"]], [True])
        self.assertEqual(self.tool("preset_uninstall", {"name": "prompt"})[0], 0)
        self.assertEqual(self.daemon.files(), [])

    def test_bad_input_is_refused_by_the_schema_and_by_the_plugin(self):
        for name in ("../presets/prompt", "-rf", "a\nb", "grün", "x" * 10240, 7):
            code, words = self.tool("preset_install", {"name": name})
            self.assertEqual(code, 1, words)
            self.assertIn("the params: /name must", words)
            error = self.daemon.try_call(NAME, "preset.install", {"name": name})
            self.assert_error(error, 422, "invalid_params")
            self.assertIn("name must be 1 to 64 of a-z", error[1]["message"])
        error = self.daemon.try_call(NAME, "preset.uninstall", {"name": "nothing"})
        self.assert_error(error, 422, "plugin_error")
        self.assertIn("nothing was not installed from here", error[1]["message"])

    def test_links_lead_nowhere(self):
        secret = os.path.join(self.daemon.base, "secret.sh")
        self.daemon.add("secret", "of another folder", self.daemon.base)
        os.symlink(secret, os.path.join(self.daemon.catalog, "secret.sh"))
        listed = self.daemon.call(NAME, "presets.list")
        self.assertIn({"file": "secret.sh", "reason": "it is a link"}, listed["skipped"])
        os.symlink(self.daemon.base, os.path.join(self.daemon.catalog, "folder.sh"))
        error = self.daemon.try_call(NAME, "preset.install", {"name": "folder"})
        self.assert_error(error, 422, "plugin_error")
        self.assertIn("the catalog has no preset folder: it is a link", error[1]["message"])

    def test_changes_of_the_folder_are_told_once_they_end(self):
        before = len(self.daemon.audit("plugin.notification", NAME))
        for name in ("one", "two", "three"):
            self.daemon.add(name, f"the {name}")
        told = wait_for(lambda: self.daemon.audit("plugin.notification", NAME)[before:],
                        "a notification")
        self.assertEqual([event["notification_type"] for event in told], ["catalog.updated"])
        listed = self.daemon.call(NAME, "presets.list")["presets"]
        self.assertLessEqual({"one", "two", "three"}, {preset["name"] for preset in listed})

    def test_what_was_installed_is_known_after_a_restart(self):
        self.daemon.add("kept", "stays")
        self.daemon.call(NAME, "preset.install", {"name": "kept"})
        self.daemon.act(NAME, "restart")
        self.daemon.wait_restarted(NAME, self.daemon.status(NAME)["starts"] - 1)
        listed = self.daemon.call(NAME, "presets.list", {"filter": "kept"})
        self.assertTrue(listed["presets"][0]["installed"])
        self.daemon.call(NAME, "preset.uninstall", {"name": "kept"})
        self.assertNotIn("kept.sh", self.daemon.files())
        self.assertEqual(self.daemon.audit("plugin.killed", NAME), [])


if __name__ == "__main__":
    main()
