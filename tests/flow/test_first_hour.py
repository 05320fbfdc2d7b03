"""What somebody runs into who has had kaged for an hour: default places, hints, plain words."""
import os
import shutil
import socket
import stat
import subprocess
import tempfile

from harness import BUILD, KAGED, PATIENCE, PLUGINS, ROOT, Daemon, FlowTest, main, suite_skip, wait_for
from login import Login
from terminal import Terminal


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, mode)


def listen_at_the_default():
    try:
        return socket.create_server(("127.0.0.1", 7777))
    except OSError:
        return None


class DefaultPlaces(FlowTest):
    def check(self, answer):
        self.assertEqual(answer[0], 0, answer)
        return answer[1]

    def test_the_first_install_of_a_user_makes_all_folders(self):
        with Login() as login:
            self.check(login.kaged("plugin", "install", "--yes", os.path.join(PLUGINS, "good-bash")))
            for folder in (".config/kaged", ".local/state/kaged", ".local/share/kaged/plugin-data"):
                self.assertEqual(mode_of(os.path.join(login.home, folder)), 0o700, folder)
            self.assertEqual(mode_of(os.path.join(login.home, ".config/kaged/local.toml")), 0o600)
            self.check(login.kaged("start"))
            self.check(login.kaged("plugin", "enable", "good-bash"))
            self.assertIn("running", self.check(login.kaged("plugin", "status", "good-bash")))

    def test_the_first_start_of_a_user_lets_the_daemon_install(self):
        with Login() as login:
            self.check(login.kaged("start"))
            self.check(login.kaged("plugin", "install", "--yes", os.path.join(PLUGINS, "good-bash")))

    def test_the_first_setting_of_a_user_makes_the_folder_of_config_toml(self):
        with Login() as login:
            self.check(login.kaged("config", "set", "logging.level", "debug"))
            self.assertEqual(mode_of(os.path.join(login.home, ".config/kaged")), 0o700)
            self.assertEqual(self.check(login.kaged("config", "get", "logging.level")), "debug\n")

    def test_the_first_setting_in_local_toml_makes_its_folder(self):
        with Login() as login:
            key = 'plugins."echo".config.loud'
            self.check(login.kaged("config", "set", key, "true"))
            self.assertEqual(self.check(login.kaged("config", "get", key)), "true\n")


