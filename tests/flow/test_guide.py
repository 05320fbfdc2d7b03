"""docs/writing-plugins.md: each of its blocks is taken out and run.

A block says what it is in the line that opens it:
  python greeter/plugin.py   a file; of `greeter` it is what `kaged plugin new` wrote, else it is written
  console                    commands behind "$ ", and what they print; "..." stands for anything
  console dev                the same; what changes while it runs may take a moment
  console notes              the same, run with that plugin in each language
"""
import os
import re
import shutil
import subprocess
import tempfile
import time

from harness import KAGED, PATIENCE, ROOT, Daemon, FlowTest, main, wait_for
from test_plugin_new import LANGUAGES, new, run, share

GUIDE = os.path.join(ROOT, "docs/writing-plugins.md")
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block:
    def __init__(self, kind, name, text):
        self.kind, self.name, self.text = kind, name, text

    @property
    def folder(self):
        return (self.name or "").split("/")[0]

    def commands(self):
        """[(command, what it prints)]"""
        parts = re.split(r"^\$ (.*)\n", self.text, flags=re.MULTILINE)
        assert parts[0] == "", f"this stands before the first command: {parts[0]}"
        return list(zip(parts[1::2], parts[2::2]))


def read_blocks():
    with open(GUIDE) as file:
        return [Block(*found) for found in BLOCK.findall(file.read())]


