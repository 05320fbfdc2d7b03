"""kaged plugin test and replay of MCP servers: real ones keep every rule, each fault has its name."""
import json
import os
import signal
import subprocess

import faulty_mcp
import kit
from harness import KAGED, ROOT, Daemon, FlowTest, main, wait_for

MODULES = os.path.join(ROOT, "build/npm/tests/node_modules")
BROKEN = {
    "": set(),
    "asks": {"mcp.request"},
    "bad schema": {"mcp.tools"},
    "banner": {"stdout.json"},
    "cancel kills": {"cancel.call", "cancel.unknown"},
    "dies": {"mcp.tool.answer"},
    "falls": {"progress.call"},
    "knows all": {"mcp.tool.unknown"},
    "misfit": {"mcp.tool.result"},
    "nameless": {"mcp.info"},
    "no content": {"mcp.tool.result"},
    "no ping": {"mcp.ping"},
    "odd news": {"mcp.notification"},
    "odd prompt": {"mcp.prompts"},
    "old": {"mcp.greeting"},
    "other tools": {"mcp.tools_same"},
    "takes all": {"mcp.tool.invalid"},
    "twins": {"mcp.tools"},
    "unread": {"mcp.resources"},
}
WARNED = {"hidden words": {"mcp.described"}, "stays": {"mcp.eof"}, "undescribed": {"mcp.described"}}

FROM_NPM = """\
name: {name}
version: 1.0.0
kaged_api: 1
protocol: mcp
description: From npm.
command: [/usr/bin/env, node, {modules}/@modelcontextprotocol/server-{name}/dist/index.js, "${{data_dir}}"]
env: {{ MEMORY_FILE_PATH: "${{data_dir}}/memory.json" }}
capabilities: ["read:fs:{modules}", "write:fs:config:/"]
"""


