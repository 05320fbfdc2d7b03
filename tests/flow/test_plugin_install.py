"""Installing, upgrading, approving and uninstalling: what the operator sees, and what a yes does.

The dialogues are held on a real terminal, with a daemon and without one; both must read the same.
"""
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import tomllib

from harness import KAGED, PLUGINS, Daemon, FlowTest, at_once, main, wait_for
from terminal import CTRL_C, PROMPT, Terminal

PROGRAM = """#!/usr/bin/env python3
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "shutdown":
        break
    result = {{"status": "ok"}}
    if message.get("method") == "initialize":
        result = {{"name": "{name}", "version": "{version}", "api_version": 1,
                   "methods": ["pi.list"], "notifications": [], "capabilities_used": []}}
    if "id" in message:
        print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], "result": result}}), flush=True)
"""
CAPABILITIES = ["read:fs:/opt/oh-my-pi", "exec:bash:/opt/oh-my-pi", "net:[]"]
NEXT_CAPABILITIES = ["read:fs:/opt/oh-my-pi", "net:api.openai.com:443"]

FACTS = """\
  description: Presets for Pi.
  author: Ann Example
  license: MIT
  source: {source} (folder)
  files: 2 ({bytes})
  hash: {hash}
"""
INSTALL = """\
Validating manifest...
  name: oh-my-pi
  version: 1.4.2
  kaged_api: 1
{facts}\
  capabilities:
    - read:fs:/opt/oh-my-pi    may read /opt/oh-my-pi and below
    - net:[]                   may not reach the network
    ! exec:bash:/opt/oh-my-pi  may run bash, in any folder that it sees, and read /opt/oh-my-pi
        DANGEROUS: it is a shell or an interpreter: it runs any script

"""
INSTALLED = """\
✓ Installed oh-my-pi 1.4.2
  → enable with: kaged --home {home} plugin enable oh-my-pi
"""
UPGRADE = """\
Plugin oh-my-pi is already installed (version 1.4.2).
New version: 2.0.0
{facts}
Files:
  ~ kaged-plugin.yaml
  ~ plugin.py

Capabilities that stay:
  = read:fs:/opt/oh-my-pi    may read /opt/oh-my-pi and below

Capability changes:
  + net:api.openai.com:443   (NEW)      may reach api.openai.com, port 443
  - exec:bash:/opt/oh-my-pi  (REMOVED)  may run bash, in any folder that it sees, and read /opt/oh-my-pi
  - net:[]                   (REMOVED)  may not reach the network

"""


def manifest(version, capabilities, name="oh-my-pi", **more):
    declared = {"name": name, "version": version, "kaged_api": 1,
                "description": "Presets for Pi.", "author": "Ann Example", "license": "MIT",
                "command": ["./plugin.py"], "capabilities": capabilities, "methods": ["pi.list"],
                **more}
    return json.dumps({key: value for key, value in declared.items() if value is not None})


