"""plugins/notes: its own tests, and in its cage, asked by the agents of two projects."""
import json
import os
import shutil
import subprocess
import tempfile

from harness import ROOT, FlowTest, main
from staged import StagedDaemon, stage

NAME = "notes"
READER = "primary.subagents.reader"
PROJECT = """\
version: 1
name: %s
primary:
  plugins:
    notes: { package: notes, isolation: %s, config: { page_max: 3 } }
  subagents:
    reader:
      plugins:
        notes: { %s }
"""
SANITIZED = "CFLAGS=-g -O1 -Wall -Wextra -fsanitize=address,undefined"


def run_own_tests(name, *command):
    """(exit code, output but for what passed) of a command in a staged folder that has the plugin's tests, too."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(stage(name), folder, dirs_exist_ok=True)
        shutil.copytree(os.path.join(ROOT, "plugins", name, "tests"), folder + "/tests")
        done = subprocess.run(command, cwd=folder, text=True, timeout=240, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = "".join(line for line in done.stdout.splitlines(True) if not line.startswith("ok "))
    return done.returncode, said


class OwnTests(FlowTest):
    def test_unit_tests_pass_under_sanitizers(self):
        code, output = run_own_tests(NAME, "make", "--silent", "--always-make", SANITIZED, "test")
        self.assertEqual(code, 0, output)


class InItsCage(FlowTest):
    @classmethod
    def setUpClass(cls):
        cls.share(StagedDaemon(NAME))
        cls.sessions = {name: cls.begin(name, *declared) for name, declared in {
            "music": ("agent", "package: notes"), "home": ("project", "config: {}")}.items()}

    @classmethod
    def begin(cls, name, isolation, reader):
        """The id of a session of a new project."""
        root = cls.daemon.write_project(name, PROJECT % (name, isolation, reader))
        status, answer = cls.daemon.api("POST", "/projects", {"path": root})
        assert (status, answer["state"]) == (200, "active"), answer
        status, session = cls.daemon.api("POST", f"/projects/{name}/sessions", {})
        assert status == 201, session
        return session["id"]

    def tool(self, tool, project="music", agent="primary", **arguments):
        """(exit code, the result or the words of the error) of kaged session tool"""
        code, out, err = self.daemon.cli("session", "tool", "--agent", agent,
                                         self.sessions[project], f"{NAME}.{tool}",
                                         json.dumps(arguments))
        return code, json.loads(out) if code == 0 else err

    def done(self, tool, **arguments):
        code, answer = self.tool(tool, **arguments)
        self.assertEqual(code, 0, answer)
        return answer

    def refused(self, words, tool, **arguments):
        code, answer = self.tool(tool, **arguments)
        self.assertEqual(code, 1, answer)
        self.assertIn(words, answer)

    def found(self, query, **more):
        return [note["id"] for note in self.done("search", query=query, **more)["notes"]]

    def test_a_note_lives_from_add_to_delete(self):
        text = "Kettle \"on\" at five; Größe 😀\n" + "long " * 8000
        note = self.done("add", text=text, tags="tea")["id"]
        self.assertEqual(self.done("show", id=note)["text"], text)
        found, = self.done("search", query="KETTLE grö* fi*")["notes"]
        self.assertIn("[Kettle] \"on\" at [five]; [Größe]", found["snippet"])
        self.done("edit", id=note, text="Samovar")
        self.assertEqual((self.found("kettle"), self.found("samovar tea")), ([], [note]))
        self.done("delete", id=note)
        self.refused(f"there is no note {note}", "show", id=note)
        self.assertEqual(self.found("samovar"), [])

    def test_bad_input_is_refused_by_the_schema_and_by_the_plugin(self):
        self.refused("the params: /id must be an integer", "show", id="1")
        self.refused("the params: /tags must match the pattern", "add", text="x", tags="A B")
        self.refused("query must have 1 to 32 words", "search", query="\" *")
        self.refused("limit must be a whole number from 1 to 3", "list", limit=4)
        self.refused("text must be text of 1 to 65536 bytes", "add", text="x" * 70000)
        for query in ("AND", "text : x", "x NOT y", "(", "'", "x*y", "\\", "NEAR(a b)", "^x", "☃"):
            self.assertEqual(self.found(query), [], query)

    def test_agents_and_projects_are_kept_apart(self):
        own = self.done("add", text="penguin of the primary")["id"]
        self.assertEqual(self.found("penguin"), [own])
        self.assertEqual(self.found("penguin", agent=READER), [])
        self.refused(f"there is no note {own}", "delete", agent=READER, id=own)
        self.assertEqual(self.found("penguin", project="home"), [])
        shared = self.done("add", project="home", text="walrus of all")["id"]
        self.assertEqual(self.found("walrus", project="home", agent=READER), [shared])

    def test_notes_are_there_after_a_restart_of_all(self):
        note = self.done("add", text="remember the ostrich")["id"]
        self.daemon.stop()
        self.daemon.start()
        self.assertEqual(self.found("ostrich"), [note])
        self.assertEqual(self.daemon.audit("plugin.crashed", NAME), [])

    def test_lists_come_in_pages(self):
        made = [self.done("add", text=f"page {i}", tags="paged")["id"] for i in range(4)]
        first = self.done("list", tag="paged")
        rest = self.done("list", tag="paged", offset=3)
        self.assertEqual([note["id"] for note in first["notes"] + rest["notes"]], made[::-1])
        self.assertEqual((first["more"], rest["more"]), (True, False))


if __name__ == "__main__":
    main()
