"""The runner of packages and its SDK, over pipes, without a daemon: what they are told and what they say."""
import json
import os
import subprocess
import tempfile

import packages
import python_runtime
from harness import PATIENCE, FlowTest, main

EXAMPLE = os.path.join(python_runtime.SDK, "example")


class Talk:
    """One process of a package, spoken to as the daemon does."""

    def __init__(self, test, folder, config=None, wheels=()):
        self._process = test.start("run", folder, "1.0.0", *wheels)
        self._next = 0
        self.early = []  # answers that came before the one that was waited for
        self.ask("initialize", {"plugin_name": "pkg"})
        self.loaded = self.ask("config.update", {"config": config or {}})

    def send(self, method, params=None, notify=False):
        self._next += 1
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        if not notify:
            message["id"] = self._next
        self._process.stdin.write((json.dumps(message) + "\n").encode())
        self._process.stdin.flush()
        return self._next

    def wait(self, number):
        for answer in self.early:
            if answer["id"] == number:
                return answer
        while True:
            answer = json.loads(self._process.stdout.readline())
            if answer["id"] == number:
                return answer
            self.early.append(answer)

    def ask(self, method, params=None):
        return self.wait(self.send(method, params))

    def result(self, method, params=None):
        return self.ask(method, params)["result"]

    def end(self):
        self.send("shutdown", notify=True)
        self._process.stdin.close()
        left = self._process.stdout.read()
        errors = self._process.stderr.read().decode()
        code = self._process.wait(PATIENCE)
        return code, left, errors

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(PATIENCE)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            pipe.close()


class RunnerTest(FlowTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.python, cls.environment = python_runtime.command(python_runtime.root())

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kaged-package-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, *words):
        return subprocess.Popen([*self.python, "-B", python_runtime.SDK, *words], env=self.environment,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def discover(self, folder, *wheels):
        process = self.start("discover", folder, *wheels)
        said, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, errors)
        return json.loads(said)

    def package(self, files=(), **parts):
        return packages.write(self.folder, files, **parts)

    def refusal(self, stage, *words, wheels=()):
        error = self.discover(self.folder, *wheels)["error"]
        self.assertEqual(error["stage"], stage, error)
        for word in words:
            self.assertIn(word, error["message"])


