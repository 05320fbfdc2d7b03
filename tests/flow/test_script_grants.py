"""What scripts may do: granted in config.toml, asked for by the script, checked by the daemon."""
import json
import os
import signal
import subprocess

from harness import KAGED, PATIENCE, Daemon, FlowTest, main, wait_for
from test_scripts import Scripted

ASKS = """
local caps = kage.request_capabilities({ "session_write", "exec", "env" })
kage.register_command{ name = "caps", description = "", handler = function() return kage.json.encode(caps) end }
kage.register_command{ name = "env", description = "", handler = function(name)
  local ok, value = pcall(kage.env, name)
  return tostring(ok) .. " " .. tostring(value)
end }
"""


def approved(shop, name):
    status, script = shop.daemon.api("GET", f"/plugins/{name}/script")
    assert status == 200, script
    return script["hash"] == script["approved_hash"]


class Grants(FlowTest):
    def test_a_capability_takes_a_grant_and_that_the_script_asks(self):
        config = {"plugins.capabilities.a": ["exec:git", "env:HOME"]}
        with Scripted({"a": ASKS, "b": ASKS.replace('name = "', 'name = "b-')},
                      config=config) as shop:
            self.assertEqual(json.loads(shop.text("caps")), {"env": True, "exec": True, "session_write": False})
            self.assertTrue(shop.text("env", "HOME").startswith("true /"))
            self.assertEqual(shop.text("b-caps").count("false"), 3)

    def test_a_call_without_its_grant_names_the_line_that_would_allow_it(self):
        with Scripted({"a": ASKS}, config={"plugins.capabilities.a": ["env:HOME"]}) as shop:
            self.assertIn('[plugins.capabilities] a = ["env:PATH"] in config.toml', shop.text("env", "PATH"))
            denied = shop.daemon.audit("plugin.script_denied")
            self.assertEqual([(each["call"], each["capability"]) for each in denied],
                             [("kage.env", "env:PATH")])

    def test_an_unknown_name_raises_in_the_script(self):
        asks = "kage.request_capabilities({ 'exce' })"
        with Scripted({"a": asks}) as shop:
            shop.daemon.api("GET", f"/sessions/{shop.session}/commands")
            wait_for(lambda: "there is no capability exce" in shop.daemon.log(), "the error")

    def test_the_first_start_records_the_file_and_says_what_it_may_do(self):
        with Scripted({"a": ASKS}, config={"plugins.capabilities.a": ["exec"]}) as shop:
            self.assertTrue(approved(shop, "a"))
            self.assertIn("run programs of this machine", shop.daemon.log())
            event, = shop.daemon.audit("plugin.script_granted")
            self.assertEqual(event["capabilities"], ["exec"])
            shop.daemon.stop()
            shop.daemon.start()
            self.assertEqual(len(shop.daemon.audit("plugin.script_granted")), 1)

    def test_a_changed_file_runs_without_its_grants_until_it_is_approved(self):
        with Scripted({"a": ASKS}, config={"plugins.capabilities.a": ["env:HOME"]}) as shop:
            self.assertTrue(shop.text("env", "HOME").startswith("true"))
            shop.write("a", ASKS + "-- changed\n")
            wait_for(lambda: "kaged plugin approve a" in shop.text("env", "HOME"), "the grant to be gone")
            self.assertEqual(shop.text("caps").count("true"), 0)
            plugin = shop.daemon.api("GET", "/plugins/a")[1]
            self.assertIn("not the one that its grants are for", plugin["problem"])
            self.assertEqual(len(shop.daemon.audit("plugin.script_changed")), 1)
            self.assertEqual(shop.daemon.cli("plugin", "approve", "a")[0], 5)
            code, out, errors = shop.daemon.cli("plugin", "approve", "a", "--yes")
            self.assertEqual((code, out), (0, "a is approved as it is\n"))
            self.assertIn("env:HOME: read a variable", errors)
            wait_for(lambda: shop.text("env", "HOME").startswith("true"), "the grant to be back")
            self.assertIsNone(shop.daemon.api("GET", "/plugins/a")[1]["problem"])

    def test_a_yes_is_for_the_file_that_was_shown(self):
        with Scripted({"a": ASKS}, config={"plugins.capabilities.a": ["exec"]}) as shop:
            shop.write("a", ASKS + "-- changed\n")
            wait_for(lambda: not approved(shop, "a"), "the change to be seen")
            status, answer = shop.daemon.api("POST", "/plugins/a/script", {"approve": "sha256:00"})
            self.assertEqual((status, answer["error"]["code"]), (409, "conflict"))
            self.assertFalse(approved(shop, "a"))

    def test_a_reload_grants_and_revokes(self):
        with Scripted({"a": ASKS}) as shop:
            self.assertIn("false", shop.text("env", "HOME"))
            shop.daemon.write_config(plugins__capabilities__a=["env:HOME"])
            self.assertEqual(shop.daemon.api("POST", "/reload")[0], 200)
            wait_for(lambda: shop.text("env", "HOME").startswith("true"), "the grant")
            shop.daemon.write_config(plugins__capabilities__a=[])
            self.assertEqual(shop.daemon.api("POST", "/reload")[0], 200)
            wait_for(lambda: shop.text("env", "HOME").startswith("false"), "the grant to be gone")
            self.assertIsNone(shop.daemon.api("GET", "/plugins/a/script")[1]["approved_hash"])

    def test_a_grant_for_no_script_is_a_warning(self):
        with Scripted({"a": ASKS}, config={"plugins.capabilities.gone": ["exec"]}) as shop:
            self.assertIn("plugins.capabilities.gone is for a script that does not exist", shop.daemon.log())

    def test_events_with_text_need_context(self):
        hears = "kage.on('before_agent_start', function() end) kage.on('agent_start', function() end)"
        with Scripted({"a": hears}) as shop:
            shop.daemon.api("GET", f"/sessions/{shop.session}/commands")
            wait_for(lambda: 'before_agent_start needs [plugins.capabilities] a = ["context"]' in shop.daemon.log(),
                     "the warning")


