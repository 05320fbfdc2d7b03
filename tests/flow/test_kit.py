"""kaged plugin test: good plugins pass, and each plugin that misbehaves breaks its own rules."""
import os
import re
import select
import signal
import subprocess

import kit
from harness import KAGED, PATIENCE, PLUGINS, FlowTest, main, wait_for

GOOD = ["good-bash", "good-c", "good-node", "good-python", "echo"]
SLOW_READERS = {"good-bash"}  # a shell needs seconds for a line of 4 MiB

# What the kit has to find in each folder of tests/plugins. Most of them answer an unknown method with
# silence or with a result: that is said once, here.
SLOPPY = {"cancel.call", "cancel.unknown", "method.unknown"}  # what they do with what they do not know
BAD = {
    "agents-as-told": {"id.string", "tool.invalid", "tool.types"},
    "all-knobs": {"call.answer", "config.garbage", "shutdown.notification"},
    "answers-late": set(),
    "bad-utf8": {"stdout.json"},
    "batch": {"call.answer"},
    "big-result": {"notification.unknown"},
    "both-result-and-error": {"stdout.answer"},
    "breaks": {"hook.answer", "tool.answer"},
    "closes-stdin": {"stream.open"},
    "closes-stdout": {"stream.open"},
    "compacts": {"call.answer"},
    "context-echo": {"line.length", "shutdown.notification"},
    "crash-at-call": {"call.answer"},
    "crash-at-start": {"initialize.answer"},
    "cut-initialize": {"initialize.answer"},
    "declares-all": {"call.invalid", "call.types", "concurrent.answers", "config.garbage",
                     "id.once", "shutdown.notification", "tool.invalid"},
    "deep-nesting": {"stdout.json", "notification.unknown"},
    "does-as-told": {"call.answer"},
    "duplicate-id": {"id.once", "stdout.answer"},
    "early-message": {"initialize.silence"},
    "env-dump": set(),
    "error-reply": {"call.answer"},
    "escaped-keys": {"ping.answer", "shutdown.notification"},
    "exact-line": {"notification.unknown"},
    "exits-clean": {"call.answer", "id.string"},
    "extra-method": {"initialize.methods", "call.answer", "ping.answer", "shutdown.notification"},
    "flood": set(),
    "forks-and-leaves": {"call.answer", "notification.unknown"},
    "greedy": {"call.answer"},
    "half-line": {"call.answer"},
    "hasty-request": {"message.early", "ping.answer", "shutdown.notification"},
    "hears-hooks": {"call.answer", "hook.compactor", "tool.answer", "tool.invalid", "tool.types"},
    "keeps-notes": {"call.types", "tool.types"},
    "huge-numbers": {"call.answer"},
    "ignores-ping": {"ping.answer"},
    "ignores-shutdown": {"shutdown.eof", "shutdown.notification"},
    "ignores-sigterm": {"call.answer", "shutdown.eof", "shutdown.notification"},
    "last-words": {"call.answer", "ping.answer", "shutdown.notification"},
    "long-line": {"line.length"},
    "malformed-initialize": {"initialize.answer"},
    "many-methods": {"initialize.methods"},
    "missing-method": {"initialize.methods", "call.answer", "ping.answer",
                       "shutdown.notification"},
    "names-with-escapes": {"call.answer", "notification.declared", "stdout.json"},
    "never-answers": {"initialize.answer"},
    "no-read": {"storage.declared", "call.answer", "shutdown.eof"},
    "noise": {"stdout.json", "id.string"},
    "overreach": {"initialize.capabilities"},
    "ping-error": {"ping.answer"},
    "refuses-initialize": {"initialize.answer"},
    "remembers": {"tool.answer", "tool.context", "tool.invalid", "tool.types"},
    "request-storm": {"notification.unknown"},
    "second-initialize": {"concurrent.answers", "id.once", "request.known"},
    "silent-call": {"call.answer"},
    "slow-writer": {"notification.unknown"},
    "stores": {"call.answer"},
    "takes-config": {"shutdown.notification"},
    "unknown-id": {"call.answer"},
    "with-schemas": {"call.answer", "call.invalid", "call.result", "call.types",
                     "shutdown.notification"},
    "wrong-api": {"initialize.api_version"},
    "wrong-name": {"initialize.name"},
    "wrong-version": {"initialize.version"},
}
LONG_LINES = {"many-methods"}  # its answer to initialize is one


