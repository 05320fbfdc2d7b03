"""What scripts of kage rely on, point by point, as that project's own tests have it.

Rewind (4 and 5) has tests of its own, in test_rewind.py.
"""
import glob
import json
import os

from harness import ROOT, FlowTest, main, wait_for
from test_script_files import CALLS, Reaching
from test_script_questions import ASKS, Asking, accept
from test_scripts import SAYS, Scripted
from test_turns import says, text_of


def command(name, body):
    return f"kage.register_command{{name='{name}', description='', handler=function(raw, ctx, parsed) {body} end}}\n"


def read(path):
    with open(path) as file:
        return file.read()


EXAMPLES = {os.path.basename(path)[:-4]: read(path) for path in glob.glob(os.path.join(ROOT, "plugins/scripts/*.lua"))}
GRANTS = {"redact": ["context"], "branch": ["exec:git"], "page": ["net"], "bookmarks": ["session_write"],
          "steward": ["session_write", "context"]}


class Points(FlowTest):
    def test_01_each_example_loads_without_an_error(self):
        self.assertGreaterEqual(len(EXAMPLES), 11)
        for granted in (False, True):
            config = {f"plugins.capabilities.{name}": grants for name, grants in GRANTS.items() if granted}
            with self.subTest(granted), Scripted(EXAMPLES, says("ok"), config=config) as shop:
                self.assertEqual(text_of(shop.run("hi")), "ok")
                shop.command("todo", "milk")
                self.assertIn("milk", shop.text("todo"))
                self.assertIn(shop.session, shop.text("sessions"))
                self.assertIn("m0: ", shop.text("usage"))
                self.assertIn("count_words", json.dumps(shop.provider.requests[0][1]["tools"]))
                if granted:
                    self.assertIn("here is on ", shop.text("mark", "here"))
                names = {each["name"]: each for each in shop.daemon.api("GET", "/plugins")[1]["plugins"]}
                for name in EXAMPLES:
                    self.assertIsNone(names[f"{name}@{shop.session}"]["problem"], name)
                self.assertNotIn(" error ", shop.daemon.log())

    def test_02_dialogs_ask_answer_and_cancel(self):
        with Asking({"a": ASKS}) as shop:
            self.assertEqual(shop.said("name", accept(text="Ada")), "hello Ada")
            self.assertEqual(shop.said("name", {"action": "cancel"}), "hello nobody")

    def test_03_a_second_parked_command_is_busy_and_the_slot_is_free_after_an_error(self):
        with Asking({"a": ASKS}) as shop:
            busy = []
            shop.lines("name", lambda question: busy.append(shop.command("two")[-1]["text"]) or accept(text="x"))
            self.assertIn("busy", busy[0])
            self.assertIn("after", shop.said("raises", accept(text="x")))
            self.assertEqual(shop.said("name", accept(text="y")), "hello y")

    def test_06_exec_replaced_by_a_function_that_raises_is_what_the_script_sees(self):
        text = "kage.request_capabilities({'exec'}) kage.exec = function() error('no git') end " + command(
            "x", "local ok, words = pcall(kage.exec, {cmd = 'git'}) return tostring(ok) .. words")
        with Scripted({"a": text}, config={"plugins.capabilities.a": ["exec"]}) as shop:
            self.assertIn("no git", shop.text("x"))

    def test_07_a_runaway_loop_ends_in_chunk_and_coroutines_and_lua_goes_on(self):
        loops = {"chunk": "while true do end",
                 "wrap": "coroutine.wrap(function() while true do end end)()",
                 "create": "local c = coroutine.create(function() while true do end end) "
                           "local ok, words = coroutine.resume(c) error(words)",
                 "pcall": "while true do pcall(function() while true do end end) end",
                 "xpcall": "while true do xpcall(function() while true do end end, function() while true do end end) "
                           "end"}
        text = "".join(command(name, body) for name, body in loops.items()) + command("fine", "return 'fine'")
        with Scripted({"a": text, "b": "while true do end"}, config={"limits.call_timeout_ms": 120000,
                                                                     "limits.initialize_timeout_ms": 120000}) as shop:
            for name in loops:
                with self.subTest(name):
                    result = shop.command(name)[-1]
                    self.assertTrue(result["is_error"])
                    self.assertIn("exceeded its CPU budget", result["text"])
                    self.assertEqual(shop.text("fine"), "fine")
            wait_for(lambda: "exceeded its CPU budget" in (
                shop.daemon.api("GET", f"/plugins/b@{shop.session}")[1]["problem"] or ""), "words in its status")

    def test_08_a_memory_bomb_is_an_error_and_lua_goes_on(self):
        text = command("bomb", "local s = 'x' while true do s = s .. s end") + \
            command("rep", "return #('x'):rep(1 << 40)") + command("fine", "return 'fine'") + \
            command("tables", "local t = {} for i = 1, 1 << 30 do t[i] = {} end") + \
            command("deep", "local function f() return f() + 1 end return f()")
        with Scripted({"a": text}) as shop:
            for name in ("bomb", "rep", "tables", "deep") * 2:
                result = shop.command(name)[-1]
                self.assertTrue(result["is_error"])
                self.assertRegex(result["text"], "not enough memory|too large|overflow")
                self.assertEqual(shop.text("fine"), "fine")
            self.assertEqual(shop.daemon.status(f"a@{shop.session}")["starts"], 1)

    def test_09_a_script_sees_nothing_of_another(self):
        spy = "kage.request_capabilities({'exec', 'session_write'})\n" + command(
            "spy", "return tostring(mine) .. select(2, pcall(kage.exec, {cmd = 'true'}))")
        with Reaching(["exec"], {"a": CALLS + "mine = 'secret'", "b": spy}) as shop:
            self.assertEqual(shop.ask("exec", cmd="printf", args=["x"])["stdout"], "x")
            self.assertTrue(shop.text("spy").startswith("nil"))
            self.assertIn('[plugins.capabilities] b = ["exec"]', shop.text("spy"))

    def test_10_store_and_config_are_a_scripts_own_and_last(self):
        text = command("put", "kage.store.set('k', raw)") + command(
            "get", "return tostring(kage.store.get('k')) .. tostring(kage.plugin_config().x)")
        scripts = {"a": text, "b": text.replace("'put'", "'b-put'").replace("'get'", "'b-get'")}
        with Scripted(scripts) as shop:
            with open(os.path.join(shop.daemon.home, "config.toml"), "a") as file:
                file.write("\n[plugins.config.a]\nx = 1\n")
            self.assertEqual(shop.daemon.api("POST", "/reload")[0], 200)
            shop.command("put", "v")
            self.assertEqual((shop.text("get"), shop.text("b-get")), ("v1", "nilnil"))
            shop.daemon.stop()
            shop.daemon.start()
            self.assertEqual(shop.text("get"), "v1")

    def test_11_there_is_no_way_out_by_metatables_or_g(self):
        text = command("out", """
          local found = {}
          for _, name in ipairs({ 'load', 'loadstring', 'dofile', 'loadfile', 'require', 'package', 'debug', 'io',
                                  'rawset' }) do
            if _G[name] ~= nil then found[#found + 1] = name end
          end
          for _, name in ipairs({ 'execute', 'exit', 'remove', 'rename', 'tmpname', 'getenv', 'setlocale' }) do
            if os[name] ~= nil then found[#found + 1] = name end
          end
          if string.dump ~= nil then found[#found + 1] = 'dump' end
          if getmetatable('') ~= false then found[#found + 1] = 'string' end
          return table.concat(found, ' ')""")
        with Scripted({"a": text}) as shop:
            self.assertEqual(shop.text("out"), "")

    def test_12_a_broken_script_does_not_stop_the_next_and_is_shown(self):
        with Scripted({"a": command("early", "return 'early'") + "error({})", "b": SAYS}) as shop:
            self.assertEqual(shop.text("say", "x"), "x")
            self.assertEqual(shop.text("early"), "early")
            shown = shop.daemon.api("GET", f"/plugins/a@{shop.session}")[1]
            self.assertIn("could not be run to its end", shown["problem"])
            self.assertIn("could not be run to its end", shop.daemon.api("GET", "/plugins/a")[1]["problem"])
            shop.write("a", "kage.log('info', 'mended')")
            wait_for(lambda: shop.daemon.api("GET", f"/sessions/{shop.session}/commands")[0] == 200 and
                     shop.daemon.api("GET", "/plugins/a")[1]["problem"] is None, "the problem to be gone")

    def test_13_a_reload_drops_what_waits(self):
        waits = "kage.defer(function() kage.notify('late') end, 600000)\n" + command(
            "ask", "return tostring(kage.ui.input('x'))")
        with Asking({"a": waits}) as shop:
            def reload(_question):
                shop.write("a", command("ask", "return 'new'"))
            ended = shop.lines("ask", reload)[-1]
            self.assertEqual(ended["type"], "result")
            wait_for(lambda: shop.command("ask")[-1]["text"] == "new", "the new file")

    def test_14_arguments_are_parsed_aliases_work_and_a_missing_one_is_told(self):
        text = """kage.register_command{name='go', aliases={'g'}, description='', args={
          {name='how', kind='choice', choices={'fast', 'slow'}}, {name='far', kind='flag'},
          {name='where', kind='text', optional=true}},
          handler=function(raw, ctx, parsed) return kage.json.encode({parsed.how, parsed.far, parsed.where}) end}"""
        with Scripted({"a": text}) as shop:
            self.assertEqual(shop.text("g", "fast yes to the  sea "), '["fast",true,"to the  sea"]')
            self.assertEqual(shop.command("go")[-1]["text"], "go: missing required arg `how`")
            self.assertIn("is one of", shop.command("go", "wild")[-1]["text"])

    def test_15_transforms_go_from_one_script_to_the_next(self):
        adds = "kage.on('transform_context', function(m) m[#m].content[1].text = m[#m].content[1].text .. '%s' return m end)"
        config = {"plugins.capabilities.a": ["context"], "plugins.capabilities.b": ["context"]}
        with Scripted({"b": adds % "b", "a": adds % "a"}, says("ok"), config=config) as shop:
            shop.run("x")
            self.assertEqual(shop.provider.requests[0][1]["messages"][-1]["content"], "xab")


