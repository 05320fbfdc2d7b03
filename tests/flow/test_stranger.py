"""A plugin as it is published for the original host: little stands between it and the cage."""
import json
import os
import shutil
import subprocess
import tempfile

from harness import Daemon, FlowTest, main, wait_for

PACKAGE = "@can1/plugin-oh-my-pi"
MANIFEST = f"""\
name: oh-my-pi
package: "{PACKAGE}"
version: 1.4.2
kaged_api: 1
description: Presets for pi.
command: [./plugin.py]
capabilities: []
tools:
  - name: preset_list
    description: Lists presets.
config_schema:
  type: object
  properties:
    isolation: {{ type: string, enum: [agent, project], default: agent }}
system_config_schema:
  type: object
  properties:
    api_token: {{ type: string, sensitive: true }}
  required: [api_token]
methods: [preset.install]
"""
# The handshake lists the tools among the methods, with and without the plugin's name.
PROGRAM = """\
#!/usr/bin/env python3
import json, sys

config = None
for line in sys.stdin:
    message = json.loads(line)
    method, result = message["method"], {"status": "ok"}
    if method == "initialize":
        result = {"name": "oh-my-pi", "version": "1.4.2", "api_version": 1,
                  "methods": ["preset.install", "oh-my-pi.preset_list", "preset_list"],
                  "notifications": [], "capabilities_used": []}
    elif method == "config.update":
        config = message["params"]["config"]
    elif method in ("preset.install", "oh-my-pi.preset_list"):
        result = message["params"].get("_config", config)
    elif method == "shutdown":
        break
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
PROJECT = f"""\
version: 1
name: music
primary:
  plugins:
    pi:
      package: "{PACKAGE}"
      config: {{ isolation: project }}
"""


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, mode)


class Stranger(FlowTest):
    @classmethod
    def setUpClass(cls):
        cls.base = tempfile.mkdtemp(prefix="kg-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.base)
        folder = os.path.join(cls.base, "oh-my-pi")
        write(os.path.join(folder, "kaged-plugin.yaml"), MANIFEST)
        write(os.path.join(folder, "plugin.py"), PROGRAM, 0o755)
        daemon = Daemon(enabled=[])
        daemon.write_local(f'[plugins."{PACKAGE}".system_config]\napi_token = "tok-1234"\n')
        cls.share(daemon)
        code, out, said = daemon.cli("plugin", "install", "--yes", folder)
        assert code == 0, said + out
        code, out, said = daemon.cli("plugin", "enable", "oh-my-pi")
        assert code == 0, said + out
        cls.root = daemon.write_project("music", PROJECT)
        status, answer = daemon.api("POST", "/projects", {"path": cls.root})
        assert status == 200, answer

    def test_tools_among_the_methods_of_the_handshake_draw_no_warning(self):
        self.assertEqual(self.daemon.audit("plugin.methods_differ"), [])
        self.assertNotIn("methods differ", self.daemon.log())

    def test_a_package_may_be_called_plugin_and_the_name(self):
        with open(os.path.join(self.daemon.home, "local.toml")) as file:
            self.assertIn(f'[plugins."{PACKAGE}"]', file.read())
        project = self.daemon.api("GET", "/projects/music")[1]
        self.assertEqual(project["state"], "active", project)

    def test_secrets_may_stand_in_a_table_system_config(self):
        config = self.daemon.call("oh-my-pi", "preset.install")
        self.assertEqual(config["api_token"], "tok-1234")
        code, out, _ = self.daemon.cli("config", "get",
                                       f'plugins."{PACKAGE}".system_config.api_token')
        self.assertEqual((code, out), (0, "[secret]\n"))

    def test_isolation_inside_config_counts_where_the_declaration_has_none(self):
        status, agent = self.daemon.api("GET", "/projects/music/agents/primary")
        self.assertEqual(status, 200, agent)
        use, = agent["plugins"]
        self.assertEqual(use["isolation"], "project")
        session = self.daemon.api("POST", "/projects/music/sessions", {})[1]["id"]
        status, answer = self.daemon.api("POST",
                                         f"/sessions/{session}/tools/oh-my-pi.preset_list", {})
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["result"]["isolation"], "project", answer)


class Checkout(FlowTest):
    def test_a_checkout_without_its_packages_says_that_a_prepared_folder_is_wanted(self):
        base = tempfile.mkdtemp(prefix="kg-", dir="/tmp")
        self.addCleanup(shutil.rmtree, base)
        folder = os.path.join(base, "pi")
        write(os.path.join(folder, "kaged-plugin.yaml"),
              MANIFEST.replace(PACKAGE, "oh-my-pi").replace("required: [api_token]", "")
              + "process: shared\nstart: daemon\n")
        write(os.path.join(folder, "package.json"),
              json.dumps({"dependencies": {"@kaged/plugin-sdk": "^1.0.0"}}))
        write(os.path.join(folder, "plugin.py"),
              "#!/bin/sh\necho \"Error: Cannot find module '@kaged/plugin-sdk'\" >&2\nexit 1\n", 0o755)
        for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b.c",
                                                    "commit", "-q", "-m", "first"]):
            subprocess.run(["git", "-C", folder, *words], check=True)
        with Daemon(enabled=[], config={"limits.restart_failures": 1}) as daemon:
            code, out, said = daemon.cli("plugin", "install", "--yes", f"file://{folder}")
            self.assertEqual(code, 0, said)
            self.assertIn("Install a folder in which npm ci was run", out)
            code, _, said = daemon.cli("plugin", "enable", "oh-my-pi")
            self.assertEqual(code, 1, said)
            self.assertIn("Cannot find module '@kaged/plugin-sdk'", said)
            self.assertIn("hint: its packages are not in its folder", said)


if __name__ == "__main__":
    main()