class Discovery(RunnerTest):
    def test_the_example_is_described_whole(self):
        found = self.discover(EXAMPLE)["package"]
        self.assertEqual((found["pid"], found["version"], found["stateless"]), ("com.example.parcels", "1.0.0", True))
        self.assertTrue(found["is_specialized"] and found["is_scoped"])
        self.assertEqual([item["key"] for item in found["settings_schema"]], ["api_key", "carrier", "max_results"])
        self.assertEqual(found["settings_schema"][0]["name"], "api_key")
        self.assertTrue(found["settings_schema"][0]["required"] and found["settings_schema"][0]["sensitive"])
        self.assertEqual([tool["name"] for tool in found["tools"]], ["find_parcels", "estimate_delivery"])
        self.assertEqual(found["tools"][0]["parameters"]["required"], ["query"])
        self.assertTrue(found["tools"][1]["streams"])
        self.assertEqual(found["logo"]["media_type"], "image/png")
        self.assertIn("Never guess", found["system_prompt"])

    def test_a_tool_without_a_schema_gets_one_of_its_signature(self):
        self.package()
        tool = self.discover(self.folder)["package"]["tools"][0]
        self.assertEqual(tool["description"], "Says it.")
        self.assertEqual(tool["parameters"]["required"], ["text"])
        self.assertEqual(tool["parameters"]["properties"]["times"]["type"], "integer")

    def test_plain_and_relative_imports_both_work_and_its_init_is_not_run(self):
        self.package({"one.py": "A = 1", "two.py": "B = 2", "__init__.py": "raise SystemExit"},
                     before="from .one import A\nimport two\nassert A + two.B == 3")
        self.assertEqual(self.discover(self.folder)["package"]["pid"], "com.example.say")

    def test_one_folder_below_the_top_is_found(self):
        packages.write(os.path.join(self.folder, "say"))
        self.assertEqual(self.discover(self.folder)["package"]["pid"], "com.example.say")

    def test_tools_that_are_made_by_initialize_are_found(self):
        self.package(agent="""
            def initialize(self, config):
                self.tools = [say] if config["key"] else []
            def get_tools(self):
                return self.tools
            """, decorator='@plugin_settings([{"key": "key", "type": "str", "description": "k", "required": True}])')
        self.assertEqual(len(self.discover(self.folder)["package"]["tools"]), 1)

    def test_what_it_prints_does_not_disturb(self):
        self.package(before="import os\nprint('{\"package\": 1}')\nos.write(1, b'noise')\nos.system('echo more noise')")
        self.assertEqual(self.discover(self.folder)["package"]["pid"], "com.example.say")

    def test_a_wheel_of_its_own_or_of_the_operator_serves(self):
        self.package(before="import kestrel", metadata=', dependencies=["kestrel>=1"]')
        self.refusal("dependencies", "kestrel")
        packages.wheel(os.path.join(self.folder, "wheels"), "kestrel", "1.2", "A = 1")
        self.assertEqual(self.discover(self.folder)["package"]["dependencies"], ["kestrel>=1"])
        os.remove(os.path.join(self.folder, "wheels/kestrel-1.2-py3-none-any.whl"))
        with tempfile.TemporaryDirectory() as wheels:
            packages.wheel(wheels, "kestrel", "1.3", "A = 1")
            self.assertEqual(self.discover(self.folder, wheels)["package"]["pid"], "com.example.say")


