"""MCP servers from npm: fetched by npm's own client in a cage that reaches the registry alone, and
installed by the same yes as any plugin."""
import json
import os
import shutil
import subprocess
import threading
import unittest

import archives
from harness import KAGED, Daemon, FlowTest, main
from registry import MODULES, Registry, pack
from terminal import Terminal

SERVER = """#!/usr/bin/env node
const lines = require("readline").createInterface({ input: process.stdin });
const answers = {
  initialize: () => ({ protocolVersion: "2025-11-25", serverInfo: { name: "tiny", version: "1" },
                       capabilities: { tools: {} } }),
  "tools/list": () => ({ tools: [{ name: "words", inputSchema: { type: "object" } }] }),
  "tools/call": () => ({ content: [{ type: "text", text: process.argv.slice(2).join(" ") }] }),
  ping: () => ({}),
};
lines.on("line", (line) => {
  const { id, method } = JSON.parse(line);
  if (id === undefined) return;
  const known = answers[method];
  const body = known ? { result: known() } : { error: { code: -32601, message: "unknown" } };
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, ...body }) + "\\n");
});
"""


def package(**more):
    """A server without a dependency."""
    return {"package.json": json.dumps({"bin": "server.js", "description": "Tiny.", **more}),
            "server.js": SERVER}


class Home(Daemon):
    """A home whose npm knows one registry, by a file in its operator's home."""

    def __init__(self, registry, **options):
        super().__init__(**options)
        self.user = os.path.join(self.base, "user")
        os.mkdir(self.user)
        with open(os.path.join(self.user, ".npmrc"), "w") as file:
            file.write(f"registry={registry.url}\n")

    def environment(self):
        return {**super().environment(), "HOME": self.user}

    def install(self, source, *words):
        return self.cli("plugin", "install", source, "--yes", *words, timeout=300)

    def manifest(self, name, version=""):
        """Of the only one that is installed, or of that version."""
        folder = os.path.join(self.home, "plugins/.store/versions")
        found = []
        for entry in os.listdir(folder):
            if entry.startswith(name + "-"):
                with open(os.path.join(folder, entry, "kaged-plugin.yaml")) as file:
                    found.append((file.read(), os.path.join(folder, entry)))
        (text, path), = [(text, path) for text, path in found if f"version: {version}" in text
                         or f'version: "{version}' in text]
        return text, path


