""".mcpb and .dxt files: what their manifest.json says becomes a manifest of ours, and a stranger's
words in it change nothing else."""
import json
import os
import stat
import tempfile

from archives import make_zip, zip_entry
from harness import Daemon, FlowTest, main
from mcp_servers import TELLS, told

SERVER = {"type": "python", "entry_point": "server/main.py",
          "mcp_config": {"command": "python", "args": ["${__dirname}/server/main.py"]}}
MANIFEST = {"manifest_version": "0.3", "name": "Tell Me", "version": "1.2.0",
            "description": "Tells what it is told.", "author": {"name": "Ann"}, "license": "MIT",
            "server": SERVER}
FULL = {
    **MANIFEST,
    "server": {"type": "python", "entry_point": "server/main.py", "mcp_config": {
        "command": "${__dirname}/server/main.py", "args": ["never"],
        "env": {"TOKEN": "${user_config.api_key}", "TEAM": "${user_config.team}",
                "LIB": "${__dirname}${/}lib", "CACHE": "${HOME}/cache"},
        "platform_overrides": {"win32": {"command": "main.exe"},
                               "linux": {"args": ["--dirs", "${user_config.dirs}", "--n=${user_config.n}"]}}}},
    "user_config": {
        "api_key": {"type": "string", "title": "Key", "sensitive": True, "required": True},
        "team": {"type": "string", "title": "Team", "default": "blue"},
        "n": {"type": "number", "title": "N", "default": 3, "min": 1, "max": 9},
        "dirs": {"type": "directory", "title": "Folders", "multiple": True,
                 "default": ["${HOME}/Desktop"]}}}


def bundle(folder, manifest, name="tell.mcpb", files=(), raw=None):
    text = json.dumps(manifest).encode() if raw is None else raw
    program = zip_entry("server/main.py", stat.S_IFREG | 0o755)
    return make_zip(os.path.join(folder, name),
                    [("manifest.json", text), (program, TELLS), *files], honest={})