class Refusals(RunnerTest):
    def test_none_and_two(self):
        packages.put(self.folder, {"readme.txt": "x"})
        self.refusal("structure", "there is no plugin.py")
        packages.put(self.folder, {"a/plugin.py": "", "b/plugin.py": ""})
        self.refusal("structure", "2 files plugin.py", "a/plugin.py")

    def test_import_that_raises_exits_or_does_not_parse(self):
        self.package(before="raise RuntimeError('not today')")
        self.refusal("import", "RuntimeError: not today")
        self.package(before="import sys; sys.exit(3)")
        self.refusal("import", "exits")
        self.package(before="def (:")
        self.refusal("import", "SyntaxError")
        self.package(before="import qdrant_client")
        self.refusal("dependencies", "qdrant_client")

    def test_no_class_and_no_agent(self):
        packages.put(self.folder, {"plugin.py": "from cadence_sdk import BasePlugin"})
        self.refusal("class", "BasePlugin")
        self.package(plugin="@staticmethod\ndef create_agent():\n    return 3\n")
        self.refusal("agent", "int")
        self.package(before="class Neither(BaseAgent):\n    def get_tools(self):\n        return []\n",
                     plugin="@staticmethod\ndef create_agent():\n    return Neither()\n")
        self.refusal("agent", "neither")
        self.package(agent="def get_system_prompt(self):\n    return '  '\n")
        self.refusal("agent", "system prompt")

    def test_metadata_that_cannot_be(self):
        for metadata, words in ((", capabilities=['x' * 10**8]", "100000000 characters"),
                                (", capabilities=3", "capabilities"), (", stateless='yes'", "stateless"),
                                (", sdk_version='>=3'", "2.1.0"), (", sdk_version='soon'", "range"),
                                (", dependencies=['nowhere>=1', 'pydantic>=99']", "nowhere>=1"),
                                (", dependencies=['pydantic>=99']", "here is"),
                                (", dependencies=['--index-url=x']", "not a dependency"),
                                (", dependencies=['a @ https://h/a.whl']", "an address"),
                                (", dependencies=['a'] * 21", "20 may be")):
            with self.subTest(metadata=metadata):
                self.package(metadata=metadata)
                error = self.discover(self.folder)["error"]
                self.assertIn(words, error["message"])
        for field, value in (("pid", "nodots"), ("version", "1"), ("version", "1.x"), ("name", "")):
            with self.subTest(field=field, value=value):
                self.package(plugin=f"""
                    @staticmethod
                    def get_metadata():
                        fields = dict(pid="com.example.say", name="Say", version="1.0", description="d")
                        return PluginMetadata(**{{**fields, {field!r}: {value!r}}})
                    """)
                self.refusal("metadata", field)

    def test_settings_that_lie(self):
        for item, words in (('{"key": "a", "type": "int", "description": "d", "default": "abc"}', "type str"),
                            ('{"key": "a", "type": "number", "description": "d"}', "none of str"),
                            ('{"key": "a", "type": "int"}', "description"),
                            ('{"key": "a", "type": "int", "description": "d", "required": 1}', "required"),
                            ('{"key": "a", "type": "dict", "description": "d", "default": {"x": float("nan")}}', "not JSON"),
                            ('3', "a setting is a dict")):
            with self.subTest(item=item):
                self.package(plugin=f"@staticmethod\ndef get_settings_schema():\n    return [{item}]\n")
                self.refusal("settings", words)
        twice = '{"key": "a", "type": "int", "description": "d"}'
        self.package(decorator=f"@plugin_settings([{twice}, {twice}])")
        self.refusal("import", "twice")
        self.package(decorator=f"@plugin_settings([{twice}])",
                     plugin=f"@staticmethod\ndef get_settings_schema():\n    return [{twice}]\n")
        self.refusal("settings", "twice")

    def test_tools_that_cannot_be(self):
        for tools, words in (("3", "list"), ("[3]", "UvTool"), ("[say, say]", "two tools"),
                             ("[uvtool(name='a b')(lambda: 1)]", "letters, digits"), ("1 / 0", "ZeroDivisionError")):
            with self.subTest(tools=tools):
                self.package(agent=f"def get_tools(self):\n    return {tools}\n")
                self.refusal("tools", words)

    def test_a_logo_that_is_none(self):
        self.package({"logo.png": b"GIF89a"})
        self.refusal("logo", "image/png")


