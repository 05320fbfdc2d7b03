"""Packages are looked at in a cage: whatever one does there, it ends with a description or a sentence.

The program `discoverer` of tests/cage is that part of the daemon alone.
"""
import json
import os
import subprocess
import tempfile

import packages
import python_runtime
from harness import BUILD, PATIENCE, FlowTest, main

EXAMPLE = os.path.join(python_runtime.SDK, "example")
SHARE = os.path.join(os.path.dirname(python_runtime.TREE), "share/kaged")

MANIFEST = """
name: shout
version: 1.2.0
kaged_api: 1
description: Says it louder.
command: [./shout]
capabilities: ["net:api.example.com:443"]
tools:
  - {name: shout, description: Says it louder., parameters_schema: {type: object}}
"""
BLOCK = """
catalog:
  pid: com.example.shout
  tag: words
  stateless: false
  settings_schema:
    - {key: volume, type: int, description: How loud, default: 3}
    - {key: token, type: str, description: A key, required: true, sensitive: true}
"""


class Discoverer:
    def __init__(self, config):
        self.process = subprocess.Popen([os.path.join(BUILD, "tests/cage/discoverer"), config], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env={**os.environ, "KAGED_SHARE": SHARE})

    def ask(self, folder):
        self.process.stdin.write(folder + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors


class DiscoverTest(FlowTest):
    limits = {"discover_ms": 60000}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        subprocess.run([os.path.join(os.path.dirname(SHARE), "../../scripts/share"), "cadence"], check=True,
                       stdout=subprocess.DEVNULL)
        tree = python_runtime.root()
        base = tempfile.TemporaryDirectory(prefix="kaged-discover-")
        cls.addClassCleanup(base.cleanup)
        cls.base = base.name
        cls.config = os.path.join(cls.base, "config.toml")
        cls.write_config(f'[catalog.runtimes.python]\nroot = "{tree}"\n' if tree else "")
        cls.discoverer = Discoverer(cls.config)
        cls.addClassCleanup(cls.end_discoverer)

    @classmethod
    def write_config(cls, text):
        with open(cls.config, "w") as file:
            file.write(text + "".join(f"[limits]\n{key} = {value}\n" for key, value in cls.limits.items()))

    @classmethod
    def end_discoverer(cls):
        code, errors = cls.discoverer.close()
        assert code == 0, errors

    def folder(self):
        return tempfile.mkdtemp(prefix="package-", dir=self.base)

    def discover(self, files=(), **parts):
        return self.discoverer.ask(packages.write(self.folder(), files, **parts))

    def refused(self, *words, **package):
        answer = self.discover(**package)
        self.assertEqual(answer.get("code"), "invalid_source", answer)
        for word in words:
            self.assertIn(word, answer["message"])


class Described(DiscoverTest):
    def test_the_example_is_described(self):
        package = self.discoverer.ask(EXAMPLE)["package"]
        self.assertEqual((package["kind"], package["pid"]), ("python", "com.example.parcels"))
        self.assertEqual([tool["name"] for tool in package["tools"]], ["find_parcels", "estimate_delivery"])
        self.assertEqual(package["logo"]["media_type"], "image/png")

    def test_it_is_alone_in_its_cage(self):
        package = self.discover(before="""
import os, socket
found = []
for path in ("/home", "/root", "/etc/passwd", "/work", "/var"):
    if os.path.exists(path):
        found.append(path)
try:
    socket.create_connection(("127.0.0.1", 22), 2)
    found.append("network")
except OSError:
    pass
try:
    open("/package/new", "w")
    found.append("writes")
except OSError:
    pass
for program in ("/bin/sh", "/usr/bin/env"):
    try:
        os.posix_spawn(program, [program], {})
        found.append(program)
    except OSError:
        pass
""", metadata=", capabilities=found or ['nothing']")["package"]
        self.assertEqual(package["capabilities"], ["nothing"])

    def test_a_plugin_of_kaged_is_described_by_its_manifest(self):
        folder = packages.put(self.folder(), {"kaged-plugin.yaml": MANIFEST + BLOCK, "shout": "#!/bin/sh\n"})
        package = self.discoverer.ask(folder)["package"]
        self.assertEqual((package["kind"], package["pid"], package["version"]), ("kaged", "com.example.shout", "1.2.0"))
        self.assertEqual((package["stateless"], package["tag"]), (False, "words"))
        self.assertEqual(package["declares"], ["net:api.example.com:443"])
        self.assertEqual(package["settings_schema"][0], {
            "key": "volume", "name": "volume", "type": "int", "description": "How loud", "default": 3,
            "required": False, "sensitive": False})
        self.assertEqual(package["tools"][0]["name"], "shout")

    def test_a_bundle_is_described_by_its_own_file(self):
        bundle = {"manifest_version": "0.3", "name": "echoer", "version": "0.3.1", "description": "Echoes.",
                  "author": {"name": "Ada"},
                  "server": {"type": "python", "entry_point": "server.py",
                             "mcp_config": {"command": "python3", "args": ["${__dirname}/server.py"], "env": {}}},
                  "user_config": {"level": {"type": "number", "title": "Level", "description": "How loud", "default": 2},
                                  "key": {"type": "string", "title": "Key", "description": "A key",
                                          "required": True, "sensitive": True}}}
        folder = packages.put(self.folder(), {"manifest.json": json.dumps(bundle), "server.py": ""})
        answer = self.discoverer.ask(folder)
        package = answer["package"]
        self.assertEqual((package["kind"], package["pid"], package["version"]), ("mcpb", "mcpb.echoer", "0.3.1"))
        self.assertEqual([(item["key"], item["type"], item["sensitive"]) for item in package["settings_schema"]],
                         [("level", "float", False), ("key", "str", True)])

    def test_manifests_that_cannot_be(self):
        for text, words in ((MANIFEST, "no catalog: block"), (MANIFEST + "catalog: {pid: shout}\n", "pid"),
                            (MANIFEST + "catalog: {pid: a.b, settings_schema: [{key: a, type: int, description: d, default: x}]}\n",
                             "default"),
                            (MANIFEST + "catalog: {pid: a.b, is_specialized: true}\n", "system_prompt"),
                            ("name: [", "kaged-plugin.yaml")):
            with self.subTest(words=words):
                answer = self.discoverer.ask(packages.put(self.folder(), {"kaged-plugin.yaml": text}))
                self.assertEqual(answer.get("code"), "invalid_source", answer)
                self.assertIn(words, answer["message"])


class Misbehaving(DiscoverTest):
    def test_none_and_two(self):
        answer = self.discoverer.ask(packages.put(self.folder(), {"readme.txt": ""}))
        self.assertIn("there is no plugin.py", answer["message"])
        answer = self.discoverer.ask(packages.put(self.folder(), {"a/plugin.py": "", "b/plugin.py": ""}))
        self.assertIn("2 files plugin.py", answer["message"])

    def test_one_that_prints_is_taken(self):
        self.assertIn("package", self.discover(before="print('{}' * 100000)"))

    def test_one_that_exits(self):
        self.refused("exited with code 3 before it described itself", before="import os; os._exit(3)")
        self.refused("exited with code 0 before", before="import os; os._exit(0)")

    def test_one_that_raises(self):
        self.refused("cannot be imported: RuntimeError: not today", before="raise RuntimeError('not today')")

    def test_one_that_is_killed(self):
        self.refused("ended by signal", before="import os; os.kill(os.getpid(), 9)")

    def test_one_that_forks_without_end(self):
        self.refused("no more processes", before="""
import os
while True:
    try:
        if os.fork() == 0:
            import time
            time.sleep(600)
    except OSError as error:
        raise RuntimeError("no more processes") from None
""")
        self.assertIn("package", self.discover())  # others are unaffected

    def test_one_that_takes_all_memory(self):
        self.refused("memory", before="hoard = [bytearray(1 << 24) for _ in range(200)]")

    def test_metadata_of_a_hundred_megabytes(self):
        self.refused("100000000 characters", metadata=", capabilities=['x' * 10**8]")

    def test_one_that_speaks_for_the_runner(self):
        write = "import os\nfor fd in range(3, 10):\n    try:\n        os.write(fd, {0})\n    except OSError:\n        pass\nos._exit(0)"
        self.refused("not the document", before=write.format("b'nonsense'"))
        self.refused("not the document", before=write.format("b'[]'"))
        self.refused("larger than 4 MiB", before=write.format("b'x' * (6 << 20)"))
        self.refused("the package's description", before=write.format("b'{\"package\": {\"pid\": 3}}'"))
        lies = {"pid": "com.example.say", "name": "n", "version": "1.0", "description": "d", "capabilities": [],
                "dependencies": [], "stateless": True, "is_specialized": True, "is_scoped": False, "tools": [],
                "settings_schema": [{"key": "a", "type": "int", "description": "d", "default": "abc"}], "kind": "kaged"}
        self.refused("settings_schema/0/default", before=write.format(json.dumps({"package": lies}).encode()))
        lies["settings_schema"] = []
        lies["tools"] = [{"name": "t", "description": "d", "parameters": {"type": "nonsense"}}]
        self.refused("tool t: its schema", before=write.format(json.dumps({"package": lies}).encode()))


class Late(DiscoverTest):
    limits = {"discover_ms": 4000}

    def test_one_that_hangs(self):
        self.refused("did not describe itself within 4000 ms", before="import time; time.sleep(600)")
        self.refused("did not describe itself within 4000 ms", before="while True: pass")


class Runtimes(DiscoverTest):
    def test_a_runtime_that_is_missing_names_the_command(self):
        config = os.path.join(self.base, "missing.toml")
        with open(config, "w") as file:
            file.write(f'[catalog.runtimes.python]\nroot = "{self.base}/nowhere"\n')
        discoverer = Discoverer(config)
        answer = discoverer.ask(EXAMPLE)
        self.assertEqual(discoverer.close()[0], 0)
        self.assertEqual(answer["code"], "invalid_config")
        self.assertIn("nowhere/usr", answer["message"])
        self.assertIn("python-runtime FOLDER", answer["hint"])

    def test_the_operators_wheels_are_there(self):
        wheels = os.path.join(self.base, "wheels")
        packages.wheel(wheels, "kestrel", "1.3", "A = 1")
        config = os.path.join(self.base, "wheels.toml")
        with open(self.config) as file:
            text = file.read().replace("[limits]", f'wheels = "{wheels}"\n[limits]')
        if "[catalog" not in text:
            text = "[catalog.runtimes.python]\n" + text
        with open(config, "w") as file:
            file.write(text)
        discoverer = Discoverer(config)
        answer = discoverer.ask(packages.write(self.folder(), before="import kestrel", metadata=', dependencies=["kestrel>=1"]'))
        self.assertEqual(discoverer.close()[0], 0)
        self.assertIn("package", answer, answer)


if __name__ == "__main__":
    main()