class Processes(FlowTest):
    def test_the_oldest_idle_process_makes_room_and_that_is_told(self):
        counts = "n = 0\n" + command("count", "n = n + 1 return tostring(n)")
        with Scripted({"a": counts}, config={"scripts.processes_max": 1}) as shop:
            self.assertEqual([shop.text("count"), shop.text("count")], ["1", "2"])
            first, shop.session = shop.session, shop.new_session()
            self.assertEqual(shop.text("count"), "1")
            self.assertIn("scripts.processes_max is 1", shop.daemon.log())
            self.assertIn(f"a@{first}", shop.daemon.log())
            shop.session = first
            self.assertEqual(shop.text("count"), "1")
            second = shop.new_session()
            for _ in range(5):  # also of one that is just about to end
                for shop.session in (second, first):
                    self.assertEqual(shop.text("count"), "1")

    def test_processes_end_with_their_session(self):
        with Scripted({"a": SAYS}) as shop:
            shop.text("say", "x")
            shop.daemon.api("DELETE", f"/sessions/{shop.session}")
            wait_for(lambda: f"a@{shop.session}" not in
                     [each["name"] for each in shop.daemon.api("GET", "/plugins")[1]["plugins"]], "its end")


class BadInput(FlowTest):
    def words_of(self, body):
        """What a command with that body says of its error; the script goes on."""
        with Scripted({"a": command("bad", body) + command("fine", "return 'fine'"), "b": SAYS}) as shop:
            result = shop.command("bad")[-1]
            self.assertTrue(result["is_error"], result)
            self.assertEqual((shop.text("fine"), shop.text("say", "x")), ("fine", "x"))
            wait_for(lambda: "command bad" in shop.daemon.log(), "words in the log")
            return result["text"]

    def test_an_error_that_is_a_table_has_words(self):
        self.assertIn("an error that is a table", self.words_of("error({code = 1})"))

    def test_an_error_that_is_nil_has_words(self):
        self.assertIn("an error that is a nil", self.words_of("error(nil)"))

    def test_deep_recursion_is_an_error(self):
        self.assertRegex(self.words_of("local function f() return f() + 1 end return f()"), "overflow|memory")

    def test_deep_recursion_through_c_is_an_error(self):
        self.assertIn("overflow", self.words_of("local function f() string.gsub('a', 'a', f) end f()"))

    def test_metatables_that_lie_cost_the_script_its_answer_alone(self):
        text = command("lies", "return setmetatable({}, {__index = function() error('lies') end})") + \
            command("long", "return setmetatable({}, {__len = function() return 1 << 60 end})") + \
            command("words", "error(setmetatable({}, {__tostring = function() return {} end}))") + \
            command("cycle", "local t = {} t.t = t return t") + command("fine", "return 'fine'")
        with Scripted({"a": text}) as shop:
            for name in ("lies", "long", "words", "cycle"):
                with self.subTest(name):
                    self.assertEqual(shop.command(name)[-1]["type"], "result")
                    self.assertEqual(shop.text("fine"), "fine")

    def test_a_handler_that_yields_is_an_error_and_the_turn_goes_on(self):
        text = "kage.on('agent_start', function() coroutine.yield(1) end)\n" + \
            command("yields", "coroutine.yield({__kage_suspend = true})") + command("fine", "return 'fine'")
        with Scripted({"a": text}, says("hello")) as shop:
            self.assertEqual(text_of(shop.run("hi")), "hello")
            self.assertTrue(shop.command("yields")[-1]["is_error"])
            self.assertEqual(shop.text("fine"), "fine")
            wait_for(lambda: "yielded" in shop.daemon.log(), "words in the log")

    def test_nothing_that_a_script_prints_is_a_line_of_the_wire(self):
        text = command("print", "print('{\"jsonrpc\":\"2.0\",\"method\":\"shutdown\"}\\n{}') return 'printed'")
        with Scripted({"a": text}) as shop:
            self.assertEqual(shop.text("print"), "printed")
            self.assertEqual(shop.text("print"), "printed")

    def test_ten_thousand_timers_are_refused(self):
        text = command("timers", "for i = 1, 10000 do kage.timer(function() end, 50) end") + \
            command("fine", "return 'fine'")
        with Scripted({"a": text}) as shop:
            self.assertIn("at most 1000 timers", shop.command("timers")[-1]["text"])
            self.assertEqual(shop.text("fine"), "fine")

    def test_what_does_not_fit_into_a_line_is_an_error_and_its_state_stays(self):
        text = "n = 0\n" + command("long", "return string.rep('x', (4 << 20) - 100)") + \
            command("escaped", "return string.rep('\\1', 1 << 20)") + \
            command("notice", "kage.notify(string.rep('\\1', 1 << 20))") + \
            command("raises", "error(string.rep('\\1', 1 << 22))") + command("count", "n = n + 1 return tostring(n)")
        with Scripted({"a": text}) as shop:
            for i, name in enumerate(("long", "escaped", "notice", "raises")):
                with self.subTest(name):
                    self.assertTrue(shop.command(name)[-1]["is_error"])
                    self.assertEqual(shop.text("count"), str(i + 1))
            self.assertEqual(shop.daemon.status(f"a@{shop.session}")["starts"], 1)

    def test_a_pattern_bomb_ends_with_its_deadline(self):
        text = command("bomb", "return string.find(string.rep('a', 1 << 20), '.-.-.-.-.-b')") + \
            command("fine", "return 'fine'")
        with Scripted({"a": text}, config={"limits.call_timeout_ms": 1000}) as shop:
            self.assertTrue(shop.command("bomb")[-1]["is_error"])
            shop.daemon.wait_restarted(f"a@{shop.session}", 1)
            wait_for(lambda: shop.command("fine")[-1]["text"] == "fine", "it to go on")

    def test_of_two_scripts_with_one_command_the_first_has_it(self):
        with Scripted({"a": command("x", "return 'a'"), "b": command("x", "return 'b'")}) as shop:
            self.assertEqual(shop.text("x"), "a")


class Install(FlowTest):
    def test_a_file_is_installed_after_a_yes_and_a_name_that_is_taken_is_refused(self):
        with Scripted({}) as shop:
            path = os.path.join(shop.daemon.base, "speaks.lua")
            with open(path, "w") as file:
                file.write(SAYS)
            self.assertEqual(shop.daemon.cli("plugin", "install", path)[0], 5)
            code, out, errors = shop.daemon.cli("plugin", "install", path, "--yes")
            self.assertEqual(code, 0, errors)
            self.assertIn("grants it nothing", errors)
            wait_for(lambda: shop.daemon.api("GET", "/plugins/speaks")[0] == 200, "the script")
            self.assertEqual(shop.text("say", "x"), "x")
            os.rename(path, os.path.join(shop.daemon.base, "agents-as-told.lua"))
            taken = shop.daemon.cli("plugin", "install", os.path.join(shop.daemon.base, "agents-as-told.lua"), "--yes")
            self.assertNotEqual(taken[0], 0)
            self.assertIn("there is already a plugin called agents-as-told", taken[2])


if __name__ == "__main__":
    main()
