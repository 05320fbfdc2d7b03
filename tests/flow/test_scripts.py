"""Scripts: files of Lua, each a plugin with a process for each conversation."""
import json
import os

from harness import PATIENCE, FlowTest, UnixConnection, main, wait_for
from models import Provider
from test_turns import Shop, calls, of, says, text_of

HEARS = """
local heard = {}
for _, event in ipairs({ "agent_start", "turn_start", "message_end", "turn_end", "tool_call", "tool_result",
                         "agent_end" }) do
  kage.on(event, function(data)
    heard[#heard + 1] = event .. (data.index and tostring(data.index) or "")
  end)
end
kage.register_command{ name = "heard", description = "What was heard.", aliases = { "h" },
  handler = function() return table.concat(heard, " ") end }
"""
SAYS = """
kage.register_command{ name = "say", description = "Says it.", args = { { name = "what", kind = "text" } },
  handler = function(raw, ctx, parsed)
    kage.notify("about to say", "warning")
    return { text = parsed.what, structured = { length = #parsed.what } }
  end }
"""


class Scripted(Shop):
    """A shop whose daemon has scripts."""

    def __init__(self, scripts, *answers, config=None, **more):
        self.provider = Provider(*answers)
        super().__init__([("openai", self.provider.url)], config=config, **more)
        self.folder = os.path.join(self.daemon.home, "scripts")
        os.mkdir(self.folder)
        for name, text in scripts.items():
            self.write(name, text)

    def __enter__(self):
        self.provider.__enter__()
        return super().__enter__()

    def __exit__(self, *exception):
        super().__exit__(*exception)
        self.provider.__exit__(*exception)

    def write(self, name, text):
        path = os.path.join(self.folder, name + ".lua")
        with open(path + ".new", "w") as file:
            file.write(text)
        os.rename(path + ".new", path)

    def command(self, name, args="", status=200):
        connection = UnixConnection(self.daemon.socket, PATIENCE * 3)
        connection.request("POST", f"/api/v1/sessions/{self.session}/commands/{name}", json.dumps({"args": args}))
        with connection.getresponse() as response:
            text = response.read()
            assert status is None or response.status == status, text
        connection.close()
        return [json.loads(line) for line in text.splitlines()]

    def text(self, name, args=""):
        result = self.command(name, args)[-1]
        assert not result["is_error"], result
        return result["text"]