class Run(FlowTest):
    """The scripts behind make run and make test."""

    def setUp(self):
        self.base = tempfile.mkdtemp(prefix="kg-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.base)
        self.home = os.path.join(self.base, "h")

    def run_once(self):
        done = subprocess.run(
            [os.path.join(ROOT, "scripts/run")], capture_output=True, text=True, timeout=120,
            stdin=subprocess.DEVNULL, env={**os.environ, "KAGED_RUN_PROGRAM": KAGED,
                                           "KAGED_RUN_HOME": self.home, "KAGED_RUN_ONCE": "1"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn('{"text": "hi"}', done.stdout)

    def test_a_second_run_keeps_what_is_in_its_home(self):
        self.run_once()
        kaged = [KAGED, "--home", self.home]
        subprocess.run([*kaged, "plugin", "install", "--yes", os.path.join(PLUGINS, "good-bash")],
                       check=True, capture_output=True)
        subprocess.run([*kaged, "config", "set", "logging.level", "debug"], check=True,
                       capture_output=True)
        with open(os.path.join(self.home, "local.toml"), "a") as file:
            file.write('\n# mine\n[providers.local]\nkind = "openai"\n'
                       'base_url = "http://localhost:11434/v1"\n')
        os.mkfifo(os.path.join(self.home, "ready"))  # of a run that was killed
        self.run_once()
        with open(os.path.join(self.home, "local.toml")) as file:
            local = file.read()
        self.assertIn("# mine\n[providers.local]", local)
        self.assertIn("good-bash", local)
        level = subprocess.run([*kaged, "config", "get", "logging.level"], check=True, text=True,
                               capture_output=True).stdout
        self.assertEqual(level, "debug\n")

    def test_a_first_conversation_needs_no_model(self):
        self.run_once()
        self.addCleanup(shutil.rmtree, self.home + "-demo", True)
        kaged = [KAGED, "--home", self.home]
        ask = lambda *words: subprocess.run([*kaged, *words], check=True, text=True,  # noqa: E731
                                            capture_output=True).stdout
        ask("start")
        self.addCleanup(ask, "stop")
        session = ask("session", "new", "--project", "demo").strip()
        self.assertIn("I am not a model", ask("session", "send", session, "Who are you?"))
        self.assertIn("README.md", ask("session", "send", session, "list the files"))
        self.assertIn("A project of kaged", ask("session", "send", session, "Read README.md"))
        self.assertIn("The tool failed", ask("session", "send", session, "read no-such-file"))
        ask("session", "send", session, "remember", "to water", "the plants")
        self.assertIn("to water the plants", ask("session", "send", session, "notes"))

    def compile(self, **environment):
        """What scripts/compile prints of a build of 40 files."""
        lines = ["rule cc", "  command = touch $out"]
        lines += [f"build out{i}: cc" for i in range(40)]
        write(os.path.join(self.base, "build.ninja"), "\n".join(lines) + "\n")
        return [os.path.join(ROOT, "scripts/compile"), self.base]

    def test_compiling_shows_how_far_it_is(self):
        command = self.compile()
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[-1], "compiling 40 of 40")
        self.assertIn(len(lines), range(5, 12), lines)
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_compiling_shows_a_status_line_on_a_terminal(self):
        with Terminal(self.compile(), dict(os.environ)) as terminal:
            code, screen = terminal.end()
        self.assertEqual(code, 0, screen)
        self.assertRegex(screen, "compiling [0-9]+ of 40: ")

    def test_a_failed_compilation_fails_and_shows_why(self):
        command = self.compile()
        write(os.path.join(self.base, "build.ninja"),
              "rule cc\n  command = echo no such type; false\nbuild out: cc\n")
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no such type", done.stdout)

    def test_running_tests_shows_how_many_are_done(self):
        for name in ("one", "two"):
            write(os.path.join(self.base, f"tests/unit/unit-{name}"),
                  "#!/bin/sh\necho ok 1 - works\necho 1..1\n", 0o755)
        done = subprocess.run([os.path.join(ROOT, "tests/run"), self.base, "unit-"], text=True,
                              capture_output=True)
        lines = done.stdout.splitlines()
        self.assertRegex(lines[1], r"^ +1 of 2 unit-(one|two) +1 passed")
        self.assertRegex(lines[2], r"^ +2 of 2 unit-(one|two) +1 passed")
        self.assertEqual(lines[-1], "2 passed, 0 failed")


    def test_a_skip_for_a_suite_says_which_public_suite_it_is(self):
        env = {**os.environ, "KAGED_SUITES": self.base, "CMOCKA_MESSAGE_OUTPUT": "TAP"}
        env.pop("CI", None)
        done = subprocess.run([os.path.join(BUILD, "tests/unit/unit-toml")], env=env, cwd=ROOT,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("it needs the public suite toml-test (github.com/toml-lang/toml-test)",
                      done.stdout)
        self.assertIn("KAGED_SUITES=FOLDER make test", done.stdout)
        self.assertNotIn(self.base, done.stdout)
        self.assertIn("github.com/nih-at/libzip", suite_skip("libzip-regress"))


class Words(FlowTest):
    """What is said when something is not as it should be, and what to do about it."""

    plugins = ["good-c", "hears-hooks"]

    def fails(self, *arguments, code=None):
        done = self.daemon.cli(*arguments)
        self.assertNotEqual(done[0], 0, done)
        if code is not None:
            self.assertEqual(done[0], code, done)
        return done[2]

    def self_words(self):
        return f"kaged --home {self.daemon.home}"

    def test_hints_repeat_the_home_in_use(self):
        self.daemon.cli("plugin", "disable", "good-c")
        said = self.fails("plugin", "call", "good-c", "good.echo")
        self.assertIn(f"hint: {self.self_words()} plugin enable good-c", said)
        self.assertEqual(self.daemon.cli("plugin", "enable", "good-c")[0], 0)
        said = self.fails("session", "show", "ses_nobody")
        self.assertIn(f"hint: {self.self_words()} session list", said)
        self.assertIn(f"{self.self_words()} stop", self.fails("start"))

    def test_an_unknown_plugin_is_to_be_installed(self):
        said = self.fails("plugin", "status", "weather", code=4)
        self.assertIn('there is no plugin "weather"', said)
        self.assertIn(f"{self.self_words()} plugin install", said)

    def test_a_tool_that_is_called_like_a_method_is_told_how(self):
        for name in ("hears-hooks.echo", "echo"):
            said = self.fails("plugin", "call", "hears-hooks", name)
            self.assertIn("hears-hooks.echo is a tool of plugin hears-hooks", said)
            self.assertIn(f"{self.self_words()} session tool SESSION hears-hooks.echo", said)

    def test_status_shows_listeners_and_the_log(self):
        code, out, _ = self.daemon.cli("status")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"(?m)^  listens +/.*kaged\.sock$")
        self.assertRegex(out, r"(?m)^  log +" + os.path.join(self.daemon.base, "log") + "$")


class Slow(FlowTest):
    def test_who_enables_a_plugin_waits_for_as_long_as_the_daemon_does(self):
        daemon = Daemon(["good-python"], enabled=[])
        path = os.path.join(daemon.home, "plugins/good-python/plugin.py")
        with open(path) as file:
            program = file.read()
        with open(path, "w") as file:
            file.write(program.replace("import json", "import time\ntime.sleep(13)\nimport json", 1))
        with daemon:
            code, out, said = daemon.cli("plugin", "enable", "good-python", timeout=2 * PATIENCE)
            self.assertEqual(code, 0, said)
            self.assertIn("good-python is running", out)


class Settings(FlowTest):
    def test_setting_checks_what_a_start_checks(self):
        daemon = Daemon()
        self.addCleanup(daemon.discard)
        for key, value in (("daemon.bind", "0.0.0.0:80"), ("daemon.bind", "127.0.0.1:99999"),
                           ("plugins.dir", "relative"), ("auth.mode", "proxy"),
                           ("models.smart.provider", "nowhere"),
                           # who is not root becomes nobody else, and does not look
                           *[("daemon.user", "nobody-like-that")] * (os.geteuid() == 0)):
            with self.subTest(key=key, value=value):
                code, _, said = daemon.cli("config", "set", key, value)
                self.assertEqual(code, 6, said)
                self.assertIn(key.rpartition(".")[2], said)
        self.assertEqual(daemon.cli("config", "check")[0], 0)

    def test_tables_of_local_toml_that_mean_nothing_are_named(self):
        with Daemon(["good-c"]) as daemon:
            local = os.path.join(daemon.home, "local.toml")
            with open(local) as file:
                known = file.read()
            daemon.write_local(known + '[modles.smart]\nmodel = "m"\n')
            code, _, said = daemon.cli("reload")
            self.assertEqual(code, 6, said)
            self.assertRegex(said, r"local\.toml:\d+:2: unknown section modles\nhint: did you mean")
            daemon.write_local(known + '[plugins.godo-c.config]\nloud = true\n')
            self.assertEqual(daemon.cli("reload")[0], 0)
            named = f'{local}: [plugins."godo-c"]: there is no such plugin'
            self.assertIn(named, daemon.log())
            code, out, _ = daemon.cli("config", "check")
            self.assertEqual((code, out.splitlines()[0]), (0, named))
            self.assertNotIn("good-c", out.splitlines()[0])


class FirstProject(FlowTest):
    def test_a_model_that_there_is_not_is_told_at_load(self):
        with Daemon(enabled=[]) as daemon:
            root = daemon.write_project("shop", "version: 1\nname: shop\n"
                                        "primary: { model: smart }\n")
            for local in ("", '[providers.p]\nkind = "openai"\nbase_url = "http://localhost:9/v1"\n'
                          '[models.fast]\nprovider = "p"\nmodel = "m"\n'):
                daemon.write_local(local)
                self.assertEqual(daemon.cli("reload")[0], 0)
                code, out, said = daemon.cli("project", "load", root)
                self.assertEqual(code, 0, said)
                self.assertIn('the operator has no model "smart"', out + said)


class FirstPlugin(FlowTest):
    def setUp(self):
        self.base = tempfile.mkdtemp(prefix="kg-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.base)

    def plugin(self, name, program, mode=0o755, more=""):
        folder = os.path.join(self.base, name)
        write(os.path.join(folder, "kaged-plugin.yaml"),
              f"name: {name}\nversion: 1.0.0\nkaged_api: 1\ndescription: First.\n"
              f"command: [./run.sh]\ncapabilities: []\nmethods: [first.do]\n" + more)
        write(os.path.join(folder, "run.sh"), program, mode)
        return folder

    def test_a_program_that_is_not_executable_is_named_where_it_comes_from(self):
        folder = self.plugin("first", "#!/bin/sh\n", mode=0o644)
        with Daemon(enabled=[]) as daemon:
            code, _, said = daemon.cli("plugin", "install", "--yes", folder)
        self.assertEqual(code, 6, said)
        self.assertIn(f"{folder}/run.sh is not executable", said)
        self.assertIn(f"hint: chmod +x {folder}/run.sh", said)
        self.assertNotIn(daemon.home, said)

    def test_a_crash_at_enable_shows_the_last_lines_of_stderr(self):
        program = "#!/bin/sh\ni=0; while [ $i -lt 30 ]; do i=$((i + 1)); echo line $i >&2; done\nexit 3\n"
        folder = self.plugin("first", program)
        with Daemon(enabled=[], config={"limits.restart_failures": 1}) as daemon:
            self.assertEqual(daemon.cli("plugin", "install", "--yes", folder)[0], 0)
            code, _, said = daemon.cli("plugin", "enable", "first")
        self.assertEqual(code, 1, said)
        self.assertIn("its last lines on stderr:\n    line", said)
        self.assertEqual(said[said.index("    line"):].split("\n")[:-1],
                         [f"    line {i}" for i in range(21, 31)])

    def test_a_port_that_is_taken_is_said_at_the_start(self):
        with wait_for(listen_at_the_default, "the default port"), Login() as login:
            code, _, said = login.kaged("start")
            self.assertEqual(code, 0, said)  # nobody asked for the port
            problem = "listen on 127.0.0.1:7777: Address already in use"
            self.assertIn(f"kaged: no HTTP over TCP: {problem}", said)
            self.assertIn("hint: kaged config set daemon.bind", said)
            out = login.kaged("status")[1]
            self.assertRegex(out, f"(?m)^  no tcp +{problem}$")
            self.assertRegex(out, r"(?m)^  log +.*/\.local/state/kaged/logs/kaged\.log$")

    def test_tables_are_printed_in_every_locale(self):
        folder = self.plugin("first", "#!/bin/sh\n", more=(
            "tools: [{ name: brew, description: Makes café or 咖啡. }]\n"
            "config_schema: { type: object, properties: { milk: { type: boolean } } }\n"
            "knobs: { milk: { type: boolean, label: Café au lait, default: true, "
            "binds_to: config.milk } }\n"))
        with Daemon(enabled=[]) as daemon:
            self.assertEqual(daemon.cli("plugin", "install", "--yes", folder)[0], 0)
            for locale in ("C", "C.UTF-8", "POSIX", "nowhere"):
                env = {**daemon.environment(), "LC_ALL": locale}
                for words, text in (("tools", "café or 咖啡"), ("knobs", "Café au lait")):
                    command = [KAGED, "--home", daemon.home, "plugin", words, "first"]
                    done = subprocess.run(command, env=env, capture_output=True,
                                          timeout=PATIENCE)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIn(text, done.stdout.decode())
                    with Terminal(command, env, columns=60) as terminal:
                        code, screen = terminal.end()
                    self.assertEqual(code, 0, screen)
                    self.assertIn("Caf" if words == "knobs" else "Makes caf", screen)

    def test_tables_are_not_cut_in_a_pipe_and_use_the_width_there_is(self):
        words = "Long enough to be cut somewhere on a screen that is narrow. " * 5
        name = "plugin-with-a-name-that-is-rather-long"
        folder = self.plugin(name, "#!/bin/sh\n")
        with open(os.path.join(folder, "kaged-plugin.yaml"), "a") as file:
            file.write(f'tools: [{{ name: go, description: "{words.strip()}" }}]\n')
        with Daemon(enabled=[]) as daemon:
            self.assertEqual(daemon.cli("plugin", "install", "--yes", folder)[0], 0)
            self.assertIn(words.strip(), daemon.cli("plugin", "tools", name)[1])
            out = daemon.cli("plugin", "list")[1]
            self.assertRegex(out, f"(?m)^{name} .* First.$")
            for columns in (80, 130):
                command = [KAGED, "--home", daemon.home, "plugin", "list"]
                with Terminal(command, daemon.environment(), columns=columns) as terminal:
                    screen = terminal.end()[1]
                self.assertLessEqual(max(map(len, screen.splitlines()[:2])), columns, screen)
                self.assertEqual(name in screen, columns == 130, screen)
                self.assertEqual("First." in screen, columns == 130, screen)


if __name__ == "__main__":
    main()