class KitTest(FlowTest):
    @classmethod
    def setUpClass(cls):
        cls.temporary = kit.temporary()
        cls.folder = cls.temporary.name

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()


class Plugins(KitTest):
    def test_good_plugins_keep_every_rule(self):
        home = kit.short_lines(self.folder)

        def run(name):
            where = {"home": home} if name in SLOW_READERS else {}
            return kit.kit(kit.stage(name, self.folder), "--timeout", "20", **where)
        for name, (code, report, words) in kit.at_once(run, GOOD).items():
            self.assertEqual((name, report["findings"], code, words), (name, [], 0, ""))

    def test_fault_of_every_misbehaving_plugin_is_named(self):
        home = kit.short_lines(self.folder)

        def run(name):
            folder = kit.stage(name, os.path.join(self.folder, "bad"))
            where = {} if name in LONG_LINES else {"home": home}
            result = kit.kit(folder, "--timeout", "3", **where)
            if kit.found(result[1]) - SLOPPY != BAD[name]:  # a busy machine gets a second chance
                result = kit.kit(folder, "--timeout", "20", **where)
            return result
        for name, (code, report, words) in kit.at_once(run, sorted(BAD)).items():
            with self.subTest(name):
                self.assertEqual((code, words), (1, ""))
                self.assertEqual(kit.found(report) - SLOPPY, BAD[name], report["findings"])

    def test_every_folder_has_its_place(self):
        folders = {name for name in os.listdir(PLUGINS)
                   if os.path.isdir(os.path.join(PLUGINS, name))}
        others = {"asks", "mcp-reference", "mcp-server", "mcp-rich", "mcp-rude", "reads-files"}  # for tests of their own
        self.assertEqual(folders - others, set(BAD) | set(GOOD) - {"echo"})


