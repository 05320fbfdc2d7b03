"""kaged plugin pack, and plugin new --mcp: what is written passes every rule, is packed, and installs."""
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import unittest
import zipfile

from harness import KAGED, ROOT, Daemon, FlowTest, main, wait_for

OWN_TESTS = {"python": ["python3", "-m", "unittest"], "ts": ["npm", "test"]}


def run(*command, cwd=ROOT):
    return subprocess.run(command, cwd=cwd, text=True, timeout=280, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)


def share(language):
    done = run(os.path.join(ROOT, "scripts/share"), "mcp-" + language)
    if done.returncode == 0:
        return
    if os.environ.get("CI") == "true" or "npm: " not in done.stdout:
        raise AssertionError(done.stdout)
    raise unittest.SkipTest(done.stdout.splitlines()[-1])


class Folder(FlowTest):
    def setUp(self):
        self.base = os.path.realpath(tempfile.mkdtemp(prefix="kg-", dir="/tmp"))
        self.addCleanup(shutil.rmtree, self.base)

    def new(self, language, name="greeter"):
        share(language)
        folder = os.path.join(self.base, name)
        done = run(KAGED, "plugin", "new", name, "--mcp", "--lang", language, "--dir", folder)
        self.assertEqual(done.returncode, 0, done.stdout)
        return folder

    def pack(self, folder, file="packed.mcpb", code=0):
        path = os.path.join(self.base, file)
        done = run(KAGED, "plugin", "pack", folder, "-o", path)
        self.assertEqual(done.returncode, code, done.stdout)
        return path, done.stdout


class New(Folder):
    def check(self, language):
        folder = self.new(language)
        done = run(*OWN_TESTS[language], cwd=folder)
        self.assertEqual(done.returncode, 0, done.stdout)
        done = run(KAGED, "plugin", "test", "--timeout", "60", folder)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(" 0 failed, 0 warned, ", done.stdout)
        self.assertEqual(run("grep", "-rl", "my-plugin", folder).stdout, "")

    def test_a_server_in_python_keeps_every_rule(self):
        self.check("python")

    def test_a_server_in_typescript_keeps_every_rule(self):
        self.check("ts")

    def test_other_languages_have_none_and_it_says_so(self):
        done = run(KAGED, "plugin", "new", "greeter", "--mcp", "--lang", "shell")
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no template of an MCP server for shell", done.stdout)
        self.assertIn("use --lang ts or python", done.stdout)


class Pack(Folder):
    def test_what_is_packed_installs_again_and_answers(self):
        path, words = self.pack(self.new("python"))
        self.assertIn("greeter 0.1.0 is packed", words)
        with Daemon(enabled=[]) as daemon:
            code, out, error = daemon.cli("plugin", "install", "--yes", path)
            self.assertEqual(code, 0, error + out)
            tools = wait_for(lambda: daemon.api("GET", "/plugins/greeter/tools")[1].get("tools"),
                             "its tools")
            self.assertEqual({tool["name"] for tool in tools}, {"greet", "greet_all"})
            self.assertEqual({tool["state"] for tool in tools}, {"approved"})

    def test_the_same_folder_gives_the_same_bytes(self):
        folder = self.new("python")
        one, _ = self.pack(folder, "one.mcpb")
        os.utime(os.path.join(folder, "server.py"), (1, 1))
        os.chmod(os.path.join(folder, "README.md"), 0o600)
        other, words = self.pack(folder, "other.mcpb")
        digests = {hashlib.sha256(open(path, "rb").read()).hexdigest() for path in (one, other)}
        self.assertEqual(len(digests), 1)
        self.assertIn(digests.pop(), words)

    def test_other_clients_find_a_manifest_and_the_authors_own_stays_out(self):
        folder = self.new("ts")
        for name in (".env", "debug.log"):
            with open(os.path.join(folder, name), "w") as file:
                file.write("KEY=1\n")
        path, words = self.pack(folder)
        self.assertIn("left out: .env\n", words)
        with zipfile.ZipFile(path) as archive:
            self.assertIsNone(archive.testzip())
            names = archive.namelist()
            made = json.loads(archive.read("manifest.json"))
        self.assertEqual([name for name in names if ".env" in name or ".log" in name], [])
        self.assertLessEqual({"kaged-plugin.yaml", "dist/main.js"}, set(names))
        self.assertEqual(made["server"], {
            "type": "node", "entry_point": "dist/main.js",
            "mcp_config": {"command": "node", "args": ["${__dirname}/dist/main.js"],
                           "env": {"WORD": "${user_config.word}"}}})
        self.assertEqual(made["user_config"], {
            "word": {"type": "string", "title": "word", "default": "Hello", "description": "word",
                     "required": False}})
        self.assertEqual((made["name"], made["version"]), ("greeter", "0.1.0"))

    def test_what_is_there_is_not_written_over_and_links_are_refused(self):
        folder = self.new("python")
        path, _ = self.pack(folder)
        _, words = self.pack(folder, code=1)
        self.assertIn("already exists", words)
        os.symlink("/etc/passwd", os.path.join(folder, "link"))
        path, words = self.pack(folder, "second.mcpb", code=6)
        self.assertIn("link: it is neither a file nor a folder", words.replace('"', ""))
        self.assertFalse(os.path.exists(path))

    def test_a_folder_without_a_plugin_says_what_is_missing(self):
        _, words = self.pack(self.base, code=6)
        self.assertIn("kaged-plugin.yaml", words)


if __name__ == "__main__":
    main()
