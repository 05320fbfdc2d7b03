"""Projects, as the operator sees them: checked without a daemon; loaded, shown and unloaded by one."""
import json
import os
import shutil
import subprocess

from harness import PATIENCE, Daemon, FlowTest, main, wait_for

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


def text_of(path):
    with open(path) as file:
        return file.read()


class Begin(FlowTest):
    """init and add: a project without an editor."""

    def setUp(self):
        self.daemon = Daemon(["declares-all"])
        self.addCleanup(self.daemon.discard)
        self.root = self.daemon.project_root("My Music 2")
        os.makedirs(self.root)
        self.file = os.path.join(self.root, ".kaged", "project.yaml")

    def project(self, *arguments):
        return self.daemon.cli("project", *arguments)

    def add(self, *arguments):
        return self.project("add", *arguments, "--path", self.root)

    def test_a_project_is_begun_and_gets_a_plugin_without_a_daemon(self):
        code, out, err = self.project("init", self.root)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("project load", out)
        self.assertIn("name: my-music-2", text_of(self.file))
        code, out, err = self.add("declares-all")
        self.assertEqual((code, err), (0, ""), out)
        text = text_of(self.file)
        self.assertIn("# model: ALIAS", text)
        code, out, err = self.project("validate", self.root, "--installed")
        self.assertEqual(code, 0, out + err)
        self.assertIn("declares-all", out)

    def test_what_its_author_wrote_stays_and_a_subagent_gets_its_own(self):
        self.project("init", self.root)
        with open(self.file, "a") as file:
            file.write("  subagents:\n    # she reads\n    reader:   { prompt: 'Read.' } # quick\n")
        before = text_of(self.file)
        code, out, err = self.add("declares-all", "--agent", "reader")
        self.assertEqual(code, 0, err)
        after = text_of(self.file)
        for line in before.splitlines():
            self.assertIn(line.split(" }")[0], after)
        self.assertIn("# quick", after)
        shown = json.loads(self.project("validate", self.root, "--installed", "--json")[1])
        self.assertTrue(shown["valid"])

    def test_a_link_a_read_only_file_and_what_is_there_are_refused(self):
        self.assertEqual(self.add("declares-all")[0], 4)  # no file yet
        self.project("init", self.root)
        self.assertEqual(self.project("init", self.root)[0], 1)
        self.assertEqual(self.add("declares-all")[0], 0)
        text = text_of(self.file)
        self.assertEqual(self.add("declares-all")[0], 1)
        self.assertEqual(self.add("other", "--agent", "nobody")[0], 4)
        self.assertEqual(self.add("No Name")[0], 2)
        os.chmod(self.file, 0o444)
        code, _, err = self.add("other")
        self.assertEqual(code, 5)
        self.assertIn("read-only", err)
        os.chmod(self.file, 0o644)
        os.rename(self.file, self.file + ".real")
        os.symlink(self.file + ".real", self.file)
        code, _, err = self.add("other")
        self.assertEqual(code, 5)
        self.assertIn("link", err)
        self.assertEqual(text_of(self.file), text)
        shutil.rmtree(os.path.join(self.root, ".kaged"))
        os.symlink("/tmp", os.path.join(self.root, ".kaged"))
        self.assertEqual(self.project("init", self.root)[0], 5)
        self.assertFalse(os.path.exists("/tmp/project.yaml"))
        self.assertEqual(self.project("init", self.root + "/nowhere")[0], 4)

    def test_a_plugin_that_is_not_installed_is_declared_and_told(self):
        self.project("init", self.root)
        code, out, err = self.add("@you/elsewhere")
        self.assertEqual(code, 0)
        self.assertIn("not installed", err)
        self.assertIn("@you/elsewhere", text_of(self.file))

    def test_a_daemon_that_has_the_project_reads_it_again(self):
        with Daemon(["declares-all"]) as daemon:
            root = daemon.project_root("music")
            os.makedirs(root)
            self.assertEqual(daemon.cli("project", "init", root)[0], 0)
            self.assertEqual(daemon.cli("project", "load", root)[0], 0)
            code, out, err = daemon.cli("project", "add", "declares-all", "--path", root)
            self.assertEqual(code, 0, err)
            self.assertIn("the daemon has read it", out)
            self.assertIn("declares-all", json.dumps(daemon.api("GET", "/projects/music")[1]))


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
        self.daemon.write_local('[plugins.declares-all]\napi_token = "s3cret"\n'
                                'config = { budget = "low" }\n')
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


TWENTY_MISTAKES = """\
version: 1
name: Music
plugins: {}
owner: me
primary:
  model: 5
  prompt: [x]
  tools:
    memory.recall: maybe
    "Bad Tool": true
  plugins:
    memory:
      package: "No Package"
      version: latest!
      source: ftp://x
      hooks: [on_start]
      isolation: none
      config: text
      extra: 1
    nameless: {}
  compaction:
    threshold: 2
    strategy: forget
    delegate: { plugin: nobody }
    keep_recent: few
  subagents:
    Researcher: {}
"""


