"""The manual pages: they render without a warning, and leave out no command, key, event or error."""
import glob
import json
import os
import re
import shutil
import subprocess
import unittest

from harness import BUILD, KAGED, ROOT, FlowTest, main

PAGES = sorted(glob.glob(os.path.join(BUILD, "docs/*.[13578]")))


def page(name):
    """The source of a page, its escapes undone."""
    with open(os.path.join(BUILD, "docs", name)) as file:
        text = file.read()
    return re.sub(r"\\f[BIR]", "", text).replace("\\-", "-").replace("\\e", "\\")


def rows(path, pattern):
    with open(os.path.join(ROOT, "src", path)) as file:
        found = re.findall(pattern, file.read(), re.MULTILINE)
    assert len(found) > 10, f"{path} has no rows any more"
    return found


class Manual(FlowTest):
    def assert_has(self, text, words, what):
        missing = [word for word in words if not re.search(rf"(?<!\w){re.escape(word)}\b", text)]
        self.assertEqual(missing, [], f"{what} without a word in the manual")

    def test_there_is_a_page_for_each_subject(self):
        self.assertEqual([os.path.basename(path) for path in PAGES],
                         ["kaged-api.7", "kaged-audit.7", "kaged-cage.7", "kaged-catalog.7", "kaged-mcp.1",
                          "kaged-mcp.7", "kaged-package.7", "kaged-page.7", "kaged-plugin.1",
                          "kaged-plugin.yaml.5", "kaged-project.1", "kaged-project.yaml.5",
                          "kaged-script.7", "kaged-session.1", "kaged-session.7", "kaged-store.7",
                          "kaged-system-plugin.3", "kaged-trace.5", "kaged-webhook-notify.7", "kaged-wire.7", "kaged.1", "kaged.8", "kaged.toml.5"])

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_pages_render_without_a_warning(self):
        for path in PAGES:
            done = subprocess.run(["groff", "-t", "-man", "-ww", "-z", "-Tutf8", "-rLL=78n",
                                   "-rcR=1", path], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), path)

    @unittest.skipUnless(shutil.which("lexgrog"), "man-db is not installed")
    def test_pages_can_be_found_by_apropos(self):
        done = subprocess.run(["lexgrog", *PAGES], capture_output=True, text=True)
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, len(PAGES)))

    def test_each_promise_of_the_cage_names_tests_that_there_are(self):
        text = page("kaged-cage.7")
        kept = text[text.index(".SH TESTS"):text.index(".SH SEE ALSO")]
        lines = re.findall(r"^  ([\w-]+) (\w+)$", kept, re.MULTILINE)
        self.assertGreater(len(lines), 60, kept)
        for program, test in lines:
            kind, _, name = program.partition("-")
            path = f"{kind}/{name.replace('-', '_')}.c" if name else f"flow/{program}.py"
            with open(os.path.join(ROOT, "tests", path)) as file:
                self.assertRegex(file.read(), rf"\b{test}\b", path)

    def test_every_command_and_option_has_its_place(self):
        done = subprocess.run([KAGED, "help", "--json"], capture_output=True, text=True)
        for command in json.loads(done.stdout)["commands"]:
            words = command["words"]
            family = words.split()[0]
            own = family in ("mcp", "plugin", "project", "session")
            text = page(f"kaged-{family}.1" if own else "kaged.1")
            self.assertRegex(text, rf"(?m)^kaged {words}\b")
            self.assert_has(text, ["--" + option["name"] for option in command["options"]], "options")

    def test_every_key_of_the_configuration_has_its_place(self):
        keys = rows("config/keys.def", r"^CONFIG_\w+\((\w+), (\w+), (\w*)")
        self.assert_has(page("kaged.toml.5"), {word for _, *words in keys for word in words
                                               if word.islower() and word not in ("true", "false")},
                        "keys")

    def test_every_event_has_its_place(self):
        self.assert_has(page("kaged-audit.7"),
                        rows("audit/events.def", r'^AUDIT_EVENT\(\w+, "([\w.]+)"'), "events")

    def test_every_error_has_its_place(self):
        errors = rows("base/errors.def", r'^KG_ERROR\(\w+, "(\w+)", (-\d+),')
        self.assert_has(page("kaged-api.7"), [name for name, _ in errors], "errors")
        self.assert_has(page("kaged-wire.7"), [code for _, code in errors], "codes of errors")

    def test_every_field_of_a_manifest_has_its_place(self):
        with open(os.path.join(ROOT, "schema/plugin-manifest-v1.json")) as file:
            self.assert_has(page("kaged-plugin.yaml.5"), json.load(file)["properties"], "fields")

    def test_references_lead_to_pages(self):
        known = {os.path.basename(path) for path in PAGES}
        for path in PAGES:
            text = page(os.path.basename(path))
            for name, section in re.findall(r"\b(kaged[\w.-]*) ?\((\d)\)", text):
                self.assertIn(f"{name}.{section}", known, path)

    def test_no_sentence_stands_twice(self):
        seen = {}
        for path in PAGES:
            source = os.path.join(ROOT, "docs", os.path.basename(path) + ".in")
            with open(source) as file:
                lines = [line for line in file.read().splitlines() if not line.startswith(".")]
            for line in lines:
                if len(line) > 60:
                    self.assertIsNone(seen.get(line), f"{path}: {line}")
                    seen[line] = path


if __name__ == "__main__":
    main()