class Running(RunnerTest):
    def talk(self, config=None, wheels=()):
        return Talk(self, self.folder, config, wheels)

    def test_the_example_from_settings_to_cleanup(self):
        with Talk(self, EXAMPLE, {"api_key": "secret-42"}) as talk:
            self.assertIsNone(talk.loaded["result"])
            found = talk.result("pkg.find_parcels", {"query": "lisbon", "_context": {"request_id": "r"}})
            self.assertEqual(len(found["result"]["parcels"]), 2)
            self.assertEqual(found["result"]["carrier"], "Kestrel Express")
            self.assertNotIn("stream", found)
            told = talk.result("pkg.estimate_delivery", {"parcel_id": "KX-1001"})
            self.assertEqual(told["result"]["asked_with"], "42")
            self.assertEqual(told["stream"], {"parcel": "KX-1001", "days_left": 2})
            self.assertEqual(talk.ask("pkg.estimate_delivery", {"parcel_id": "none"})["error"]["message"],
                             "LookupError: there is no parcel none")
            anchor = talk.result("package.load_anchor", {"resource_id": "KX-1001"})
            self.assertTrue(anchor["found"])
            self.assertFalse(talk.result("package.load_anchor", {"resource_id": "KX-9"})["found"])
            self.assertIn("KX-1001", talk.result("package.scope_rules", {"context": anchor["context"]})["rules"])
            self.assertEqual(talk.result("package.health")["health"], {"status": "ok", "parcels": 3})
            self.assertEqual(talk.result("ping"), {"status": "ok"})
            self.assertEqual(talk.end()[:2], (0, b""))

    def test_arguments_are_checked_by_the_schema_first(self):
        with Talk(self, EXAMPLE, {"api_key": "k"}) as talk:
            for params, words in (({}, "query: Field required"), ({"query": ""}, "query: String"),
                                  ({"query": "a", "limit": "many"}, "limit"), ({"query": "a", "limit": 99}, "limit")):
                error = talk.ask("pkg.find_parcels", params)["error"]
                self.assertEqual(error["code"], -32602)
                self.assertIn(words, error["message"])
            self.assertEqual(talk.ask("pkg.nothing")["error"]["code"], -32601)

    def test_settings_that_it_refuses_and_missing_dependencies_fail_the_load(self):
        with Talk(self, EXAMPLE, {}) as talk:
            self.assertEqual(talk.loaded["error"]["code"], -32004)
            self.assertIn("initialize() raised KeyError", talk.loaded["error"]["message"])
        self.package(plugin="@staticmethod\ndef validate_dependencies():\n    return ['no ffmpeg here']\n")
        with self.talk() as talk:
            self.assertIn("no ffmpeg here", talk.loaded["error"]["message"])

    def test_prints_and_exits_of_tools_break_nothing(self):
        self.package(agent="""
            def get_tools(self):
                @uvtool
                def loud() -> str:
                    import os
                    print("{\\"jsonrpc\\": \\"2.0\\"}")
                    os.write(1, b"raw noise")
                    return "said"
                @uvtool
                def leave():
                    raise SystemExit(3)
                @uvtool
                async def leave_async():
                    raise SystemExit(3)
                @uvtool
                def odd():
                    return {1: {2, }, "f": object}
                return [loud, leave, leave_async, odd]
            """)
        with self.talk() as talk:
            self.assertEqual(talk.result("pkg.loud")["result"], "said")
            self.assertIn("SystemExit", talk.ask("pkg.leave")["error"]["message"])
            self.assertIn("SystemExit", talk.ask("pkg.leave_async")["error"]["message"])
            self.assertEqual(talk.result("pkg.odd")["result"]["1"], [2])
            self.assertEqual(talk.result("pkg.loud")["result"], "said")
            code, _, errors = talk.end()
            self.assertEqual(code, 0)
            self.assertIn("raw noise", errors)

    def test_plain_tools_run_side_by_side_and_async_ones_on_one_loop(self):
        self.package(before="import asyncio, threading\nboth = threading.Barrier(2)\nloops = set()", agent="""
            def get_tools(self):
                @uvtool
                def meet() -> int:
                    return both.wait(60)
                @uvtool
                async def where() -> int:
                    loops.add(id(asyncio.get_running_loop()))
                    await asyncio.sleep(0)
                    return len(loops)
                return [meet, where]
            async def cleanup(self):
                loops.add(id(asyncio.get_running_loop()))
                print("cleaned up, loops:", len(loops))
            """)
        with self.talk() as talk:
            first, second = talk.send("pkg.meet"), talk.send("pkg.meet")
            self.assertEqual({talk.wait(first)["result"]["result"], talk.wait(second)["result"]["result"]}, {0, 1})
            for _ in range(3):
                self.assertEqual(talk.result("pkg.where")["result"], 1)
            self.assertIn("cleaned up, loops: 1", talk.end()[2])

    def test_a_call_that_is_cancelled_ends(self):
        self.package(before="import asyncio", agent="""
            def get_tools(self):
                @uvtool
                async def wait() -> int:
                    await asyncio.sleep(600)
                return [wait]
            """)
        with self.talk() as talk:
            number = talk.send("pkg.wait")
            talk.send("kaged.cancel", {"id": number}, notify=True)
            self.assertEqual(talk.wait(number)["error"]["message"], "cancelled")

    def test_settings_change_only_with_the_process(self):
        self.package()
        with self.talk() as talk:
            self.assertEqual(talk.ask("config.update", {"config": {}})["error"]["code"], -32601)


if __name__ == "__main__":
    main()