class Bundles(FlowTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.daemon = Daemon([])
        cls.share(cls.daemon)

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kg-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.addCleanup(self.remove)

    def install(self, manifest, code=0, **more):
        path = bundle(self.folder, manifest, **more)
        result, out, err = self.daemon.cli("plugin", "install", "--yes", path)
        self.assertEqual(result, code, out + err)
        return out + err

    def remove(self, name="tell-me"):
        self.daemon.cli("plugin", "uninstall", "--force", name)

    def test_a_bundle_is_a_plugin_with_its_own_words(self):
        for name in ("tell.mcpb", "tell.dxt"):
            out = self.install(MANIFEST, name=name)
            for words in ("name: tell-me\n", "version: 1.2.0\n", "Tells what it is told."):
                self.assertIn(words, out)
            self.daemon.act("tell-me", "enable")
            answer = told(self.daemon, "tell-me")
            self.assertEqual(answer["argv"], [])
            self.assertEqual(answer["cwd"], os.path.join(self.daemon.home, "plugins/tell-me"))
            self.remove()

    def test_settings_of_a_bundle_are_ours_and_its_secrets_the_operators(self):
        out = self.install(FULL)
        self.assertIn("warning: its setting dirs has no default here", out)
        self.assertIn("warning: ${HOME} is a folder of its own, config:/", out)
        self.assertIn("write:fs:config:/", out)
        status, answer = self.daemon.api("POST", "/plugins/tell-me/enable")
        self.assertIn("api_key", json.dumps(answer) + json.dumps(self.daemon.status("tell-me")))
        code, _, err = self.daemon.cli("secret", "set", "tell-key", input="s3cret-value")
        self.assertEqual(code, 0, err)
        with open(self.daemon.home + "/local.toml") as file:
            text = file.read()
        with open(self.daemon.home + "/local.toml", "w") as file:
            file.write(text.replace('[plugins.tell-me]',
                                    '[plugins.tell-me]\napi_key = "${secret:tell-key}"') +
                       '\n[plugins.tell-me.config]\ndirs = ["/a", "/b c"]\n')
        code, _, err = self.daemon.cli("reload")
        self.assertEqual(code, 0, err)
        self.daemon.act("tell-me", "enable")
        answer = told(self.daemon, "tell-me")
        self.assertEqual(answer["argv"], ["--dirs", "/a", "/b c", "--n=3"])
        env, home = answer["env"], self.daemon.home
        self.assertEqual(env["TOKEN"], "s3cret-value")
        self.assertEqual(env["TEAM"], "blue")
        self.assertEqual(env["LIB"], home + "/plugins/tell-me/lib")
        self.assertEqual(env["CACHE"], home + "/plugin-data/tell-me/cache")

    def test_a_bundle_with_a_manifest_of_ours_declares_its_own_capabilities(self):
        own = ("name: tell-me\nversion: 2.0.0\nkaged_api: 1\nprotocol: mcp\ndescription: Ours.\n"
               "command: [./server/main.py]\ncapabilities: [\"read:fs:/usr/share\"]\n")
        out = self.install(FULL, files=[("kaged-plugin.yaml", own.encode())])
        self.assertIn("version: 2.0.0\n", out)
        self.assertIn("read:fs:/usr/share", out)
        self.assertNotIn("write:fs:config:/", out)

    def test_what_a_stranger_writes_in_a_bundle_is_refused_in_words(self):
        def server(**more):
            return {**MANIFEST, "server": {**SERVER, **more}}

        def command(*words, **more):
            return server(mcp_config={"command": words[0], "args": list(words[1:]), **more})

        deep = b'{"name":"x","server":' + b"[" * 100000
        for manifest, raw, words in (
                ({"name": "x"}, None, "does not say what server"),
                (None, b"{not json", "manifest.json: 1:"),
                (None, deep, "manifest.json: "),
                (None, b'{"name":"a","name":"b","server":{}}', "twice"),
                (None, b'{"name":"' + b"a" * 1100000 + b'"}', "manifest.json"),
                (server(type="uv"), None, "fetches what it needs"),
                (server(type="java"), None, "not one of node, python and binary"),
                (command("npx", "-y", "x"), None, "started by npx, which fetches code"),
                (command("docker", "run", "x"), None, "started by docker"),
                (command("${user_config.program}"), None, "not the name of a program"),
                (command("node", "${user_config.nothing}"), None, "has no such setting"),
                (command("node", "a\u202eb"), None, "an invisible character"),
                (command("node", env={"A=B": "c"}), None, "variable is not plain"),
                (command("node", env={"A B": "c"}), None, "A B"),
                (command("node", *["x"] * 300), None, "command"),
                ({**server(type="binary"), "compatibility": {"platforms": ["win32"]}}, None,
                 "other systems than Linux"),
                ({**MANIFEST, "user_config": {"a b": {"type": "string"}}}, None, "not plain text"),
                ({**MANIFEST, "user_config": {"a": {"type": "colour"}}}, None, "a type that kaged does not know"),
                ({**MANIFEST, "user_config": {f"k{i}": {"type": "string"} for i in range(200)}},
                 None, "more than 128")):
            with self.subTest(words=words):
                self.assertIn(words, self.install(manifest, code=6, raw=raw))

    def test_a_name_that_no_plugin_can_have_becomes_one(self):
        for name, slug in (("@acme/My_Server", "my-server"), ("3D Tools!", "d-tools"),
                           ("漢字", "server"), ("x" * 300, "x" * 64)):
            with self.subTest(name=name):
                out = self.install({**MANIFEST, "name": name, "version": "1"})
                self.assertIn(f"name: {slug}\n", out)
                self.assertIn("version: 1.0.0\n", out)
                self.remove(slug)

    def test_hidden_words_of_a_description_are_seen(self):
        out = self.install({**MANIFEST, "description": "Good.\u200b Obey " + "x" * 5000})
        self.assertIn("description: Good.\\u200b Obey xxx", out)

    def test_rules_of_archives_hold_for_bundles(self):
        link = zip_entry("server/out", stat.S_IFLNK | 0o777)
        self.assertIn("server/out", self.install(MANIFEST, code=5, files=[(link, "/etc/passwd")]))
        self.assertIn("..", self.install(MANIFEST, code=5, files=[("../out", b"x")]))


if __name__ == "__main__":
    main()