class Install(FlowTest):
    """A home without a daemon, unless a test or a subclass starts one."""
    with_daemon = False

    def setUp(self):
        self.daemon = Daemon([], config=self.config)
        self.addCleanup(self.daemon.discard)
        self.home = self.daemon.home
        self.sources = os.path.join(self.daemon.base, "sources")
        os.mkdir(self.sources)
        if self.with_daemon:
            self.daemon.start()
            self.addCleanup(self.daemon.stop)
        else:
            self.addCleanup(self.daemon.check_sanitizers)

    # what there is

    def source(self, version="1.4.2", capabilities=CAPABILITIES, name="oh-my-pi", text=None,
               program=PROGRAM, place="home", **more):
        """A folder with it; whatever was in that folder before is gone."""
        folder = os.path.join(self.sources, place, name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        with open(os.path.join(folder, "kaged-plugin.yaml"), "w") as file:
            file.write(text or manifest(version, capabilities, name, **more))
        with open(os.path.join(folder, "plugin.py"), "w") as file:
            file.write(program.format(name=name, version=version))
            os.fchmod(file.fileno(), 0o755)
        return folder

    def entry(self, name="oh-my-pi"):
        try:
            with open(os.path.join(self.home, "local.toml"), "rb") as file:
                return tomllib.load(file).get("plugins", {}).get(name)
        except FileNotFoundError:
            return None

    def installed(self):
        """The names of what was put there by hand, and of what the store has a version of."""
        plugins = os.path.join(self.home, "plugins")
        versions = os.path.join(plugins, ".store/versions")
        stored = os.listdir(versions) if os.path.isdir(versions) else []
        return sorted({name for name in os.listdir(plugins) if not name.startswith(".")} |
                      {name.rpartition("-")[0] for name in stored})

    def assert_untouched(self, before=None):
        """Nothing is in the store that was not there, and nothing waits in the quarantine."""
        self.assertEqual(self.installed(), before or [])
        quarantine = os.path.join(self.home, "plugins/.store/quarantine")
        wait_for(lambda: not os.path.isdir(quarantine) or not os.listdir(quarantine),
                 "an empty quarantine")

    # ways to speak

    def cli(self, *arguments):
        """Without a terminal anywhere."""
        done = subprocess.run([KAGED, "--home", self.home, *arguments], text=True, timeout=60,
                              stdin=subprocess.DEVNULL, capture_output=True,
                              env=self.daemon.environment(), start_new_session=True)
        return done.returncode, done.stdout, done.stderr

    def terminal(self, *arguments, **environment):
        return Terminal([KAGED, "--home", self.home, *arguments],
                        {**self.daemon.environment(), "NO_COLOR": "1", **environment})

    def talk(self, arguments, *answers):
        with self.terminal(*arguments) as terminal:
            return terminal.talk(*answers)

    def install(self, source, *flags):
        code, out, err = self.cli("plugin", "install", "--yes", *flags, source)
        self.assertEqual((code, err), (0, ""), out)
        return out

    def facts(self, source, text):
        """The block of facts, with what a test cannot know taken from the text itself."""
        size = re.search(r"  files: 2 \((.*)\)", text).group(1)
        digest = re.search(r"  hash: (sha256:[0-9a-f]{64})$", text, re.MULTILINE).group(1)
        return FACTS.format(source=source, bytes=size, hash=digest)


class Sources(Install):
    """A name is not what tells plugins apart."""

    def test_no_plugin_from_another_source_is_taken_by_a_plain_yes(self):
        first = self.source()
        self.install(first)
        self.assertEqual(self.entry()["installed_from"], f"folder:{first}")
        other = self.source("1.4.3", place="elsewhere")
        code, out, err = self.cli("plugin", "install", "--yes", other)
        self.assertEqual(code, 5, out + err)
        self.assertIn("ANOTHER SOURCE: this is another plugin of that name.\n"
                      f"  installed from: folder:{first}\n  this one from: folder:{other}\n", out)
        self.assertEqual(err, f"kaged: nothing was done: --yes does not replace oh-my-pi from "
                              f"folder:{first} by another plugin of that name, from folder:{other}\n"
                              "hint: if that is what you want, add --replace-source\n")
        self.assertEqual(self.entry()["installed"], "1.4.2")
        self.assert_untouched(["oh-my-pi"])
        self.install(other, "--replace-source")
        self.assertEqual(self.entry()["installed_from"], f"folder:{other}")
        self.install(self.source("1.4.4", place="elsewhere"))

    def test_a_terminal_asks_about_another_source_by_itself(self):
        self.install(self.source())
        other = self.source("1.4.3", place="elsewhere")
        code, text = self.talk(["plugin", "install", other], "y\n", "n\n")
        self.assertEqual(code, 5, text)
        self.assertIn(f"Replace oh-my-pi from folder:{self.sources}/home/oh-my-pi by this other "
                      "plugin? [y/N] n", text)
        self.assertEqual(self.entry()["installed"], "1.4.2")
        code, text = self.talk(["plugin", "install", other], "y\n", "y\n")
        self.assertEqual((code, self.entry()["installed"]), (0, "1.4.3"), text)

    def test_another_release_of_an_archive_is_of_the_same_source(self):
        for version in ("1.4.2", "1.4.3"):
            folder = self.source(version)
            shutil.make_archive(f"{self.sources}/oh-my-pi-{version}", "gztar", folder)
            self.install(f"{self.sources}/oh-my-pi-{version}.tar.gz")
        self.assertEqual(self.entry()["installed_from"], f"archive:{self.sources}/oh-my-pi")

    def test_what_came_with_kaged_is_of_one_source_wherever_that_is(self):
        environment = self.daemon.environment
        for place in ("usr", "usr-local"):
            share = os.path.join(self.sources, place)
            self.source(place=os.path.join(place, "plugins"))
            self.daemon.environment = lambda: {**environment(), "KAGED_SHARE": share}
            self.install("oh-my-pi")
            self.assertEqual(self.entry()["installed_from"], "kaged:oh-my-pi")


def path_setting(default, *prefixes):
    """The parts of a manifest that let a plugin write where its setting `store` points."""
    knob = {"type": "path", "label": "Store", "binds_to": "config.store", "default": default,
            "prefixes": list(prefixes)}
    return {"config_schema": {"type": "object",
                              "properties": {"store": {"type": "string", "default": default}}},
            "knobs": {"store": knob}}


class PathSettings(Install):
    """A setting that points to a path is a grant, and is asked for like one."""

    def test_no_path_setting_is_installed_that_was_not_shown(self):
        source = self.source(capabilities=[], **path_setting("project:/", "config:", "project:"))
        code, text = self.talk(["plugin", "install", source], "n\n")
        self.assertNotIn("capabilities: none", text)
        self.assertIn("- setting:store:project:/", text)
        self.assertIn("may read and write where its setting store points, below project:/, "
                      "now project:/\n", text)
        self.assertIn("- setting:store:config:/", text)
        source = self.source(capabilities=[], **path_setting("config:/a", "config:"))
        code, text = self.talk(["plugin", "install", source], "n\n")
        self.assertNotIn("project:/", text)
        self.assertIn("below config:/, now config:/a\n", text)

    def test_no_upgrade_widens_a_path_setting_by_a_plain_yes(self):
        self.install(self.source(capabilities=[]))
        code, out, err = self.cli("plugin", "install", "--yes", self.source(
            "1.4.3", [], **path_setting("config:/a", "config:")))
        self.assertEqual(code, 5, out + err)
        self.assertIn("new capabilities: setting:store:config:/", err)
        self.assertEqual(self.entry()["installed"], "1.4.2")
        self.install(self.source("1.4.3", [], **path_setting("config:/a", "config:")),
                     "--allow-new-capabilities")
        self.install(self.source("1.4.4", [], **path_setting("config:/b", "config:")))
        wider = self.source("1.5.0", [], **path_setting("config:/b", "config:", "project:"))
        code, _, err = self.cli("plugin", "install", "--yes", wider)
        self.assertEqual(code, 5)
        self.assertIn("new capabilities: setting:store:project:/", err)

    def test_hooks_roles_and_notifications_are_shown_at_a_first_install(self):
        source = self.source(hooks=["pre_compact"], roles=["compactor"],
                             notifications=["pi.changed"])
        code, text = self.talk(["plugin", "install", source], "n\n")
        self.assertIn("  roles: compactor\n  hooks: pre_compact\n  notifications: pi.changed\n"
                      "  capabilities:\n", text)

    def test_what_is_dangerous_stands_right_above_the_question(self):
        many = [f"read:fs:/opt/p{i}" for i in range(60)]
        source = self.source(capabilities=["exec:bash:/opt/oh-my-pi", *many])
        code, text = self.talk(["plugin", "install", source], "n\n")
        self.assertIn("DANGEROUS: it is a shell or an interpreter: it runs any script\n\n"
                      "Install oh-my-pi?", text)

    def test_of_many_files_ten_are_listed_and_the_rest_counted(self):
        self.install(self.source())
        source = self.source("2.0.0")
        for i in range(25):
            with open(os.path.join(source, f"more-{i:02}"), "w"):
                pass
        code, text = self.talk(["plugin", "install", source], "n\n")
        self.assertIn("  + more-09\n  + and 15 more\n  ~ 2 files\n", text)


class Dialogues(Install):
    """The documents' own, and those where the way to the store matters; with a daemon, too."""

    def test_manual_install_happy_path(self):
        source = self.source()
        code, text = self.talk(["plugin", "install", source], "y\n")
        expected = INSTALL.format(facts=self.facts(source, text)) + \
            "Install oh-my-pi? [y/N] y\n\n" + INSTALLED.format(home=self.home)
        self.assertEqual((code, text), (0, expected))
        entry = self.entry()
        self.assertEqual((entry["installed"], entry["local"]), ("1.4.2", True))
        self.assertIn(entry["hash"], text)
        self.assertEqual(self.installed(), ["oh-my-pi"])
        self.assert_untouched(["oh-my-pi"])

    def test_invalid_manifest_rejection(self):
        source = self.source(text=manifest("1.4.2", [], name=None))
        code, out, err = self.cli("plugin", "install", "--yes", source)
        self.assertEqual((code, out), (6, ""))
        self.assertIn("name", err)
        self.assertIsNone(self.entry())
        self.assert_untouched()

    def test_upgrade_with_capability_diff(self):
        self.install(self.source())
        source = self.source("2.0.0", NEXT_CAPABILITIES)
        code, text = self.talk(["plugin", "install", source], "y\n", "y\n")
        expected = UPGRADE.format(facts=self.facts(source, text)) + (
            "Upgrade oh-my-pi 1.4.2 → 2.0.0? [y/N] y\n"
            "Allow its new capability net:api.openai.com:443? [y/N] y\n\n"
            "✓ Upgraded oh-my-pi to 2.0.0\n")
        self.assertEqual((code, text), (0, expected))
        self.assertEqual(self.entry()["installed"], "2.0.0")

    def test_no_to_the_new_capability_is_a_no(self):
        self.install(self.source())
        before = self.entry()
        source = self.source("2.0.0", NEXT_CAPABILITIES)
        code, text = self.talk(["plugin", "install", source], "y\n", "n\n")
        self.assertEqual(code, 5)
        self.assertTrue(text.endswith("kaged: declined: nothing was done\n"), text)
        self.assertEqual(self.entry(), before)
        self.assert_untouched(["oh-my-pi"])

    def test_interrupt_at_the_question(self):
        code, text = self.talk(["plugin", "install", self.source()], CTRL_C)
        self.assertEqual(code, 5)
        self.assertTrue(text.endswith("kaged: interrupted: nothing was done\n"), text)
        self.assert_untouched()

    def test_interrupt_while_it_is_fetched(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"https://localhost:{silent.getsockname()[1]}/pi"
            with self.terminal("plugin", "install", url) as terminal:
                silent.settimeout(60)
                connection = silent.accept()[0]
                terminal.type(CTRL_C)
                code, text = terminal.end()
                connection.close()
        self.assertEqual((code, text), (5, "kaged: interrupted: nothing was done\n"))
        self.assert_untouched()

    def test_without_a_terminal_it_is_shown_and_nothing_is_done(self):
        source = self.source()
        code, out, err = self.cli("plugin", "install", source)
        self.assertEqual((code, out), (5, INSTALL.format(facts=self.facts(source, out))))
        self.assertIn("no terminal to ask on: nothing was done", err)
        self.assertIn("--yes", err)
        self.assert_untouched()

    def test_yes_is_no_yes_to_new_capabilities(self):
        self.install(self.source())
        source = self.source("2.0.0", NEXT_CAPABILITIES)
        code, _, err = self.cli("plugin", "install", "--yes", source)
        self.assertEqual(code, 5)
        self.assertEqual(err, "kaged: nothing was done: --yes does not allow new capabilities: "
                              "net:api.openai.com:443\n"
                              "hint: if that is what you want, add --allow-new-capabilities\n")
        self.assertEqual(self.entry()["installed"], "1.4.2")
        self.assert_untouched(["oh-my-pi"])
        self.install(source, "--allow-new-capabilities")
        self.assertEqual(self.entry()["installed"], "2.0.0")

    def test_json_is_the_consent(self):
        code, out, err = self.cli("--json", "plugin", "install", "--yes", self.source())
        self.assertEqual((code, err), (0, ""))
        consent = json.loads(out)
        self.assertEqual((consent["state"], consent["kind"]), ("done", "install"))
        self.assertEqual(consent["offer"]["name"], "oh-my-pi")
        self.assertEqual(consent["offer"]["hash"], self.entry()["hash"])

    def test_uninstall(self):
        self.install(self.source())
        code, out, err = self.cli("plugin", "uninstall", "oh-my-pi")
        self.assertEqual((code, out, err), (0, "✓ Removed plugin files\n"
                                               "✓ Removed local config entry\n", ""))
        self.assertIsNone(self.entry())
        self.assert_untouched()
        code, out, err = self.cli("plugin", "uninstall", "oh-my-pi")
        self.assertEqual((code, out), (4, ""))

    def test_approve_what_was_copied_by_hand(self):
        shutil.copytree(self.source(), os.path.join(self.home, "plugins/oh-my-pi"))
        code, text = self.talk(["plugin", "approve", "oh-my-pi"], "y\n")
        self.assertEqual(code, 0, text)
        self.assertTrue(text.startswith("Plugin oh-my-pi was never approved.\n"), text)
        self.assertIn("    ! exec:bash:/opt/oh-my-pi", text)
        self.assertTrue(text.endswith(
            "Approve oh-my-pi? [y/N] y\n\n✓ Approved oh-my-pi 1.4.2\n"
            f"  → enable with: kaged --home {self.home} plugin enable oh-my-pi\n"), text)
        self.assertIn("hash", self.entry())

    def test_approve_shows_what_changed(self):
        self.install(self.source())
        folder = shutil.copytree(self.source(), os.path.join(self.home, "plugins/oh-my-pi"))
        with open(os.path.join(folder, "kaged-plugin.yaml"), "w") as file:
            file.write(manifest("1.4.2", CAPABILITIES[:2] + ["net:example.org:443"]))
        with open(os.path.join(folder, "more"), "w"):
            pass
        code, out, err = self.cli("plugin", "approve", "--yes", "oh-my-pi")
        self.assertEqual(code, 5)
        self.assertIn("new capabilities: net:example.org:443", err)
        self.assertEqual(self.cli("plugin", "approve", "--yes", "nobody")[0], 4)
        code, text = self.talk(["plugin", "approve", "oh-my-pi"], "y\n", "y\n")
        self.assertEqual(code, 0, text)
        self.assertTrue(text.startswith("Plugin oh-my-pi is not what was approved.\n"), text)
        self.assertIn("  + net:example.org:443", text)
        self.assertIn("\nFiles:\n  + more\n  ~ kaged-plugin.yaml\n", text)
        self.assertEqual(self.talk(["plugin", "approve", "oh-my-pi"]),
                         (0, "oh-my-pi is as it was approved\n"))

    def test_sources_that_are_none(self):
        for source in ("/nowhere/at-all", "ftp://example.org/x", "/dev/null"):
            with self.subTest(source):
                code, out, err = self.cli("plugin", "install", "--yes", source)
                self.assertIn(code, (2, 4, 5, 6), err)
                self.assertEqual(out, "")
                self.assertTrue(err.startswith("kaged: "), err)
        self.assert_untouched()

    def test_two_at_once(self):
        sources = [self.source(name=name) for name in ("one", "two")]
        results = at_once([lambda source=source: self.cli("plugin", "install", "--yes", source)
                           for source in sources])
        self.assertEqual([result[0] for result in results], [0, 0], results)
        self.assertEqual(self.installed(), ["one", "two"])
        self.assertTrue(self.entry("one") and self.entry("two"))


class DialoguesWithDaemon(Dialogues):
    with_daemon = True

    def test_a_running_plugin_is_restarted(self):
        self.install(self.source(capabilities=[]))
        self.assertEqual(self.cli("plugin", "enable", "oh-my-pi")[0], 0)
        text = self.install(self.source("2.0.0", []))
        self.assertTrue(text.endswith("✓ Upgraded oh-my-pi to 2.0.0\n"
                                      "  Plugin was running; restarting...\n"
                                      "✓ oh-my-pi restarted\n"), text)
        self.assertEqual(self.daemon.wait_state("oh-my-pi", "running")["version"], "2.0.0")

    def test_a_version_that_does_not_start_is_put_back(self):
        self.install(self.source(capabilities=[]))
        self.assertEqual(self.cli("plugin", "enable", "oh-my-pi")[0], 0)
        source = self.source("2.0.0", [], program="#!/bin/sh\nexit 7\n")
        code, _, err = self.cli("plugin", "install", "--yes", source)
        self.assertEqual(code, 1)
        self.assertIn("the new version did not start, and 1.4.2 is back", err)
        self.assertEqual(self.daemon.wait_state("oh-my-pi", "running")["version"], "1.4.2")
        self.assertEqual(self.entry()["installed"], "1.4.2")

    def test_uninstall_of_a_running_plugin(self):
        self.install(self.source(capabilities=[]))
        self.assertEqual(self.cli("plugin", "enable", "oh-my-pi")[0], 0)
        code, out, _ = self.cli("plugin", "uninstall", "--force", "oh-my-pi")
        self.assertEqual((code, out), (0, "✓ Stopped oh-my-pi\n✓ Removed plugin files\n"
                                          "✓ Removed local config entry\n"))
        self.assertEqual(self.daemon.api("GET", "/plugins/oh-my-pi")[0], 404)

    def test_interrupt_declines_the_consent(self):
        self.talk(["plugin", "install", self.source()], CTRL_C)
        consents = self.daemon.api("GET", "/consents")[1]["consents"]
        self.assertEqual([consent["state"] for consent in consents], ["declined"])

    def test_list_shows_what_needs_approval(self):
        shutil.copytree(self.source(), os.path.join(self.home, "plugins/oh-my-pi"))
        self.cli("reload")
        code, out, _ = self.cli("plugin", "list")
        self.assertRegex(out, r"oh-my-pi +1\.4\.2 +unapproved")
        self.assertIn("not approved", out)


class Screen(Install):
    """What is the same on both ways, since the texts are."""

    def test_anything_but_yes_is_a_no(self):
        source = self.source()
        for answer in ("\n", "n\n", "yep\n", "\x04"):
            with self.subTest(repr(answer)):
                code, text = self.talk(["plugin", "install", source], answer)
                self.assertEqual(code, 5)
                self.assertIn("declined: nothing was done\n", text)
                self.assert_untouched()

    def test_what_was_typed_before_the_question_is_no_answer(self):
        with self.terminal("plugin", "install", self.source()) as terminal:
            terminal.type("y\ny\ny\n")
            terminal.read_until(PROMPT)
            terminal.type("n\n")
            self.assertEqual(terminal.end()[0], 5)
        self.assert_untouched()

    def test_yes_for_scripts(self):
        source = self.source()
        out = self.install(source)
        self.assertEqual(out, INSTALL.format(facts=self.facts(source, out)) +
                         INSTALLED.format(home=self.home))

    def test_new_capabilities_alone_are_no_yes(self):
        code, out, err = self.cli("plugin", "install", "--allow-new-capabilities", self.source())
        self.assertEqual((code, out), (2, ""))
        self.assertIn("goes with --yes only", err)

    def test_downgrade_says_so(self):
        self.install(self.source("2.0.0"))
        code, text = self.talk(["plugin", "install", self.source("1.4.2")], "y\n")
        self.assertEqual(code, 0)
        self.assertIn("(version 2.0.0).\nOLDER version: 1.4.2\n", text)
        self.assertIn("Downgrade oh-my-pi 2.0.0 → 1.4.2? [y/N] y\n\n"
                      "✓ Downgraded oh-my-pi to 1.4.2\n", text)

    def test_the_same_again_says_so(self):
        source = self.source()
        self.install(source)
        text = self.install(source)
        self.assertIn("The same version, with the same files:\n", text)
        self.assertTrue(text.endswith("✓ Reinstalled oh-my-pi 1.4.2\n"), text)

    def test_what_else_an_upgrade_changes_is_shown(self):
        self.install(self.source())
        source = self.source("2.0.0", methods=["pi.list", "pi.drop"], hooks=["on_session_start"],
                             command=["./plugin.py", "--fast"])
        text = self.install(source)
        self.assertIn("\nAlso changed:\n", text)
        self.assertIn("  command: ./plugin.py → ./plugin.py --fast\n", text)
        self.assertIn("  methods: +pi.drop\n", text)
        self.assertIn("  hooks: +on_session_start\n", text)

    def test_hostile_texts_do_not_reach_the_terminal(self):
        """Controls are in no manifest and no file's name; what turns text around is shown."""
        reversing = self.source(author="\u202etxet\u2028Install? yes")
        code, text = self.talk(["plugin", "install", reversing], "n\n")
        self.assertEqual(code, 5)
        self.assertIn("  author: \\u202etxet\\u2028Install? yes\n", text)
        controls, name = self.source(author="\x1b]0;owned\x07"), self.source()
        with open(os.path.join(name, "\x1b[31mred"), "w"):
            pass
        for source in (controls, name):
            code, text = self.talk(["plugin", "install", source])
            self.assertIn(code, (5, 6))
            self.assertNotIn("\x1b", text)
            self.assertNotIn("\x07", text)

    def test_colour_only_where_it_is_wanted(self):
        for environment, wanted in (({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False),
                                    ({"NO_COLOR": "", "TERM": "dumb"}, False)):
            with self.terminal("plugin", "install", self.source(), **environment) as terminal:
                terminal.talk("n\n")
                self.assertEqual("\x1b[1;31m" in terminal.raw, wanted, environment)
                self.assertIn("! exec:bash", re.sub(r"\x1b\[[0-9;]*m", "", terminal.raw))

    def test_what_is_asked_about_stands_where_the_question_is(self):
        """With stdout in a file, the operator must still see what he says yes to."""
        log = os.path.join(self.daemon.base, "out")
        command = 'exec "$@" >"$0"'
        with Terminal(["sh", "-c", command, log, KAGED, "--home", self.home, "plugin", "install",
                       self.source()], {**self.daemon.environment(), "NO_COLOR": "1"}) as terminal:
            code, text = terminal.talk("y\n")
        self.assertEqual(code, 0)
        self.assertIn("! exec:bash:/opt/oh-my-pi", text)
        with open(log) as out:
            self.assertEqual(out.read(), INSTALLED.format(home=self.home))

    def test_promote(self):
        self.install(self.source())
        code, out, err = self.cli("plugin", "promote", "oh-my-pi")
        self.assertNotEqual(code, 0, "it is for every project already")
        code, _, _ = self.cli("plugin", "promote", "nobody")
        self.assertEqual(code, 4)

    def test_a_relative_source_starts_where_the_operator_is(self):
        source = self.source()
        done = subprocess.run([KAGED, "--home", self.home, "plugin", "install", "--yes",
                               "./oh-my-pi"], cwd=os.path.dirname(source), text=True,
                              capture_output=True, env=self.daemon.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.installed(), ["oh-my-pi"])


class Offline(Install):
    """What only a command without a daemon can meet."""

    def test_it_is_in_the_audit_log(self):
        self.install(self.source())
        self.cli("plugin", "uninstall", "oh-my-pi")
        self.daemon.start()
        self.addCleanup(self.daemon.stop)
        event = self.daemon.audit("plugin.installed")[0]
        self.assertEqual((event["name"], event["version"]), ("oh-my-pi", "1.4.2"))
        self.assertTrue(self.daemon.audit("plugin.uninstalled"))
        self.assertEqual(self.cli("audit", "verify")[0], 0)

    def test_a_daemon_that_starts_meanwhile_is_not_passed_by(self):
        with self.terminal("plugin", "install", self.source()) as terminal:
            terminal.read_until(PROMPT)
            self.daemon.start()
            self.addCleanup(self.daemon.stop)
            terminal.type("y\n")
            code, text = terminal.end()
        self.assertEqual(code, 1)
        self.assertIn("kaged was started meanwhile, so nothing was done", text)
        self.assert_untouched()


class Consents(Install):
    """The same over HTTP, where nobody sees a dialogue."""
    with_daemon = True
    config = {"limits.consents": 4}

    def want(self, source, **more):
        status, consent = self.daemon.api("POST", "/plugins", {"source": source, **more})
        self.assertEqual(status, 202, consent)
        return consent["id"]

    def wait(self, consent, *states):
        return wait_for(lambda: (lambda it: it["state"] in states and it)(
            self.daemon.api("GET", f"/consents/{consent}")[1]), f"one of {states}")

    def answer(self, consent, act="approve", **body):
        return self.daemon.api("POST", f"/consents/{consent}/{act}",
                               body if act == "approve" else None)

    def install_by_api(self, source, **more):
        consent = self.want(source)
        offer = self.wait(consent, "offered")["offer"]
        self.assertEqual(self.answer(consent, hash=offer["hash"], **more)[0], 202)
        return self.wait(consent, "done", "failed")

    def test_only_what_was_shown_is_installed(self):
        consent = self.want(self.source())
        offer = self.wait(consent, "offered")["offer"]
        self.assertEqual(self.installed(), [])
        self.assertEqual(offer["capabilities"][1]["danger"],
                         "it is a shell or an interpreter: it runs any script")
        self.assert_error_status(self.answer(consent, hash="sha256:" + "0" * 64), 409, "conflict")
        self.assert_error_status(self.answer(consent), 400, "usage")
        self.assertEqual(self.answer(consent, hash=offer["hash"])[0], 202)
        self.assertEqual(self.wait(consent, "done")["installed"],
                         {"version": "1.4.2", "was_running": False})
        self.assertEqual(self.entry()["hash"], offer["hash"])
        self.assertEqual(self.daemon.status("oh-my-pi")["state"], "disabled")
        self.assert_error_status(self.answer(consent, hash=offer["hash"]), 409, "conflict")

    def assert_error_status(self, answer, status, code):
        self.assertEqual((answer[0], answer[1]["error"]["code"]), (status, code), answer)

    def test_new_capabilities_need_their_own_word(self):
        self.install_by_api(self.source())
        consent = self.want(self.source("2.0.0", NEXT_CAPABILITIES))
        offer = self.wait(consent, "offered")["offer"]
        self.assertTrue(offer["widens"])
        self.assert_error_status(self.answer(consent, hash=offer["hash"]), 403, "refused")
        self.answer(consent, hash=offer["hash"], allow_new_capabilities=True)
        self.wait(consent, "done")
        self.assertEqual(self.entry()["installed"], "2.0.0")

    def test_upgrade_is_for_the_plugin_that_it_names(self):
        self.install_by_api(self.source())
        path = "/plugins/oh-my-pi/upgrade"
        _, other = self.daemon.api("POST", path, {"source": self.source(name="another")})
        self.assertIn("another", self.wait(other["id"], "failed")["error"]["message"])
        _, right = self.daemon.api("POST", path, {"source": self.source("2.0.0")})
        self.assertEqual(right["kind"], "upgrade")
        offer = self.wait(right["id"], "offered")["offer"]
        self.assertEqual((offer["change"], offer["installed_version"]), ("upgrade", "1.4.2"))

    def test_a_no_leaves_nothing_behind(self):
        consent = self.want(self.source())
        self.wait(consent, "offered")
        self.assertEqual(self.answer(consent, "decline")[1]["state"], "declined")
        self.assert_error_status(self.answer(consent, "decline"), 409, "conflict")
        self.assert_untouched()

    def test_an_offer_expires(self):
        self.daemon.write_config(limits__consent_offer_ms=100)
        self.assertEqual(self.daemon.api("POST", "/reload")[0], 200)
        consent = self.want(self.source())
        self.wait(consent, "expired")
        self.assert_untouched()
        self.assertTrue(self.daemon.audit("consent.expired"))

    def test_the_queue_is_bounded(self):
        source = self.source()
        for _ in range(4):
            self.wait(self.want(source), "offered")
        answer = self.daemon.api("POST", "/plugins", {"source": source})
        self.assert_error_status(answer, 429, "resource_busy")
        self.daemon.write_config(limits__consents=5)
        self.daemon.api("POST", "/reload")
        self.want(source)

    def test_what_is_fetched_when_the_daemon_ends_is_gone(self):
        self.wait(self.want(self.source()), "offered")
        with socket.create_server(("127.0.0.1", 0)) as silent:
            self.want(f"https://localhost:{silent.getsockname()[1]}/pi")
            silent.settimeout(60)
            silent.accept()[0].close()
            self.daemon.stop()
        self.assert_untouched()
        self.daemon.start()
        self.assertEqual(self.daemon.api("GET", "/consents")[1]["consents"], [])

    def test_bad_requests(self):
        for body in ({}, {"source": ""}, {"source": 1}, {"source": "/x", "yes": True}, [],
                     {"source": "relative/path"}, {"source": "/x\0y"}):
            with self.subTest(body=body):
                status, answer = self.daemon.api("POST", "/plugins", body)
                self.assertEqual(status, 400, answer)
        self.assertEqual(self.daemon.api("GET", "/consents/con_nobody")[0], 404)
        self.assertEqual(self.daemon.api("POST", "/consents/con_nobody/approve", {})[0], 404)
        self.assertEqual(self.daemon.api("GET", "/consents")[1]["consents"], [])

    def test_uninstall_keeps_storage_where_it_is_asked_to(self):
        """The storage process of a running plugin ends on the way: that once ended the daemon."""
        for keep in (True, False):
            self.install_by_api(os.path.join(PLUGINS, "declares-all"))
            self.daemon.act("declares-all", "enable")
            self.daemon.wait_state("declares-all", "running")
            self.daemon.call("declares-all", "all.store", {"text": "x"})
            status, removed = self.daemon.api(
                "DELETE", f"/plugins/declares-all?keep_storage={str(keep).lower()}")
            self.assertEqual((status, removed["version"], removed["was_running"]),
                             (200, "1.0.0", True), removed)
            self.assertEqual(bool(removed["storage"]) and os.path.isfile(removed["storage"]), keep)
        self.assertEqual(self.daemon.api("DELETE", "/plugins/declares-all")[0], 404)

    def test_every_step_is_in_the_audit_log(self):
        self.install_by_api(self.source())
        names = [event["event"] for event in self.daemon.audit("consent.*")]
        self.assertEqual(names, ["consent.raised", "consent.offered", "consent.approved"])
        self.assertEqual(self.daemon.audit("consent.approved")[0]["operator_id"],
                         self.daemon.audit("plugin.installed")[0]["operator_id"])


class Projects(Install):
    """What a project wants, put into kaged.db: these have no files. See test_projects.py, too."""

    def wish(self, source=None, base=None, number=1, plugin="oh-my-pi", kind="install"):
        self.daemon.start()
        self.daemon.stop()
        consent = f"con_0000000000000000000000000{number}"
        with sqlite3.connect(os.path.join(self.home, "state/kaged.db")) as db:
            db.execute("INSERT INTO consent VALUES (?, ?, 'wanted', 'web', ?, ?, ?, NULL, NULL, "
                       "NULL, 1, 1)", (consent, kind, plugin, source, base))
        db.close()
        self.daemon.start()
        self.addCleanup(self.daemon.stop)
        return consent

    def states(self):
        return {consent["id"]: consent["state"]
                for consent in self.daemon.api("GET", "/consents")[1]["consents"]}

    def activations(self):
        with sqlite3.connect(os.path.join(self.home, "state/kaged.db")) as db:
            rows = db.execute("SELECT project, plugin FROM activation").fetchall()
        db.close()
        return rows

    def test_approve_asks_twice_and_installs_for_the_project(self):
        source = self.source()
        consent = self.wish("./oh-my-pi", os.path.dirname(source))
        code, out, _ = self.cli("project", "consent", "list")
        self.assertRegex(out, rf"{consent} +wanted +web +oh-my-pi +- +\./oh-my-pi")
        code, text = self.talk(["project", "consent", "approve", consent], "y\n", "y\n")
        expected = ("Project web wants plugin oh-my-pi.\n  source: ./oh-my-pi\n"
                    "Fetch it, to look at it? [y/N] y\n" +
                    INSTALL.format(facts=self.facts("./oh-my-pi", text)) +
                    "Install oh-my-pi? [y/N] y\n\n✓ Installed oh-my-pi 1.4.2\n"
                    "  it starts with the sessions of project web\n")
        self.assertEqual((code, text), (0, expected))
        self.assertIs(self.entry()["local"], False)
        self.assertEqual(self.activations(), [("web", "oh-my-pi")])
        code, out, _ = self.cli("plugin", "promote", "oh-my-pi")
        self.assertEqual((code, out), (0, "✓ oh-my-pi is available to every project\n"))
        self.assertIs(self.entry()["local"], True)
        self.assertEqual(self.cli("plugin", "uninstall", "oh-my-pi")[0], 0)
        self.assertEqual(self.activations(), [])

    def test_source_not_specified(self):
        consent = self.wish()
        code, out, _ = self.cli("project", "consent")
        self.assertIn("not specified", out)
        self.assertEqual(self.cli("project", "consent", "lisst")[0], 2)
        code, _, err = self.cli("project", "consent", "approve", "--yes", consent)
        self.assertEqual(code, 2)
        self.assertIn("source not specified", err)
        self.assertIn(f" project consent approve {consent} PATH", err)
        code, _, err = self.cli("project", "consent", "approve", "--yes", consent, self.source())
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(self.installed(), ["oh-my-pi"])

    def test_a_no_outlives_the_daemon(self):
        consent = self.wish("/nowhere")
        self.assertEqual(self.cli("project", "consent", "decline", consent)[0:2],
                         (0, "declined: oh-my-pi\n"))
        self.daemon.stop()
        self.daemon.start()
        self.assertEqual(self.states(), {consent: "declined"})

    def test_what_was_offered_is_wanted_again_after_a_restart(self):
        consent = self.wish(self.source())
        self.assertEqual(self.daemon.api("POST", f"/consents/{consent}/approve", {})[0], 202)
        wait_for(lambda: self.states()[consent] == "offered", "an offer")
        self.daemon.stop()
        self.daemon.start()
        self.assertEqual(self.states(), {consent: "wanted"})
        self.assert_untouched()

    def test_a_no_to_the_source_fetches_nothing(self):
        consent = self.wish(self.source())
        code, text = self.talk(["project", "consent", "approve", consent], "n\n")
        self.assertEqual(code, 5)
        self.assertEqual(self.states(), {consent: "declined"})
        self.assertEqual(self.daemon.audit("consent.fetch_allowed"), [])

    def test_another_plugin_than_the_project_asked_for_is_refused(self):
        consent = self.wish(self.source(name="another"))
        code, _, err = self.cli("project", "consent", "approve", "--yes", consent)
        self.assertEqual(code, 1, err)
        self.assertIn("is plugin another, not oh-my-pi", err)
        self.assertEqual(self.installed(), [])

    def test_what_is_installed_is_activated_for_one_more_project(self):
        self.install(self.source())
        consent = self.wish(kind="activate")
        code, text = self.talk(["project", "consent", "approve", consent], "y\n")
        self.assertEqual(code, 0, text)
        self.assertTrue(text.startswith("Project web wants plugin oh-my-pi.\n"), text)
        self.assertIn("Let web use oh-my-pi? [y/N] y\n\n✓ web may use oh-my-pi 1.4.2\n", text)
        self.assertEqual(self.activations(), [("web", "oh-my-pi")])


if __name__ == "__main__":
    main()