class Loaded(FlowTest):
    plugins = ["declares-all"]

    def setUp(self):
        self.root = os.path.join(os.path.realpath(self.daemon.base), "project")
        self.file = os.path.join(self.root, ".kaged/project.yaml")
        os.makedirs(os.path.dirname(self.file))
        os.makedirs(os.path.join(self.root, "prompts"))
        self.addCleanup(shutil.rmtree, self.root)
        self.addCleanup(self.daemon.api, "DELETE", "/projects/music?force=true")
        self.write("prompts/primary.md", "Be kind.\n")
        self.write(".kaged/project.yaml", GOOD)

    def write(self, name, text):
        with open(os.path.join(self.root, name), "w") as file:
            file.write(text)

    def load(self, path=None, **more):
        return self.daemon.api("POST", "/projects", {"path": path or self.root, **more})

    def project(self, *words, cwd=None):
        """(exit code, stdout, stderr) of kaged project WORDS in a folder"""
        process = self.daemon.popen("project", *words, cwd=cwd, text=True, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE)
        out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out, err

    def test_a_project_is_loaded_listed_shown_and_unloaded(self):
        status, loaded = self.load()
        self.assertEqual((status, loaded["id"], loaded["state"]), (200, "music", "active"), loaded)
        self.assertEqual((loaded["root"], loaded["file"]), (self.root, self.file))
        self.assertNotIn("changes", loaded)
        listed = self.daemon.api("GET", "/projects")[1]["projects"]
        self.assertEqual([(it["id"], it["agents"], it["plugins"], it["sessions"]) for it in listed],
                         [("music", 2, 1, 0)])
        shown = self.daemon.api("GET", "/projects/music")[1]
        self.assertEqual([agent["path"] for agent in shown["agents"]],
                         ["primary", "primary.subagents.reader"])
        self.assertEqual(self.daemon.api("DELETE", "/projects/music"),
                         (200, {"id": "music", "unloaded": True}))
        self.assertEqual(self.daemon.api("GET", "/projects")[1]["projects"], [])
        self.assertEqual(self.daemon.api("GET", "/projects/music")[0], 404)
        self.assertTrue(os.path.exists(self.file))

    def test_agents_have_views_of_their_own(self):
        self.load()
        agents = self.daemon.api("GET", "/projects/music/agents")[1]["agents"]
        status, primary = self.daemon.api("GET", "/projects/music/agents/primary?tools=openai")
        self.assertEqual(status, 200)
        tools = primary.pop("tools_json")
        self.assertEqual(primary, agents[0])
        self.assertEqual([tool["function"]["name"] for tool in tools],
                         ["declares-all__recall", "agent__reader"])
        tools = self.daemon.api("GET", "/projects/music/agents/primary?tools=anthropic")[1]
        self.assertIn("input_schema", tools["tools_json"][0])
        status, answer = self.daemon.api("GET", "/projects/music/agents/primry")
        self.assertEqual((status, answer["error"]["hint"]), (404, "did you mean primary?"))
        self.assertEqual(self.daemon.api("GET", "/projects/music/agents/primary?tools=x")[0], 400)

    def test_twenty_mistakes_are_told_at_once(self):
        self.write(".kaged/project.yaml", TWENTY_MISTAKES)
        status, answer = self.load()
        problems = answer["error"]["problems"]
        self.assertEqual((status, answer["error"]["code"], len(problems)),
                         (422, "invalid_project", 20), answer)
        self.assertEqual(len({(it["line"], it["column"], it["code"]) for it in problems}), 20)
        self.assertEqual(self.daemon.api("GET", "/projects")[1]["projects"], [])
        _, checked, _ = self.project("validate", self.root)
        self.assertEqual(self.project("load", self.root), (6, "", checked))

    def test_a_reload_says_what_changed(self):
        self.load()
        self.write(".kaged/project.yaml",
                   GOOD.replace("turns: 7", "turns: 8").replace("    reader:", "    writer:"))
        code, out, err = self.project("reload", "music")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("~ primary all: config turns 7 -> 8\n", out)
        self.assertIn("- primary.subagents.reader: agent\n", out)
        self.assertIn("+ primary.subagents.writer: agent\n", out)
        self.assertIn("nothing changed\n", self.project("reload", "music")[1])

    def test_a_broken_file_leaves_the_project_as_it_was(self):
        self.load()
        self.write(".kaged/project.yaml", GOOD.replace("model:", "modle:"))
        code, out, err = self.project("reload", "music")
        self.assertEqual((code, out), (6, ""))
        self.assertTrue(err.startswith(f"{self.file}:4:3: error: "), err)
        self.assertTrue(err.endswith(f"{self.file}: 1 error\n"), err)
        shown = self.daemon.api("GET", "/projects/music")[1]
        self.assertEqual((shown["agents"][0]["model"], shown["reload_problem"]["code"]),
                         ("smart", "invalid_project"))

    def test_the_path_is_that_of_who_asks(self):
        code, out, err = self.project("load", cwd=self.root)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("project music is active: 2 agents, 1 plugin\n", out)
        code, out, _ = self.project("load", "../project/.kaged", "--json", cwd=self.root)
        self.assertEqual((code, json.loads(out)["changes"]), (0, []))
        self.assertEqual(self.project("load", cwd="/")[0], 4)
        status, answer = self.load("project")
        self.assertEqual((status, answer["error"]["code"]), (400, "usage"))

    def test_people_can_read_it(self):
        self.assertIn("no project is loaded", self.project("list")[2])
        self.load()
        code, out, _ = self.project("list")
        self.assertEqual(code, 0)
        self.assertRegex(out, rf"music +active +2 +1 +0 +{self.root}")
        code, out, _ = self.project("show", "music")
        self.assertEqual(code, 0)
        self.assertIn("prompts/primary.md (9 bytes)", out)
        self.assertIn("turns = 7   [the primary]", out)
        self.assertIn("declares-all.forget (off)", out)
        code, out, _ = self.project("show", "music", "--agent", "primary.subagents.reader")
        self.assertEqual((code, out.splitlines()[0]), (0, "primary.subagents.reader"))
        self.assertNotIn("primary.md", out)
        self.assertEqual(json.loads(self.project("show", "music", "--json")[1])["id"], "music")
        self.assertEqual(self.project("show", "musik")[0], 4)
        self.assertEqual(self.project("unload", "music")[0], 0)
        self.assertEqual(self.project("unload", "music")[0], 4)

    def test_a_secret_is_not_shown(self):
        with open(os.path.join(self.daemon.home, "local.toml")) as file:
            before = file.read()
        self.addCleanup(self.rewrite_local, before)
        self.rewrite_local(before.replace("[plugins.declares-all]",
                                          '[plugins.declares-all]\napi_token = "s3cret"'))
        self.load()
        shown = json.dumps(self.daemon.api("GET", "/projects/music"))
        self.assertIn('{"key": "api_token", "required": false, "set": true}', shown)
        self.assertNotIn("s3cret", shown + self.project("show", "music")[1])

    def rewrite_local(self, text):
        self.daemon.write_local(text)
        self.assertEqual(self.daemon.api("POST", "/reload")[0], 200)

    def test_a_pending_project_says_what_to_do_next(self):
        self.write(".kaged/project.yaml", GOOD.replace("package: declares-all", "package: good-c")
                   .replace("    reader:\n      plugins: { all: { config: { budget: high } } }\n",
                            "    reader: {}\n").replace("config: { turns: 7 }", "config: {}"))
        code, out, _ = self.project("load", self.root)
        self.assertEqual(code, 0)
        self.assertIn("project music is pending", out)
        consent = self.daemon.api("GET", "/projects/music")[1]["consents"][0]
        self.assertIn(f"project consent approve {consent['id']}", out)
        self.daemon.api("POST", f"/consents/{consent['id']}/decline")
        wait_for(lambda: self.daemon.api("GET", "/projects/music")[1]["consents"][0]["state"] ==
                 "declined", "the no")

    def test_what_was_declined_can_be_asked_for_again(self):
        """The way on that was shown, to approve it, was refused without a word on what would do."""
        self.write(".kaged/project.yaml", GOOD.replace("package: declares-all", "package: good-c")
                   .replace("    reader:\n      plugins: { all: { config: { budget: high } } }\n",
                            "    reader: {}\n").replace("config: { turns: 7 }", "config: {}"))
        self.project("load", self.root)
        consent = self.daemon.api("GET", "/projects/music")[1]["consents"][0]["id"]
        self.assertEqual(self.project("consent", "decline", consent)[0], 0)
        self.assertRegex(self.project("show", "music")[1],
                         "good-c is declined; to be asked again: kaged .*project reload music\n")
        self.assertRegex(self.project("consent", "approve", consent, "--yes")[2],
                         "hint: to be asked again: kaged .*project reload music\n")
        self.assertIn(f"project consent approve {consent}", self.project("reload", "music")[1])

    def test_projects_and_agents_are_completed(self):
        self.load()

        def typed(*words):
            lines = "\n".join(["--home", self.daemon.home, *words, ""])
            return self.daemon.cli("completion", "words", input=lines)[1]

        self.assertEqual(typed("project", "show", ""), "music\tproject\n")
        self.assertEqual(typed("project", "show", "music", "--agent", ""),
                         "primary\tagent\nprimary.subagents.reader\tagent\n")
        self.assertEqual(typed("plugin", "knobs", "get", "declares-all", ""),
                         "budget\tknob\nturns\tknob\n")
        self.assertEqual(typed("plugin", "knobs", "declares-all", "--project", "music", "--agent",
                               ""), typed("project", "show", "music", "--agent", ""))


if __name__ == "__main__":
    main()