class Offline(Home):
    """The same without a daemon: what is fetched needs none."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.check_sanitizers()
        shutil.rmtree(self.base)


@unittest.skipUnless(shutil.which("npm"), "npm is not here")
class NpmTest(FlowTest):
    def refuse(self, registry, source, words, *more, config=None):
        with Offline(registry, config=config) as home:
            code, out, err = home.install(source, *more)
            self.assertNotEqual(code, 0, out)
            self.assertIn(words, err)
            left = os.path.join(home.home, "plugins/.store/quarantine")
            self.assertEqual(os.listdir(left) if os.path.exists(left) else [], [])
            return code, err

    def test_a_package_is_fetched_from_the_registry_that_npm_is_set_to(self):
        packages = {"@acme/tiny": {"1.2.0": package(dependencies={"left": "^1.0.0"}),
                                   "1.3.0": package()},
                    "left": {"1.0.0": {"index.js": "module.exports = 1;"}}}
        with Registry(packages) as registry, Offline(registry) as home:
            docs = os.path.join(home.base, "docs")
            os.mkdir(docs)
            os.symlink(docs, os.path.join(home.base, "link"))
            code, out, err = home.install("npm:@acme/tiny@^1.2.0", "--version", "1.2.0")
            self.assertEqual(code, 2, err)  # twice
            code, out, err = home.install("npm:@acme/tiny", "--version", "~1.2", "--", "--root",
                                          home.base + "/link")
            self.assertEqual(code, 0, err)
            self.assertIn("version: 1.2.0", out)
            self.assertIn(f"read:fs:{docs}", out)
            text, folder = home.manifest("tiny")
            self.assertIn('package: "@acme/tiny"', text)
            self.assertIn('"./node_modules/@acme/tiny/server.js","--root","%s"]' % docs, text)
            with open(os.path.join(folder, "package-lock.json")) as file:
                lock = json.load(file)["packages"]
            self.assertTrue(lock["node_modules/left"]["integrity"].startswith("sha512-"))
            self.assertTrue(os.path.isfile(os.path.join(folder, "node_modules/left/index.js")))

    def test_an_upgrade_keeps_the_arguments_unless_others_are_given(self):
        packages = {"tiny": {f"1.{minor}.0": package() for minor in range(4)}}
        with Registry(packages) as registry, Offline(registry) as home:
            docs = os.path.join(home.base, "docs")
            os.mkdir(docs)

            def command(version, *words):
                code, out, err = home.install(f"npm:tiny@1.{version}.0", *words)
                self.assertEqual(code, 0, err)
                text, _ = home.manifest("tiny", f"1.{version}.0")
                line, = [line for line in text.splitlines() if line.startswith("command:")]
                return line.partition("server.js\"")[2], out
            given = f',"--root","{docs}","a b"]'
            self.assertEqual(command(0, "--", "--root", docs, "a b")[0], given)
            kept, out = command(1)
            self.assertEqual(kept, given)
            self.assertIn(f"its arguments stay as they were: --root {docs} 'a b'", out)
            self.assertEqual(command(2, "--", "x")[0], ',"x"]')
            self.assertEqual(command(3, "--no-args")[0], "]")

    def test_what_is_wrong_with_a_name_is_said(self):
        with Registry({"tiny": {"1.0.0": package()}, "mcp": {"1.0.0": package()}}) as registry:
            self.refuse(registry, "npm:Ti ny", "not the name of a package")
            self.refuse(registry, "npm:--prefix=/", "not the name of a package")
            self.refuse(registry, "npm:../x", "not the name of a package")
            self.refuse(registry, "npm:tiny@git+file:///x", "neither like 1.2.3 nor a range")
            self.refuse(registry, "npm:tiny@2", "no version that fits")
            self.refuse(registry, "npm:nowhere", "the registry does not have it")
            self.refuse(registry, "npm:tiny", "cannot be the name of a plugin", "--name", "A b")
            self.refuse(registry, "/tmp", "from its manifest", "--name", "other")

    def test_a_registry_that_is_not_there_is_named(self):
        with Registry() as registry:
            pass
        self.refuse(registry, "npm:tiny", "the registry cannot be reached")

    def test_another_hash_than_the_registry_promised_is_refused(self):
        with Registry({"tiny": {"1.0.0": package()}}) as registry:
            registry.spoil["tiny"] = lambda handler, _: registry.send(
                handler, 200, pack({**package(), "more.js": ""}))
            self.refuse(registry, "npm:tiny", "has another hash than")

    def test_a_package_from_another_host_is_not_fetched(self):
        with Registry({"tiny": {"1.0.0": package()}}) as registry, Registry() as other:
            url, registry.url = registry.url, other.url
            found = registry.describe("tiny")
            registry.url = url
            registry.describe = lambda name: found
            self.refuse(registry, "npm:tiny", "cannot be reached")
            self.assertEqual(other.asked, [])

    def test_more_than_the_bounds_is_not_fetched(self):
        many = {f"files/{number}": "" for number in range(3000)}
        with Registry({"tiny": {"1.0.0": {**package(), **many}}}) as registry:
            self.refuse(registry, "npm:tiny", "bound",
                        config={"limits.install_files": 1000})

        def endless(handler, _):
            """As if it had 2 GiB; nobody waits for all of it."""
            handler.send_response(200)
            handler.send_header("Content-Length", str(2 << 30))
            handler.end_headers()
            for _ in range(2 << 10):
                handler.wfile.write(bytes(1 << 20))
        with Registry({"tiny": {"1.0.0": package()}}) as registry:
            registry.spoil["tiny"] = endless
            self.refuse(registry, "npm:tiny", "bound",
                        config={"limits.install_source_bytes": 16 << 20,
                                "limits.install_file_bytes": 8 << 20})

    def test_a_slow_registry_has_its_time(self):
        with Registry({"tiny": {"1.0.0": package()}}) as registry:
            wait = threading.Event()
            registry.spoil["tiny"] = lambda handler, _: wait.wait(300)
            self.refuse(registry, "npm:tiny", "it was not done after 6 s",
                        config={"limits.install_timeout_ms": 6000})
            wait.set()

    def test_no_script_is_run_and_what_needs_one_is_refused(self):
        scripts = {"scripts": {"install": "touch /tmp/npm-script-ran; exit 1"}}
        native = {"package.json": json.dumps(scripts), "binding.gyp": "{}"}
        chatty = {"package.json": json.dumps(scripts), "index.js": ""}
        packages = {"tiny": {"1.0.0": package(dependencies={"chatty": "1"})},
                    "built": {"1.0.0": package(dependencies={"native": "1"})},
                    "native": {"1.0.0": native}, "chatty": {"1.0.0": chatty}}
        with Registry(packages) as registry:
            self.refuse(registry, "npm:built", "needs a build step: node_modules/native")
            with Offline(registry) as home:
                code, out, err = home.install("npm:tiny")
                self.assertEqual(code, 0, err)
                self.assertIn("were not run: node_modules/chatty", out)

    def test_engines_are_looked_at_before_anybody_is_asked(self):
        packages = {"tiny": {"1.0.0": package(engines={"node": ">=99"})},
                    "library": {"1.0.0": {"index.js": ""}},
                    "lost": {"1.0.0": package(bin="../../x")}}
        with Registry(packages) as registry:
            self.refuse(registry, "npm:tiny", "needs node >=99, and the one here is")
            self.refuse(registry, "npm:library", "has no program")
            self.refuse(registry, "npm:lost", "is not in it")

    def test_a_package_with_a_manifest_is_used_as_it_declares(self):
        manifest = ("name: tiny\nversion: 1.0.0\nkaged_api: 1\nprotocol: mcp\ndescription: Mine.\n"
                    "command: [node, ./server.js, mine]\ncapabilities: []\n")
        packages = {"tiny": {"1.0.0": {**package(dependencies={"left": "1"}),
                                       "kaged-plugin.yaml": manifest}},
                    "left": {"1.0.0": {"index.js": ""}}}
        with Registry(packages) as registry:
            self.refuse(registry, "npm:tiny", "has a manifest of its own", "--", "x")
            with Offline(registry) as home:
                code, out, err = home.install("npm:tiny")
                self.assertEqual(code, 0, err)
                text, folder = home.manifest("tiny")
                self.assertEqual(text, manifest)
                self.assertTrue(os.path.isfile(os.path.join(folder, "node_modules/left/index.js")))
                self.assertFalse(os.path.exists(os.path.join(folder, "node_modules/tiny")))

    def checkout(self, home, **dependencies):
        """The folder of a plugin whose packages were not fetched yet."""
        folder = os.path.join(home.base, "checkout")
        os.makedirs(folder)
        manifest = ("name: mine\nversion: 1.0.0\nkaged_api: 1\nprotocol: mcp\ndescription: Mine.\n"
                    "command: [node, ./server.js]\ncapabilities: []\n")
        about = {"name": "mine", "version": "1.0.0", "dependencies": dependencies}
        files = {"kaged-plugin.yaml": manifest, "server.js": SERVER,
                 ".npmrc": "registry=http://127.0.0.1:9/\n", "package.json": json.dumps(about)}
        for name, text in files.items():
            with open(os.path.join(folder, name), "w") as file:
                file.write(text)
        return folder

    def lock(self, registry, folder):
        subprocess.run(["npm", "install", "--package-lock-only", "--omit-lockfile-registry-resolved",
                        f"--registry={registry.url}", "--no-audit", "--no-fund"], cwd=folder,
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def say_yes_twice(self, home, source):
        command = [KAGED, "--home", home.home, "plugin", "install", source]
        with Terminal(command, home.environment()) as terminal:
            terminal.read_until("Fetch them by npm?")
            terminal.type("y\n")
            terminal.read_until("Install mine?")
            terminal.type("y\n")
            terminal.read_until("Installed mine")

    def test_what_a_repository_lacks_is_fetched_by_its_lock_after_a_yes(self):
        with Registry({"left": {"1.0.0": {"index.js": "module.exports = 1;"}}}) as registry, \
                Offline(registry) as home:
            folder = self.checkout(home, left="^1.0.0")
            self.lock(registry, folder)
            archives.git(folder, "init", "--quiet")
            archives.git(folder, "add", "--all")
            archives.git(folder, "commit", "--quiet", "--message", "first")
            self.say_yes_twice(home, "git+file://" + folder)
            _, version = home.manifest("mine")
            self.assertTrue(os.path.isfile(os.path.join(version, "node_modules/left/index.js")))

    def test_what_a_folder_lacks_is_fetched_by_its_lock_after_a_yes(self):
        with Registry({"left": {"1.0.0": {"index.js": "module.exports = 1;"}}}) as registry, \
                Offline(registry) as home:
            folder = self.checkout(home, left="^1.0.0")
            self.lock(registry, folder)
            registry.add("left", "1.1.0", {"index.js": "module.exports = 2;"})
            self.say_yes_twice(home, folder)
            text, version = home.manifest("mine")
            with open(os.path.join(version, "node_modules/left/package.json")) as file:
                self.assertEqual(json.load(file)["version"], "1.0.0")  # as it is locked
            self.assertFalse(os.path.exists(os.path.join(folder, "node_modules")))
            # A lock that does not fit, and one whose hash is another, are refused.
            with open(os.path.join(folder, "package-lock.json")) as file:
                locked = json.load(file)
            locked["packages"]["node_modules/left"]["integrity"] = "sha512-" + "A" * 86 + "=="
            with open(os.path.join(folder, "package-lock.json"), "w") as file:
                json.dump(locked, file)
            code, out, err = home.install(folder)
            self.assertNotEqual(code, 0, out)
            self.assertIn("another hash", err)

    def test_what_a_source_of_a_project_lacks_is_fetched_after_the_yes(self):
        with Registry({"left": {"1.0.0": {"index.js": "module.exports = 1;"}}}) as registry, \
                Home(registry) as daemon:
            folder = self.checkout(daemon, left="^1.0.0")
            self.lock(registry, folder)
            root = daemon.write_project("shop", PROJECT.format("mine").replace(
                '"mine"', '"mine", version: "1.0.0", source: "./mine"'))
            shutil.copytree(folder, os.path.join(root, "mine"))
            status, answer = daemon.api("POST", "/projects", {"path": root})
            self.assertIn(status, (200, 201), answer)
            consent, = daemon.api("GET", "/consents")[1]["consents"]
            code, out, err = daemon.cli("project", "consent", "approve", consent["id"], "--yes",
                                        timeout=300)
            self.assertEqual(code, 0, err + out)
            self.assertIn("✓ Installed mine 1.0.0", out)
            _, version = daemon.manifest("mine")
            self.assertTrue(os.path.isfile(os.path.join(version, "node_modules/left/index.js")))

    def test_a_range_of_a_project_is_resolved_by_the_registry(self):
        packages = {"tiny": {version: package() for version in ("1.0.0", "1.4.0", "2.0.0")}}
        project = PROJECT.format("tiny").replace('"tiny"', '"tiny", version: "^1.0", '
                                                           'source: "npm:tiny"')
        with Registry(packages) as registry, Home(registry) as daemon:
            root = daemon.write_project("shop", project)
            status, answer = daemon.api("POST", "/projects", {"path": root})
            self.assertIn(status, (200, 201), answer)
            consent, = daemon.api("GET", "/consents")[1]["consents"]
            code, out, err = daemon.cli("project", "consent", "approve", consent["id"], "--yes",
                                        timeout=300)
            self.assertEqual(code, 0, err)
            self.assertIn("✓ Installed tiny 1.4.0", out)


PROJECT = """version: 1
name: shop
primary:
  model: m0
  prompt: You sell fruit.
  plugins:
    server: {{ package: "{}" }}
