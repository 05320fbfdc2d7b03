"""A plugin with a mutant of its SDK, for the tests of the kit: one program for each language."""
import glob
import os
import shutil
import subprocess
import unittest

import kit
import mutants
from harness import BUILD, ROOT

SDK = os.path.join(ROOT, "sdk")
FIXTURE = os.path.join(ROOT, "tests/kit")
STORAGE = "kaged:storage:write"
SAMPLE = 1 if os.environ.get("KAGED_TEST_LONG") == "1" else 6  # each sixth, and others in each language


def mutate(folder, patch):
    """Patches the copy of the SDK; each `old` has to be there."""
    name, *texts = patch
    path, = glob.glob(os.path.join(folder, "**", name), recursive=True)
    with open(path) as file:
        text = file.read()
    for old, new in zip(texts[::2], texts[1::2]):
        assert old in text, f"{name} has no {old!r}"
        text = text.replace(old, new, 1)
    with open(path, "w") as file:
        file.write(text)


class Mutants:
    """What the test of each language has in common; `fill_sdk` puts its SDK into a folder."""

    table, source, command, capabilities = None, None, None, []
    first = 0  # of the sample

    @classmethod
    def setUpClass(cls):
        cls.temporary = kit.temporary()
        cls.folder = cls.temporary.name
        cls.home = kit.short_lines(cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def make(self, rule=None):
        folder = os.path.join(self.folder, rule or "whole")
        os.makedirs(folder)
        capabilities = list(self.capabilities)
        if rule != "storage.declared":
            capabilities.append(STORAGE)
        with open(os.path.join(FIXTURE, "kaged-plugin.yaml")) as file:
            manifest = file.read()
        with open(os.path.join(folder, "kaged-plugin.yaml"), "w") as file:
            file.write(manifest.replace("COMMAND", self.command)
                       .replace("CAPABILITIES", ", ".join(capabilities)))
        shutil.copy(os.path.join(FIXTURE, self.source), folder)
        self.fill_sdk(folder)
        if rule is not None:
            mutate(folder, self.table[rule])
        self.build(folder)
        return folder

    def build(self, folder):
        pass

    def find(self, rule):
        """The rules that were broken or warned of, of this one and one that shows it."""
        group = rule.partition(".")[0]
        shows = {"id": "ping.answer", "stream": "method.unknown"}.get(group, "call.answer")
        if rule == "line.end":
            shows = "shutdown.eof"
        folder, found = self.make(rule), set()
        for timeout in ("5", "20"):  # a busy machine gets a second chance
            _, report, words = kit.kit(folder, "--timeout", timeout, "--rule", f"{rule},{shows}",
                                       home=self.home)
            assert report is not None, words
            found = {finding["rule"] for finding in report["findings"]}
            if rule in found:
                break
        return found

    def test_fixture_keeps_every_rule(self):
        code, report, words = kit.kit(self.make(), "--timeout", "20", home=self.home)
        self.assertEqual((code, report["findings"], words), (0, [], ""))

    def test_mutant_for_each_rule_is_found(self):
        rules = sorted(self.table)[self.first % SAMPLE::SAMPLE]
        print(f"# {len(rules)} of {len(self.table)} mutants")
        for rule, found in kit.at_once(self.find, rules).items():
            with self.subTest(rule):
                self.assertIn(rule, found)

    def test_every_rule_has_a_mutant(self):
        _, report, _ = kit.kit(os.path.join(ROOT, "plugins/echo"), "--rule", "cage.start")
        rules = {rule["rule"] for rule in report["rules"]}
        self.assertEqual(rules - mutants.NOT_OF_AN_SDK, set(self.table))


class Python(Mutants):
    table, source, command = mutants.PYTHON, "whole.py", "./whole.py"

    def fill_sdk(self, folder):
        shutil.copytree(os.path.join(SDK, "python/kaged_sdk"), os.path.join(folder, "kaged_sdk"))


class Shell(Mutants):
    table, source, command, first = mutants.SHELL, "whole.sh", "./whole.sh", 1
    capabilities = ["write:fs:config:/", "exec:jq:config:/"]

    def fill_sdk(self, folder):
        shutil.copy(os.path.join(SDK, "shell/kaged.sh"), folder)


class TypeScript(Mutants):
    table, source, command, first = mutants.TS, "whole.mjs", "./whole.mjs", 2

    @classmethod
    def setUpClass(cls):
        done = subprocess.run([os.path.join(ROOT, "scripts/sdk-ts")], text=True, timeout=280,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0 and os.environ.get("CI") != "true" \
                and "cannot install" in done.stdout:
            raise unittest.SkipTest(done.stdout.splitlines()[-1])
        assert done.returncode == 0, done.stdout
        super().setUpClass()

    def fill_sdk(self, folder):
        package = os.path.join(folder, "node_modules/@kaged/plugin-sdk")
        built = os.path.join(ROOT, "build/sdk-ts/sdk/ts")
        shutil.copytree(os.path.join(built, "dist"), os.path.join(package, "dist"),
                        ignore=shutil.ignore_patterns("test", "testing*"))
        shutil.copy(os.path.join(built, "package.json"), package)


class C(Mutants):
    table, source, command, first = mutants.C, "whole.c", "./whole", 3
    flags = ["-std=gnu17", "-D_GNU_SOURCE", "-O0", "-w",
             "-I" + os.path.join(ROOT, "src"), "-I" + os.path.join(SDK, "c")]

    def fill_sdk(self, folder):
        os.mkdir(os.path.join(folder, "sdk"))
        for path in glob.glob(os.path.join(SDK, "c/*.[ch]")):
            shutil.copy(path, os.path.join(folder, "sdk"))

    def build(self, folder):
        """Only what a mutant changed is compiled; the rest is the library that a build has."""
        changed = [path for path in glob.glob(os.path.join(folder, "sdk/*.c"))
                   if open(path).read() != open(os.path.join(SDK, "c", os.path.basename(path))).read()]
        parts = os.path.join(BUILD, "sdk/c/libkaged-plugin-parts.a")
        done = subprocess.run(["cc", *self.flags, "-o", os.path.join(folder, "whole"),
                               os.path.join(folder, "whole.c"), *changed, parts],
                              text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