class Commands(FlowTest):
    def test_a_command_tells_notices_and_then_its_result(self):
        with Scripted({"speaks": SAYS}) as shop:
            notice, result = shop.command("say", " hello  all ")
            self.assertEqual(notice, {"type": "notice", "plugin": "speaks", "level": "warning", "text": "about to say"})
            self.assertEqual(result, {"type": "result", "command": "say", "plugin": "speaks", "is_error": False,
                                      "text": "hello  all", "structured": {"length": 10}})
            result, = shop.command("say")
            self.assertEqual((result["is_error"], result["text"]), (True, "say: missing required arg `what`"))
            status, answer = shop.daemon.api("GET", f"/sessions/{shop.session}/commands")
            self.assertEqual((status, answer["commands"]), (200, [
                {"name": "say", "description": "Says it.", "aliases": [], "plugin": "speaks"}]))
            error, = shop.command("sing", status=404)
            self.assertIn("/sing", error["error"]["message"])

    def test_send_runs_a_command_and_says_the_rest_to_the_model(self):
        with Scripted({"speaks": SAYS}, says("a model")) as shop:
            ran = shop.daemon.cli("session", "send", shop.session, "/say", "hello")
            self.assertEqual(ran, (0, "hello\n", "about to say\n"))
            self.assertEqual(shop.daemon.cli("session", "send", shop.session, "/sing")[1], "a model\n")
            code, out, errors = shop.daemon.cli("session", "command", shop.session, "say")
            self.assertEqual((code, out), (1, ""))
            self.assertIn("missing required arg", errors)
            self.assertIn("/say  Says it.  (speaks)", shop.daemon.cli("session", "commands", shop.session)[1])

    def test_a_script_is_a_plugin_in_lists_and_status(self):
        with Scripted({"speaks": SAYS}) as shop:
            shop.text("say", "x")
            names = {each["name"]: each for each in shop.daemon.api("GET", "/plugins")[1]["plugins"]}
            self.assertEqual(names["speaks"]["tier"], "script")
            self.assertEqual(names["speaks"]["state"], "idle")
            self.assertEqual(names[f"speaks@{shop.session}"]["state"], "running")
            self.assertEqual(names["agents-as-told"]["tier"], "caged")

    def test_globals_and_state_are_of_one_script_and_one_conversation(self):
        counts = "n = (n or 0) kage.register_command{name='%s', description='', handler=function() " \
                 "n = n + 1 return tostring(n) .. tostring(other) end} other%s = 1"
        with Scripted({"a": counts % ("count-a", "_a"), "b": counts % ("count-b", "")}) as shop:
            self.assertEqual([shop.text("count-a"), shop.text("count-a"), shop.text("count-b")], ["1nil", "2nil", "11"])
            shop.session = shop.new_session()
            self.assertEqual(shop.text("count-a"), "1nil")

    def test_what_a_script_stores_is_there_in_each_conversation_and_after_a_restart(self):
        stores = """
        kage.register_command{name='put', description='', handler=function(raw) kage.store.set('k', {v = raw}) end}
        kage.register_command{name='get', description='', handler=function()
          return kage.json.encode(kage.store.get('k')) .. kage.json.encode(kage.store.keys()) end}
        """
        reads = "kage.register_command{name='others', description='', handler=function() " \
                "return tostring(kage.store.get('k')) end}"
        with Scripted({"stores": stores, "reads": reads}) as shop:
            shop.command("put", "1")
            shop.session = shop.new_session()
            self.assertEqual(shop.text("get"), '{"v":"1"}["k"]')
            self.assertEqual(shop.text("others"), "nil")
            shop.daemon.stop()
            shop.daemon.start()
            self.assertEqual(shop.text("get"), '{"v":"1"}["k"]')


class Turns(FlowTest):
    def test_events_of_a_turn_come_in_order(self):
        act = {"acts": {"result": {"price": 3}}}
        with Scripted({"hears": HEARS}, calls(act), says("It costs 3.")) as shop:
            self.assertEqual(text_of(shop.run("price")), "It costs 3.")
            self.assertEqual(shop.text("h"), "agent_start turn_start0 message_end turn_end0 tool_call tool_result "
                                             "turn_start1 message_end turn_end1 agent_end")

    def test_a_script_forbids_a_call_or_changes_its_input(self):
        watches = """
        kage.on("tool_call", function(call)
          if call.input.acts.result == "bad" then return { block = "not that" } end
          return { input = { acts = { result = "changed" } } }
        end)
        """
        answers = calls({"acts": {"result": "bad"}}, {"acts": {"result": "good"}}), says("done")
        with Scripted({"watches": watches}, *answers) as shop:
            first, second = of(shop.run("go"), "tool_result")
            self.assertTrue(first["is_error"])
            self.assertIn("not that", first["result"])
            self.assertEqual(second["result"], "changed")

    def test_a_script_ends_a_run_and_its_calls_are_not_made(self):
        stops = "kage.on('should_stop_after_turn', function(turn) return turn.had_tool_calls end)"
        with Scripted({"stops": stops}, calls({"acts": {"result": 1}})) as shop:
            lines = shop.run("go")
            self.assertEqual(of(lines, "end")[0]["stop"], "stop")
            self.assertEqual(of(lines, "tool_result"), [])

    def test_a_tool_of_a_script_is_offered_and_called(self):
        adds = """
        kage.register_tool{ name = "add", description = "Adds.", schema = { type = "object", properties = {
          a = { type = "integer" } } }, execute = function(input) return { text = tostring(input.a + 1) } end }
        """
        with Scripted({"sums": adds}, calls({"a": 2}, name="sums__add"), says("3")) as shop:
            result, = of(shop.run("add"), "tool_result")
            self.assertEqual(result["result"], {"text": "3"})
            asked = shop.provider.requests[0][1]
            self.assertIn("sums__add", [tool["function"]["name"] for tool in asked["tools"]])

    def test_a_script_that_hangs_costs_its_deadline_and_the_turn_goes_on(self):
        hangs = "kage.on('agent_start', function() string.find(string.rep('a', 1 << 20), " \
                "'.-.-.-.-.-b') end)"
        with Scripted({"hangs": hangs, "hears": HEARS}, says("hello"), config={"limits.hook_timeout_ms": 5000}) as shop:
            self.assertEqual(text_of(shop.run("hi")), "hello")
            self.assertIn("agent_end", shop.text("heard"))
            shop.daemon.wait_restarted(f"hangs@{shop.session}", 1)