class McpKit(FlowTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.temporary = kit.temporary()
        cls.folder = cls.temporary.name

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()
        super().tearDownClass()

    def write(self, name, manifest, **files):
        folder = os.path.join(self.folder, name)
        os.makedirs(folder)
        for path, text in {"kaged-plugin.yaml": manifest, **files}.items():
            with open(os.path.join(folder, path), "w") as file:
                file.write(text)
            os.chmod(file.name, 0o755)
        return folder

    def faulty(self, fault, name):
        return self.write(name, faulty_mcp.MANIFEST.format(fault=fault),
                          **{"server.py": faulty_mcp.SERVER})


class Rules(McpKit):
    def test_each_fault_of_a_server_is_named(self):
        def run(fault):
            return kit.kit(self.faulty(fault, "fault-" + fault.replace(" ", "-")), "--timeout", "40")
        for fault, (code, report, words) in kit.at_once(run, sorted(BROKEN)).items():
            with self.subTest(fault):
                self.assertEqual((code, words), (1 if BROKEN[fault] else 0, ""))
                self.assertEqual(kit.found(report), BROKEN[fault], report["findings"])

    def test_what_is_not_good_but_allowed_is_a_warning(self):
        def run(fault):
            return kit.kit(self.faulty(fault, "warned-" + fault.replace(" ", "-")), "--timeout", "40")
        for fault, (code, report, _) in kit.at_once(run, sorted(WARNED)).items():
            with self.subTest(fault):
                warned = {rule["rule"] for rule in report["rules"] if rule["status"] == "warned"}
                self.assertEqual((code, warned), (0, WARNED[fault]), report["findings"])

    def test_servers_from_npm_keep_every_rule(self):
        def run(name):
            folder = self.write(name, FROM_NPM.format(name=name, modules=MODULES))
            return kit.kit(folder, "--timeout", "60")
        for name, (code, report, words) in kit.at_once(run, ["filesystem", "memory"]).items():
            self.assertEqual((name, report["findings"], code, words), (name, [], 0, ""))

    def test_a_modern_server_is_tried_in_its_era(self):
        folder = kit.stage("mcp-server", self.folder)
        path = os.path.join(folder, "kaged-plugin.yaml")
        with open(path) as file:
            text = file.read().replace("ERA: legacy", "ERA: modern")
        with open(path, "w") as file:
            file.write(text)
        code, report, _ = kit.kit(folder, "--timeout", "40", "--rule",
                                  "mcp.greeting,mcp.tools,mcp.ping,mcp.tool.answer")
        self.assertEqual({rule["rule"]: rule["reason"] for rule in report["rules"]}["mcp.ping"],
                         "its era has no ping")
        self.assertEqual((code, report["findings"]), (0, []))

    def test_rules_of_the_other_protocol_are_not_told_and_not_asked_for(self):
        folder = self.faulty("", "plain")
        code, report, _ = kit.kit(folder, "--rule", "mcp.info")
        self.assertEqual(code, 0)
        self.assertNotIn("initialize.answer", [rule["rule"] for rule in report["rules"]])
        code, _, words = kit.kit(folder, "--rule", "initialize.answer")
        self.assertEqual(code, 2)
        self.assertIn("initialize.answer is not a rule for faulty, which speaks MCP", words)
        code, _, words = kit.kit(kit.stage("good-python", self.folder), "--rule", "mcp.info")
        self.assertEqual(code, 2)
        self.assertIn("which speaks kaged's own protocol", words)


class Replay(McpKit):
    """What a daemon and a server said is played against another build of the server."""

    def record(self, daemon):
        path = os.path.join(daemon.base, "t.trace")
        daemon.wait_status("mcp-server", lambda status: status["starts"] > 0, "its first start")
        daemon.api("POST", "/plugins/mcp-server/trace", {"record": True})
        starts = daemon.status("mcp-server")["starts"]
        daemon.act("mcp-server", "restart")
        daemon.wait_restarted("mcp-server", starts)
        daemon.call("mcp-server", "resources%2Fread", {"uri": "test:team"})
        code, _, error = daemon.cli("plugin", "trace", "mcp-server", "--recorded", "-o", path)
        self.assertEqual(code, 0, error)
        return path

    def replay(self, trace, folder):
        done = subprocess.run([KAGED, "--home", "/nonexistent/kaged", "--json", "plugin", "replay",
                               trace, folder], capture_output=True, text=True, timeout=280)
        self.assertEqual(done.stderr, "")
        return done.returncode, json.loads(done.stdout)

    def check(self, era):
        daemon = Daemon(["mcp-server"])
        daemon.edit_manifest("mcp-server", "ERA: legacy", f"ERA: {era}")
        with daemon:
            trace = self.record(daemon)
            folder = os.path.join(self.folder, era, "mcp-server")
            kit.stage("mcp-server", os.path.dirname(folder))
            with open(os.path.join(folder, "kaged-plugin.yaml")) as file:
                manifest = file.read().replace("ERA: legacy", f"ERA: {era}")
            with open(os.path.join(folder, "kaged-plugin.yaml"), "w") as file:
                file.write(manifest)
            code, same = self.replay(trace, folder)
            self.assertEqual((code, same["same"]), (0, True), same)
            methods = {step["method"] for step in same["steps"] if step["outcome"] == "same"}
            self.assertLessEqual({"tools/list", "resources/read"}, methods)
            with open(os.path.join(folder, "server.py")) as file:
                program = file.read()
            with open(os.path.join(folder, "server.py"), "w") as file:
                file.write(program.replace("Adds two numbers.", "Adds two figures.", 1))
            code, other = self.replay(trace, folder)
            self.assertEqual((code, other["same"]), (1, False))
            differs = [step for step in other["steps"] if step["outcome"] == "differs"]
            self.assertEqual({step["method"] for step in differs}, {"tools/list"})
            self.assertEqual(differs[0]["differences"][0]["path"], "/result/tools/0/description")

    def test_another_build_of_a_legacy_server_is_shown_by_what_differs(self):
        self.check("legacy")

    def test_another_build_of_a_modern_server_is_shown_by_what_differs(self):
        self.check("modern")


class Dev(McpKit):
    plugins = []

    def descriptions(self):
        status, answer = self.daemon.api("GET", "/plugins/faulty/tools")
        if status != 200:
            return []
        return [(tool["description"], tool["state"]) for tool in answer["tools"]]

    def test_a_server_is_run_from_its_folder_and_anew_after_each_change(self):
        folder = self.faulty("", "dev")
        run = subprocess.Popen([KAGED, "--home", self.daemon.home, "plugin", "dev", "--yes", folder],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, start_new_session=True,
                               env=self.daemon.environment())
        self.addCleanup(run.stdout.close)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        wait_for(lambda: self.descriptions() == [("Adds two numbers.", "approved")],
                 "its tools, approved")
        with open(os.path.join(folder, "server.py~"), "w") as file:
            file.write(faulty_mcp.SERVER.replace("Adds two numbers.", "Adds two figures."))
            os.fchmod(file.fileno(), 0o755)
        os.rename(file.name, os.path.join(folder, "server.py"))
        wait_for(lambda: self.descriptions() == [("Adds two figures.", "approved")],
                 "the changed tools, approved")
        run.send_signal(signal.SIGINT)
        self.assertIn("tools/list", run.stdout.read())


if __name__ == "__main__":
    main()