class Command(KitTest):
    def kaged(self, *words, **options):
        return subprocess.run([KAGED, "--home", os.path.join(self.folder, "home"), *words],
                              capture_output=True, text=True, timeout=120,
                              stdin=subprocess.DEVNULL, **options)

    def test_it_says_what_the_cage_gives_and_a_line_for_each_rule(self):
        done = self.kaged("plugin", "test", os.path.join(PLUGINS, "good-python"))
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], "good-python 1.0.0 runs in its cage with no capabilities, "
                                   "taken as approved for this run")
        rules = [line for line in lines[1:] if re.match("[✓✗!–] [a-z]+[.][a-z_]+ ", line)]
        self.assertEqual(len(rules), len(lines) - 3, done.stdout)
        self.assertRegex(lines[-1], r"^\d+ passed, 0 failed, 0 warned, \d+ not applicable, "
                                    r"in \d+\.\d s$")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_finding_says_what_was_sent_what_came_and_how_to_mend_it(self):
        done = self.kaged("plugin", "test", os.path.join(PLUGINS, "wrong-name"))
        self.assertEqual(done.returncode, 1)
        self.assertIn('✗ initialize.name: "name" is another; the manifest says "wrong-name"\n'
                      '    sent: initialize\n    came: "somebody-else"\n    fix: give',
                      done.stdout)

    def test_last_words_of_one_that_ended_are_shown_whole(self):
        folder = kit.stage("good-python", os.path.join(self.folder, "typo"))
        with open(os.path.join(folder, "plugin.py"), "w") as file:
            file.write("#!/usr/bin/env python3\nopen('a\\x1b[7m')\n")
        os.chmod(os.path.join(folder, "plugin.py"), 0o755)
        done = self.kaged("plugin", "test", folder)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"(?s)it ended with exit code 1\n    sent: .*"
                                      r"    its last lines on stderr:\n        Traceback .*line 2, in .*"
                                      r"        FileNotFoundError: [^\x1b]*\n    fix: ")

    def test_handler_that_throws_at_params_that_fit_is_a_warning(self):
        folder = kit.stage("good-python", os.path.join(self.folder, "throws"))
        program = os.path.join(folder, "plugin.py")
        with open(program) as file:
            text = file.read()
        with open(program, "w") as file:
            file.write(text.replace('{"result": message["params"]}',
                                    '{"error": {"code": -32603, "message": "oops"}}'))
        code, report, _ = kit.kit(folder)
        self.assertEqual((code, kit.found(report)), (0, set()))
        self.assertEqual([(finding["rule"], finding["status"], finding["message"])
                          for finding in report["findings"]],
                         [("answer.internal", "warned", "good.echo answers an internal error")])

    def test_json_has_rules_findings_and_counts(self):
        code, report, _ = kit.kit(os.path.join(PLUGINS, "wrong-api"))
        self.assertEqual(code, 1)
        self.assertEqual((report["name"], report["capabilities"]), ("wrong-api", []))
        self.assertEqual(sum(report["counts"].values()), len(report["rules"]))
        finding, = report["findings"]
        self.assertEqual(finding["rule"], "initialize.api_version")
        self.assertEqual(finding["came"], "99")

    def test_one_rule_can_be_asked_for(self):
        code, report, _ = kit.kit(os.path.join(PLUGINS, "ping-error"), "--rule", "ping.answer")
        self.assertEqual((code, kit.found(report)), (1, {"ping.answer"}))
        code, report, _ = kit.kit(os.path.join(PLUGINS, "ping-error"), "--rule", "call.answer")
        self.assertEqual((code, report["counts"]["passed"]), (0, 1))

    def test_exit_codes_of_what_cannot_be_tested(self):
        folder = os.path.join(self.folder, "broken")
        os.mkdir(folder)
        with open(os.path.join(folder, "kaged-plugin.yaml"), "w") as file:
            file.write("name: Broken\n")
        self.assertEqual(self.kaged("plugin", "test").returncode, 2)
        self.assertEqual(self.kaged("plugin", "test", "/nowhere").returncode, 4)
        self.assertEqual(self.kaged("plugin", "test", folder).returncode, 6)
        self.assertEqual(self.kaged("plugin", "test", "--rule", "no.such", folder).returncode, 2)

    def test_declared_but_unused_is_a_warning(self):
        folder = kit.stage("good-python", os.path.join(self.folder, "unused"))
        manifest = os.path.join(folder, "kaged-plugin.yaml")
        with open(manifest) as file:
            text = file.read()
        with open(manifest, "w") as file:
            file.write(text.replace("capabilities: []", "capabilities: [kaged:storage:write, "
                                    "'net:example.com:443', 'read:fs:/etc/hostname']\n"
                                    "notifications: [good.said]"))
        code, report, _ = kit.kit(folder)
        self.assertEqual((code, kit.found(report)), (0, set()))
        self.assertEqual([finding["message"] for finding in report["findings"]],
                         ["kaged:storage:write was not used in this run",
                          "net:example.com:443 was not used in this run",
                          "good.said was not sent in this run"])

    def test_capability_into_the_operators_folders_is_refused(self):
        home = os.path.join(self.folder, "home")
        os.makedirs(os.path.join(home, "state"), exist_ok=True)
        folder = kit.stage("good-python", os.path.join(self.folder, "spy"))
        manifest = os.path.join(folder, "kaged-plugin.yaml")
        with open(manifest) as file:
            text = file.read()
        with open(manifest, "w") as file:
            file.write(text.replace("capabilities: []", f"capabilities: ['read:fs:{home}/state']"))
        code, report, _ = kit.kit(folder, home=home)
        self.assertEqual((code, kit.found(report)), (1, {"cage.start"}))
        self.assertEqual(os.listdir(os.path.join(home, "state")), [])

    def test_interrupt_leaves_nothing_behind(self):
        place = os.path.join(self.folder, "tmp")
        os.mkdir(place)
        kitten = subprocess.Popen([KAGED, "plugin", "test", os.path.join(PLUGINS, "never-answers")],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env={**os.environ, "TMPDIR": place})
        self.assertTrue(select.select([kitten.stdout], [], [], PATIENCE)[0])
        wait_for(lambda: os.listdir(place), "its folder")
        kitten.send_signal(signal.SIGINT)
        _, words = kitten.communicate(timeout=PATIENCE)
        self.assertEqual((kitten.returncode, words), (1, "kaged: interrupted\n"))
        self.assertEqual(os.listdir(place), [])
        processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
        self.assertNotIn(place, processes)


if __name__ == "__main__":
    main()