class Files(FlowTest):
    def test_a_broken_script_does_not_stop_another(self):
        with Scripted({"a": "this is not Lua", "b": SAYS}) as shop:
            self.assertEqual(shop.text("say", "x"), "x")
            self.assertIn("plugin 'a'", shop.daemon.log())

    def test_a_changed_script_runs_from_its_next_use_on(self):
        with Scripted({"a": SAYS}) as shop:
            self.assertEqual(shop.text("say", "x"), "x")
            shop.write("a", SAYS.replace("text = parsed.what", "text = 'new ' .. parsed.what"))
            wait_for(lambda: shop.text("say", "x") == "new x", "the new text")
            os.unlink(os.path.join(shop.folder, "a.lua"))
            wait_for(lambda: not shop.daemon.api("GET", f"/sessions/{shop.session}/commands")[1]["commands"],
                     "the script to be gone")

    def test_what_is_no_script_is_refused_with_the_reason(self):
        with Scripted({"agents-as-told": SAYS, "good": SAYS}) as shop:
            os.mkfifo(os.path.join(shop.folder, "fifo.lua"))
            os.symlink("/etc/passwd", os.path.join(shop.folder, "link.lua"))
            os.mkdir(os.path.join(shop.folder, "folder.lua"))
            with open(os.path.join(shop.folder, "bytes.lua"), "wb") as file:
                file.write(b"-- \xff\n")
            with open(os.path.join(shop.folder, "large.lua"), "wb") as file:
                file.write(b"-- \n" * (1 << 19))
            shop.write("bad name", SAYS)
            for words in ("a plugin already has that name", "fifo.lua is not a file", "link.lua",
                          "folder.lua is not a file", "bytes.lua is not UTF-8", "large.lua", "bad name.lua"):
                wait_for(lambda: words in shop.daemon.log(), words)
            self.assertEqual(shop.text("say", "x"), "x")

    def test_only_enabled_scripts_run(self):
        with Scripted({"a": HEARS, "b": SAYS}, config={"scripts.enabled": ["b"]}) as shop:
            commands = shop.daemon.api("GET", f"/sessions/{shop.session}/commands")[1]["commands"]
            self.assertEqual([each["plugin"] for each in commands], ["b"])

    def test_its_table_of_the_configuration_is_its_own(self):
        shows = "kage.register_command{name='show', description='', handler=function() " \
                "return kage.json.encode(kage.plugin_config()) end}"
        with Scripted({"a": shows}) as shop:
            with open(os.path.join(shop.daemon.home, "config.toml"), "a") as file:
                file.write("\n[plugins.config.a]\nx = [1]\n")
            self.assertEqual(shop.daemon.api("POST", "/reload")[0], 200)
            self.assertEqual(shop.text("show"), '{"x":[1]}')


if __name__ == "__main__":
    main()