class Shell:
    """One shell for all commands, so that folders and variables stay."""

    MARK = "-- the command is done --"

    def __init__(self, folder, env, **identity):
        self.process = subprocess.Popen(["bash", "--norc"], cwd=folder, env=env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, **identity)

    def run(self, command):
        self.process.stdin.write(f"{{ {command}\n}} </dev/null; printf '\\n{self.MARK}\\n'\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line == self.MARK + "\n":
                return "".join(lines).strip()
            lines.append(line)
        raise AssertionError(f"the shell ended at: {command}\n{''.join(lines)}")

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def in_home(home):
    """The environment of a shell whose kaged works in that home."""
    return {**os.environ, "KAGED_HOME": home, "NO_COLOR": "1",
            "PATH": f"{os.path.dirname(KAGED)}:{os.environ['PATH']}"}


def fits(wanted, printed):
    pattern = re.escape(wanted.strip()).replace(re.escape("..."), ".*")
    return re.fullmatch(pattern, printed, re.DOTALL) is not None


class GuideTest(FlowTest):
    def setUp(self):
        self.base = tempfile.mkdtemp(prefix="kg-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.base)

    def path(self, name):
        return os.path.join(self.base, name)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w") as file:
            file.write(text)

    def play(self, shell, block):
        for command, wanted in block.commands():
            deadline = time.monotonic() + (PATIENCE if block.name == "dev" else 0)
            printed = shell.run(command)
            while not fits(wanted, printed) and time.monotonic() < deadline:
                time.sleep(0.2)
                printed = shell.run(command)
            self.assertTrue(fits(wanted, printed), f"$ {command}\n{printed}\n-- is not\n{wanted}")

    def install(self, daemon, name, folder):
        for words in (["install", "--yes", folder], ["enable", name]):
            code, _, error = daemon.cli("plugin", *words)
            self.assertEqual(code, 0, error)
        daemon.wait_status(name, lambda s: s["state"] in ("running", "idle"), "its start, or none")


class Page(GuideTest):
    def test_every_block_is_of_a_kind_that_is_run(self):
        for block in read_blocks():
            if block.kind == "console":
                self.assertIn(block.name, ("", "dev", "notes"), block.text)
            else:
                self.assertRegex(block.name, r"^(shop|long|brief|(greeter|notes)(-\w+)?)/",
                                 block.text)

    def test_greeter_is_what_new_writes_in_each_language(self):
        blocks = [block for block in read_blocks() if block.folder.startswith("greeter-")]
        self.assertEqual(sorted(block.folder for block in blocks),
                         [f"greeter-{language}" for language in LANGUAGES])
        for block in blocks:
            language = block.folder.split("-")[1]
            template = block.name.replace(block.folder, f"sdk/{language}/template", 1)
            with open(os.path.join(ROOT, template)) as file:
                self.assertEqual(block.text, file.read().replace("my-plugin", "greeter"))

    def test_its_commands_print_what_it_shows(self):
        share("python")
        home = self.path("home")
        os.mkdir(home, mode=0o700)
        shell = Shell(self.base, in_home(home))
        self.addCleanup(shell.close)
        self.addCleanup(run, KAGED, "--home", home, "stop")
        for block in read_blocks():
            if block.kind == "console" and block.name != "notes":
                self.play(shell, block)
            elif block.folder == "greeter":
                with open(self.path(block.name)) as file:
                    self.assertEqual(block.text, file.read(), block.name)
            elif block.folder == "shop":
                self.write(block.name, block.text)


class Notes:
    """The plugin with storage, in one language."""

    language = None

    def test_it_does_what_the_page_shows(self):
        share(self.language)
        folder = self.path("notes")
        new("notes", self.language, folder)
        with open(os.path.join(folder, "kaged-plugin.yaml")) as file:
            template = file.read()
        blocks = read_blocks()
        for block in blocks:
            if block.name == "notes/kaged-plugin.yaml":
                self.write(block.name, self.adapted(block.text, template))
            elif block.folder == f"notes-{self.language}":
                self.write(block.name.replace(block.folder, "notes"), block.text)
        self.build(folder)
        with Daemon(enabled=[]) as daemon:
            self.install(daemon, "notes", folder)
            shell = Shell(self.base, in_home(daemon.home))
            self.addCleanup(shell.close)
            for block in blocks:
                if block.kind == "console" and block.name == "notes":
                    self.play(shell, block)

    def adapted(self, manifest, template):
        """With the command of the language, and what bash needs."""
        command = re.search("^command: .*$", template, re.MULTILINE).group()
        manifest = re.sub("^command: .*$", command, manifest, flags=re.MULTILINE)
        if self.language == "shell":
            manifest = manifest.replace("[kaged:storage:write]",
                                        "[kaged:storage:write, 'exec:jq:config:/', "
                                        "'write:fs:config:/']")
        return manifest

    def build(self, folder):
        if self.language == "c":
            done = run("make", "-C", folder, "CFLAGS=-O1 -Wall -Wextra -Werror")
        elif self.language == "ts":
            modules = os.path.join(ROOT, "build/sdk-ts/sdk/ts/node_modules")
            done = run(f"{modules}/.bin/tsc", "-p", folder, "--typeRoots", f"{modules}/@types")
        else:
            return
        self.assertEqual(done.returncode, 0, done.stdout)


class NotesInC(Notes, GuideTest):
    language = "c"


class NotesInPython(Notes, GuideTest):
    language = "python"


class NotesInShell(Notes, GuideTest):
    language = "shell"


class NotesInTypeScript(Notes, GuideTest):
    language = "ts"


class Compactor(GuideTest):
    def test_it_says_what_stays_and_refuses_what_it_cannot_use(self):
        share("python")
        new("brief", "python", self.path("brief"))
        for block in read_blocks():
            if block.folder in ("brief", "long"):
                self.write(block.name, block.text)
        with Daemon(enabled=[]) as daemon:
            self.install(daemon, "brief", self.path("brief"))
            self.assertEqual(daemon.api("POST", "/projects", {"path": self.path("long")})[0], 200)
            session = daemon.api("POST", "/projects/long/sessions", {})[1]["id"]
            for number in range(3):
                messages = [{"role": "user", "content": f"question {number}"},
                            {"role": "assistant", "content": f"answer {number}"}]
                daemon.api("POST", f"/sessions/{session}/messages", {"messages": messages})
            status, done = daemon.api("POST", f"/sessions/{session}/compact", {})
            self.assertEqual((status, done["strategy"], done["fell_back"]),
                             (200, "delegate", None))
            code, context, error = daemon.cli("session", "context", session)
            self.assertEqual(code, 0, error)
            self.assertIn("3 earlier messages are left out.", context)
            project = next(block for block in read_blocks() if block.folder == "long")
            self.write(project.name, project.text.replace("package: brief", "package: brief, "
                                                          "config: { text: left out }"))
            daemon.api("POST", "/projects/long/reload")
            wait_for(lambda: "text must have {count} in it" in daemon.log(), "the refusal")


if __name__ == "__main__":
    main()
