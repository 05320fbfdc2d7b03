"""kaged project validate: a project's file is checked without a daemon."""
import json
import os
import shutil

from harness import Daemon, FlowTest, main

GOOD = """\
version: 1
name: music
primary:
  model: smart
  prompt: { file: prompts/primary.md }
  tools: { declares-all.forget: false }
  plugins:
    all:
      package: declares-all
      version: ^1.0
      isolation: project
      config: { turns: 7 }
  subagents:
    reader:
      plugins: { all: { config: { budget: high } } }
"""


class Validate(FlowTest):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(["declares-all"])  # never started

    @classmethod
    def tearDownClass(cls):
        cls.daemon.check_sanitizers()
        cls.daemon.discard()

    def setUp(self):
        self.root = os.path.join(os.path.realpath(self.daemon.base), "project")
        os.makedirs(os.path.join(self.root, ".kaged"))
        os.makedirs(os.path.join(self.root, "prompts"))
        self.addCleanup(shutil.rmtree, self.root)
        self.write("prompts/primary.md", "Be kind.\n")

    def write(self, name, text):
        with open(os.path.join(self.root, name), "w") as file:
            file.write(text)

    def validate(self, text, *options, path=""):
        self.write(".kaged/project.yaml", text)
        return self.daemon.cli("project", "validate", os.path.join(self.root, path), *options)

    def test_a_good_project_is_valid_by_root_and_by_file(self):
        for path in ("", ".kaged", ".kaged/project.yaml"):
            code, out, err = self.validate(GOOD, path=path)
            self.assertEqual((code, err), (0, ""), out)
            self.assertIn("music is valid", out)

    def test_all_that_is_wrong_is_listed_with_its_place(self):
        code, out, err = self.validate(GOOD.replace("model:", "modle:") + "plugins: {}\n")
        self.assertEqual((code, err), (6, ""))
        file = os.path.join(self.root, ".kaged/project.yaml")
        self.assertIn(f"{file}:4:3: error: ", out)
        self.assertIn('did you mean "model"?', out)
        self.assertIn("primary.plugins", out)
        self.assertTrue(out.endswith(f"{file}: 2 errors\n"), out)

    def test_json_lists_the_same(self):
        code, out, _ = self.validate(GOOD.replace("music", "My Music"), "--json")
        answer = json.loads(out)
        self.assertEqual((code, answer["valid"]), (6, False))
        self.assertEqual([(problem["code"], problem["line"], problem["column"])
                          for problem in answer["problems"]], [("name_invalid", 2, 7)])

    def test_a_prompt_outside_the_project_is_an_error(self):
        os.symlink("/etc/hostname", os.path.join(self.root, "prompts/link.md"))
        code, out, _ = self.validate(GOOD.replace("primary.md", "link.md"))
        self.assertEqual(code, 6)
        self.assertIn("leads out of the project", out)

    def test_no_project_is_not_found(self):
        code, out, err = self.daemon.cli("project", "validate", self.root)
        self.assertEqual((code, out), (4, ""))
        self.assertIn(".kaged/project.yaml", err)

    def test_installed_shows_what_each_agent_gets(self):
        with open(os.path.join(self.daemon.home, "local.toml"), "w") as file:
            file.write('[plugins.declares-all]\napi_token = "s3cret"\nconfig = { budget = "low" }\n')
        code, out, err = self.validate(GOOD, "--installed")
        self.assertEqual((code, err), (0, ""), out)
        self.assertIn('budget = "low"   [local.toml]', out)
        self.assertIn('budget = "high"   [this agent]', out)
        self.assertIn("turns = 7   [the primary]", out)
        self.assertIn("declares-all.forget (off)", out)
        self.assertIn("api_token: set in local.toml", out)
        self.assertNotIn("s3cret", out)
        code, out, _ = self.validate(GOOD, "--json", "--installed")
        agents = json.loads(out)["project"]["agents"]
        self.assertEqual([agent["path"] for agent in agents],
                         ["primary", "primary.subagents.reader"])
        self.assertEqual(agents[1]["plugins"][0]["state"], "ready")

    def test_installed_checks_the_configuration(self):
        code, out, _ = self.validate(GOOD.replace("turns: 7", "turns: 70"), "--installed")
        self.assertEqual(code, 6)
        self.assertIn(":12:24: error: the config of \"all\", turns: ", out)
        self.assertEqual(self.validate(GOOD.replace("turns: 7", "turns: 70"))[0], 0)

    def test_a_plugin_that_is_not_installed_is_no_error(self):
        code, out, _ = self.validate(GOOD.replace("package: declares-all", 'package: "@x/gone"'),
                                     "--installed")
        self.assertEqual(code, 0)
        self.assertIn("@x/gone is not installed", out)


if __name__ == "__main__":
    main()
