"""kaged plugin new: what it writes passes its own tests, is caged, called and turned, as it is."""
import os
import shutil
import subprocess
import tempfile
import time
import unittest

from harness import KAGED, ROOT, Daemon, FlowTest, main

LANGUAGES = ["c", "python", "shell", "ts"]
OWN_TESTS = {"c": ["make", "test"], "python": ["python3", "-m", "unittest"],
             "shell": ["tests/run"], "ts": ["npm", "test"]}

PROJECT = """\
version: 1
name: tea
primary:
  prompt: Be kind.
  plugins:
    greeter: { package: greeter }
"""


def run(*command, cwd=ROOT, **env):
    return subprocess.run(command, cwd=cwd, text=True, timeout=280, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                          env={**os.environ, **env})


def share(language):
    """Puts the language's part of the share tree in place, or skips: TypeScript needs npm."""
    done = run(os.path.join(ROOT, "scripts/share"), language)
    if done.returncode == 0:
        return
    if os.environ.get("CI") == "true" or "npm: " not in done.stdout:
        raise AssertionError(done.stdout)
    raise unittest.SkipTest(done.stdout.splitlines()[-1])


def new(name, language, folder):
    done = run(KAGED, "plugin", "new", name, "--lang", language, "--dir", folder)
    assert done.returncode == 0, done.stdout
    return done.stdout


class Made:
    """The plugin of one language, in a real cage."""

    language = None

    @classmethod
    def setUpClass(cls):
        share(cls.language)
        cls.base = tempfile.mkdtemp(prefix="kg-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.base)
        cls.folder = os.path.join(cls.base, "greeter")
        begin = time.monotonic()
        cls.make()
        print(f"# {cls.language}: written in {time.monotonic() - begin:.1f} s")
        cls.share(Daemon(enabled=[]))
        cls.daemon.write_local('[plugins.greeter.config]\nword = "Welcome"\n')
        for words in (["install", "--yes", cls.folder], ["enable", "greeter"]):
            code, _, error = cls.daemon.cli("plugin", *words)
            assert code == 0, error
        cls.daemon.wait_state("greeter", "idle")

    @classmethod
    def make(cls):
        new("greeter", cls.language, cls.folder)

    def test_it_answers_with_its_setting(self):
        for name in ("Ada", "Zoë \"Z\""):
            self.assertEqual(self.daemon.call("greeter", "greeting.say", {"name": name}),
                             {"text": f"Welcome, {name}!"})

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


class New(Made):
    def test_its_own_tests_pass(self):
        begin = time.monotonic()
        done = run(*OWN_TESTS[self.language], cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout)
        print(f"# {self.language}: its own tests took {time.monotonic() - begin:.1f} s")

    def test_it_keeps_every_rule(self):
        begin = time.monotonic()
        done = run(KAGED, "plugin", "test", "--timeout", "60", self.folder)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(" 0 failed, 0 warned, ", done.stdout)
        print(f"# {self.language}: kaged plugin test took {time.monotonic() - begin:.1f} s")

    def test_nothing_is_left_of_the_templates_name(self):
        self.assertEqual(run("grep", "-rl", "my-plugin", self.folder).stdout, "")

    def test_a_session_hears_of_its_tool_and_calls_it(self):
        root = self.daemon.write_project("tea", PROJECT)
        self.assertEqual(self.daemon.api("POST", "/projects", {"path": root})[0], 200)
        session = self.daemon.api("POST", "/projects/tea/sessions", {})[1]["id"]
        self.assertEqual(
            self.daemon.cli("session", "tool", session, "greeter.greet", '{"name":"Ada"}'),
            (0, '{"text":"Welcome, Ada!"}\n', ""))
        code, context, error = self.daemon.cli("session", "context", session)
        self.assertEqual(code, 0, error)
        self.assertIn("The tool greeter.greet greets people.", context)


class NewC(New, FlowTest):
    language = "c"


class NewPython(New, FlowTest):
    language = "python"


class NewShell(New, FlowTest):
    language = "shell"


class NewTypeScript(New, FlowTest):
    language = "ts"

    def test_in_its_cage_fd_1_is_stderr(self):
        self.daemon.call("greeter", "greeting.say", {"name": "Ada"})
        pid = self.daemon.status("greeter")["pid"]
        opened = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in (0, 1, 2)]
        self.assertEqual(opened[0], "/dev/null")
        self.assertEqual(opened[1], opened[2])


class Refused(FlowTest):
    def setUp(self):
        share("python")
        self.base = tempfile.mkdtemp(prefix="kg-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.base)

    def new(self, *words, **env):
        done = run(KAGED, "plugin", "new", *words, cwd=self.base, **env)
        return done.returncode, done.stdout

    def test_name_that_no_manifest_may_have(self):
        for name in ("Weather", "9lives", "a_b", "../up", "x" * 65):
            code, words = self.new("--lang", "python", "--", name)
            self.assertEqual(code, 6, name)
            self.assertIn("cannot be the name of a plugin", words)
        self.assertEqual(os.listdir(self.base), [])

    def test_folder_with_something_in_it_is_left_as_it_is(self):
        os.mkdir(os.path.join(self.base, "mine"))
        kept = os.path.join(self.base, "mine/kept")
        open(kept, "w").close()
        code, words = self.new("mine", "--lang", "python")
        self.assertEqual(code, 1, words)
        self.assertIn("the folder mine is not empty", words)
        os.remove(kept)
        self.assertEqual(self.new("mine", "--lang", "python")[0], 0)

    def test_unknown_language_names_the_nearest(self):
        for given, meant in (("pyton", "python"), ("bash", "shell"), ("typescript", "ts")):
            code, words = self.new("a", "--lang", given)
            self.assertEqual(code, 2)
            self.assertIn(f"did you mean --lang {meant}?", words)
        self.assertIn("ts, python, shell or c", self.new("a", "--lang", "cobol")[1])
        self.assertIn("ts, python, shell or c", self.new("a")[1])

    def test_without_the_share_tree_it_says_what_to_do(self):
        code, words = self.new("a", "--lang", "python", KAGED_SHARE="/nowhere")
        self.assertEqual(code, 4)
        self.assertIn("make build", words)
        os.makedirs(os.path.join(self.base, "share/sdk/c"))
        code, words = self.new("a", "--lang", "ts", KAGED_SHARE=os.path.join(self.base, "share"))
        self.assertEqual(code, 4)
        self.assertIn("scripts/share ts", words)

    def test_without_a_compiler_the_plugin_is_written_all_the_same(self):
        share("c")
        code, words = self.new("a", "--lang", "c", PATH="/nowhere")
        self.assertEqual(code, 1)
        self.assertIn("written, but not compiled: make is not installed", words)
        self.assertTrue(os.path.exists(os.path.join(self.base, "a/plugin.c")))


if __name__ == "__main__":
    main()