"""


@unittest.skipUnless(shutil.which("npm"), "npm is not here")
@unittest.skipUnless(os.path.isdir(MODULES + "/@modelcontextprotocol"),
                     "the packages of tests/package.json are not here: scripts/npm tests")
class ServersTest(FlowTest):
    """Servers that people use, in cages, with what was granted them by one command."""

    @classmethod
    def setUpClass(cls):
        cls.registry = cls.enterClassContext(Registry(with_installed=True))
        cls.share(Home(cls.registry))

    def install(self, server, *words):
        code, out, err = self.daemon.install(f"npm:@modelcontextprotocol/{server}", *words)
        self.assertEqual(code, 0, out + err)
        self.assertIn("✓ Approved", out)
        return out

    def session(self, server):
        root = self.daemon.write_project(server, PROJECT.format(server).replace("shop", server))
        status, answer = self.daemon.api("POST", "/projects", {"path": root})
        self.assertIn(status, (200, 201), answer)
        status, answer = self.daemon.api("POST", f"/projects/{server}/sessions", {})
        self.assertEqual(status, 201, answer)
        return answer["id"]

    def use(self, session, tool, arguments):
        status, answer = self.daemon.api("POST", f"/sessions/{session}/tools/{tool}", arguments)
        self.assertEqual(status, 200, answer)
        words = json.dumps(answer["result"])
        return answer["is_error"] or '"isError": true' in words, words

    def test_filesystem_reads_the_folder_that_was_granted_and_nothing_else(self):
        docs, other = os.path.join(self.daemon.base, "docs"), os.path.join(self.daemon.base, "other")
        for folder in (docs, other):
            os.mkdir(folder)
            with open(os.path.join(folder, "a.txt"), "w") as file:
                file.write("words of " + os.path.basename(folder))
        os.symlink(other, os.path.join(docs, "out"))
        if os.geteuid() == 0:
            os.chown(docs, 65534, 65534)  # what is root's own is not written by plugins
        out = self.install("server-filesystem", "--", docs)
        self.assertIn(f"write:fs:{docs}", out)
        self.assertNotIn("plugin enable", out)
        session = self.session("server-filesystem")

        def read(path):
            return self.use(session, "server-filesystem.read_text_file", {"path": path})
        self.assertIn("words of docs", read(docs + "/a.txt")[1])
        for path in (other + "/a.txt", docs + "/out/a.txt", "/etc/passwd"):
            failed, words = read(path)
            self.assertTrue(failed, words)
            self.assertNotIn("words of other", words)
        _, out, _ = self.daemon.cli("plugin", "why", "server-filesystem")
        self.assertIn(f"plugin grant server-filesystem read:fs:{other}/a.txt", out)
        failed, words = self.use(session, "server-filesystem.write_file",
                                 {"path": docs + "/b.txt", "content": "new"})
        self.assertFalse(failed, words)
        with open(docs + "/b.txt") as file:
            self.assertEqual(file.read(), "new")

    def test_memory_keeps_its_file_among_its_own(self):
        out = self.install("server-memory")
        self.assertIn("write:fs:config:/", out)
        session = self.session("server-memory")
        failed, words = self.use(session, "server-memory.create_entities", {"entities": [
            {"name": "kaged", "entityType": "daemon", "observations": ["is caged"]}]})
        self.assertFalse(failed, words)
        place = os.path.join(self.daemon.home, "plugin-data/server-memory/memory.jsonl")
        with open(place) as file:
            self.assertIn("is caged", file.read())
        failed, words = self.use(session, "server-memory.read_graph", {})
        self.assertIn("is caged", words)

    def test_tools_of_everything_answer(self):
        out = self.install("server-everything")
        self.assertIn("Its tools:\n  server-everything.", out)
        status, listed = self.daemon.api("GET", "/plugins/server-everything/tools")
        self.assertEqual({tool["state"] for tool in listed["tools"]}, {"approved"}, listed)
        session = self.session("server-everything")
        failed, words = self.use(session, "server-everything.echo", {"message": "hi there"})
        self.assertIn("hi there", words)
        failed, words = self.use(session, "server-everything.get-sum", {"a": 4, "b": 38})
        self.assertIn("42", words)
        failed, words = self.use(session, "server-everything.get-env", {})
        self.assertNotIn(self.daemon.user, words)  # nothing of the operator's environment

    def test_a_server_that_cannot_start_yet_has_its_list_held(self):
        files = {"package.json": json.dumps({"bin": "server.js"}),
                 "server.js": 'console.error("KEY is missing"); process.exit(3);'}
        self.registry.add("needs-key", "1.0.0", files)
        code, out, err = self.daemon.install("npm:needs-key")
        self.assertEqual(code, 0, err)
        self.assertIn("it does not start yet", out)
        self.assertIn("plugin tools needs-key --approve", out)
        status, answer = self.daemon.api("GET", "/plugins/needs-key/tools")
        self.assertEqual(answer["tools"], [])

    def test_a_node_below_the_home_is_shown_and_given_to_read(self):
        folder = os.path.realpath(os.path.join(self.daemon.user, ".nvm/versions/node/v99.1.0"))
        os.makedirs(folder + "/bin")
        shutil.copy(os.path.realpath(shutil.which("node")), folder + "/bin/node")
        self.registry.add("needs-new", "1.0.0", package(engines={"node": ">=99"}))
        code, out, err = self.daemon.install("npm:needs-new", "--", "hello")
        self.assertEqual(code, 0, err)
        self.assertIn(f"read:fs:{folder}", out)
        self.assertIn(f"runs: {folder}/bin/node", out)
        self.assertIn("✓ Approved 1 tool", out)
        failed, words = self.use(self.session("needs-new"), "needs-new.words", {})
        self.assertIn("hello", words)

    def test_the_second_yes_is_asked_for_with_every_word_of_the_tools(self):
        self.registry.add("asked", "1.0.0", package())
        command = [KAGED, "--home", self.daemon.home, "plugin", "install", "npm:asked"]
        with Terminal(command, self.daemon.environment()) as terminal:
            terminal.read_until("Install asked?")
            terminal.type("y\n")
            terminal.read_until("Approve these tools?")
            self.assertIn("new asked.words", terminal.raw)
            self.assertIn('parameters: {"type":"object"}', terminal.raw)
            terminal.type("n\n")
            terminal.read_until("plugin tools asked --approve")
        status, answer = self.daemon.api("GET", "/plugins/asked/tools")
        self.assertEqual([tool["state"] for tool in answer["tools"]], ["new"])
        code, out, err = self.daemon.cli("plugin", "tools", "asked", "--approve", "--yes")
        self.assertEqual(code, 0, err)


if __name__ == "__main__":
    main()