class BadNames(FlowTest):
    def refused(self, grants):
        daemon = Daemon([], {"plugins.capabilities.a": grants})
        try:
            return daemon.cli("start", "--foreground")
        finally:
            daemon.discard()

    def test_names_that_stop_the_start(self):
        for grants, words in (
                (["exce"], ('there is no capability "exce"', "did you mean exec?", "config.toml:")),
                (["env"], ('"env" is not a capability', "env:NAME")),
                (["fs_write:x"], ("fs_write can only be granted as a whole",)),
                (["exec:"], ("exec:PROGRAM",)),
                (["exec:../git"], ("exec:PROGRAM",)),
                ([1], ("capabilities of scripts",))):
            with self.subTest(grants):
                code, out, errors = self.refused(grants)
                self.assertNotEqual(code, 0)
                for each in words:
                    self.assertIn(each, out + errors)


class Dev(FlowTest):
    """kaged plugin dev FILE.lua: what one edits keeps its grants, until one leaves."""

    def start(self, shop, path, *more):
        process = subprocess.Popen([KAGED, "--home", shop.daemon.home, "plugin", "dev", path, *more],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=shop.daemon.environment())
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_what_one_edits_keeps_its_grants_until_one_leaves(self):
        with Scripted({}, config={"plugins.capabilities.mine": ["env:HOME"]}) as shop:
            path = os.path.join(shop.daemon.base, "mine.lua")

            def edit(text):
                with open(path + ".new", "w") as file:
                    file.write(text)
                os.rename(path + ".new", path)

            edit(ASKS)
            refused = self.start(shop, path)
            self.assertNotEqual(refused.wait(PATIENCE), 0)
            self.assertIn("--yes", refused.stderr.read())
            self.assertEqual(os.listdir(shop.folder), [])
            process = self.start(shop, path, "--yes")
            self.assertIn("mine runs from", process.stdout.readline())
            wait_for(lambda: shop.command("env", "HOME", status=None)[-1].get("text", "").startswith("true /"),
                     "the script with its grant")
            for number in range(3):
                edit(ASKS + f"kage.register_command{{name='n', description='', handler=function() return '{number}' "
                            "end}")
                wait_for(lambda: shop.command("n", status=None)[-1].get("text") == str(number), "what was edited")
                wait_for(lambda: shop.text("env", "HOME").startswith("true /"), "its grant")
            edit("this is not Lua")
            wait_for(lambda: "could not be run" in (shop.daemon.api("GET", "/plugins/mine")[1]["problem"] or ""),
                     "words about what is wrong")
            edit(ASKS)
            wait_for(lambda: shop.command("env", "HOME", status=None)[-1].get("text", "").startswith("true /"),
                     "it to be well again")
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE)
            self.assertEqual(shop.text("env", "HOME")[:5], "true ")
            shop.write("mine", ASKS + "-- by somebody else\n")
            wait_for(lambda: "kaged plugin approve mine" in shop.text("env", "HOME"), "the grant to be gone")


if __name__ == "__main__":
    main()
