"""What scripts write into their session, say in it, and ask of it; and what they hear while a model writes."""
import json
import os
import threading

from harness import FlowTest, main, wait_for
from models import END, STREAM, delta
from test_branches import move, words
from test_script_points import command
from test_scripts import Scripted
from test_turns import TOOL, calls, next_line, of, says, text_of

WRITES = {"plugins.capabilities.a": ["session_write"]}
SUMMARIZE = "{ strategy: summarize, keep_recent: 1 }"


def told(*events):
    """A script that writes down what it hears; the command `told` tells it."""
    return "heard = {}\n" + "".join(
        f"kage.on('{event}', function(data) heard[#heard + 1] = {{'{event}', data}} end)\n" for event in events) + \
        command("told", "return kage.json.encode(heard)")


def heard(shop):
    return json.loads(shop.text("told"))


def events_of(shop):
    """The contents of entries that no model sees."""
    return [content for kind, _, content in shop.entries() if kind == "event"]


def held(text, go):
    """An answer that comes when the test says so."""
    def answer(connection):
        assert go.wait(120)
        connection.sendall(says(text))
    return answer


class Written(FlowTest):
    def test_entries_and_labels_are_kept_and_no_model_sees_them(self):
        text = "kage.request_capabilities({'session_write'})\n" + \
            command("card", "kage.session.append_entry('demo:card', {title = raw, list = {}})") + \
            command("bare", "kage.session.append_entry('bare')") + \
            command("label", "kage.session.set_label(kage.session.entries()[2].id, raw ~= '' and raw or nil)") + \
            command("lost", "kage.session.set_label('01NOSUCHENTRY', 'x')") + \
            command("kinds", "local k = {} for i, e in ipairs(kage.session.entries()) do k[i] = e.kind end "
                             "return table.concat(k, ' ')")
        with Scripted({"a": text}, says("a0"), says("a1"), config=WRITES) as shop:
            shop.run("u0")
            for name, args in (("card", "hello"), ("bare", ""), ("label", "here"), ("label", ""), ("lost", "")):
                self.assertEqual(shop.text(name, args), "")
            wait_for(lambda: len(events_of(shop)) == 5, "the entries")
            entry = [each["id"] for each in shop.daemon.api("GET", f"/sessions/{shop.session}/entries")[1]["entries"]
                     if each["content"] == "u0"][0]
            self.assertEqual(events_of(shop)[1:], [
                {"event": "custom", "plugin": "a",
                 "entry": {"kind": "demo:card", "data": {"title": "hello", "list": {}}}},
                {"event": "custom", "plugin": "a", "entry": {"kind": "bare", "data": {}}},
                {"event": "label", "plugin": "a", "entry": entry, "label": "here"},
                {"event": "label", "plugin": "a", "entry": entry, "label": None}])
            wait_for(lambda: "set a label" in shop.daemon.log(), "a warning")
            self.assertEqual(shop.text("kinds"), "header message message custom custom label label")
            shop.run("u1")
            self.assertNotIn("demo:card", json.dumps(shop.provider.requests[1][1]["messages"]))

    def test_what_is_written_in_a_turn_comes_behind_it_and_needs_no_grant(self):
        text = "kage.on('turn_start', function(t) kage.session.append_entry('step', {index = t.index}) end)"
        with Scripted({"a": text}, calls({"acts": {"result": 1}}), says("done")) as shop:
            shop.run("go")
            wait_for(lambda: len(events_of(shop)) == 3, "both entries")
            self.assertEqual([kind for kind, _, _ in shop.entries()],
                             ["event", "message", "tool_call", "tool_result", "message", "event", "event"])
            self.assertEqual([each["entry"]["data"]["index"] for each in events_of(shop)[1:]], [0, 1])

    def test_bad_arguments_raise_and_name_the_function(self):
        tries = {"append_entry": ("''", "1, {}", "'x', 'y'"), "set_label": ("''", "nil", "'x', 1"), "fork": ("1",)}
        text = "".join(command(f"{name}{i}", f"kage.session.{name}({arguments})")
                       for name, lines in tries.items() for i, arguments in enumerate(lines))
        text += command("large", "kage.session.append_entry('x', {t = ('x'):rep(70000)})")
        with Scripted({"a": text}) as shop:
            for name, lines in tries.items():
                for i in range(len(lines)):
                    result = shop.command(f"{name}{i}")[-1]
                    self.assertTrue(result["is_error"])
                    self.assertIn(f"kage.session.{name}", result["text"])
            self.assertIn("more than 65536 bytes", shop.command("large")[-1]["text"])

    def test_one_session_is_not_flooded(self):
        text = command("flood", "for i = 1, 1000 do kage.session.append_entry('x') end")
        with Scripted({"a": text}) as shop:
            self.assertIn("a minute", shop.command("flood")[-1]["text"])
            wait_for(lambda: len(events_of(shop)) > 100, "what was taken")

    def test_a_handler_floods_a_turn_with_no_more_than_fits(self):
        text = "kage.on('turn_start', function() for i = 1, 100 do kage.session.append_entry('x') end end)"
        with Scripted({"a": text}, says("done")) as shop:
            self.assertEqual(text_of(shop.run("go")), "done")
            wait_for(lambda: len(events_of(shop)) == 65, "those that fit")
            self.assertIn("wait for the end of the turn", shop.daemon.log())


class Sessions(FlowTest):
    LISTS = "kage.request_capabilities({'session_write'})\n" + \
        command("list", "return kage.json.encode(kage.session.list())") + \
        command("go", "kage.session.switch(raw)") + \
        command("fork", "kage.session.fork(raw ~= '' and raw or nil) return 'asked'")

    def sessions(self, shop):
        return shop.daemon.api("GET", "/sessions")[1]["sessions"]

    def test_list_has_the_sessions_of_the_project_and_switch_takes_what_it_has(self):
        with Scripted({"a": self.LISTS}, says("a0"), says("b0"), config=WRITES) as shop:
            shop.run("u0")
            other = shop.session
            shop.session = shop.new_session()
            shop.run("v0")
            listed = json.loads(shop.text("list"))
            self.assertEqual({each["value"] for each in listed}, {other, shop.session})
            self.assertTrue(all(each["value"].startswith("ses_" + each["id"]) for each in listed))
            shop.command("go", other)
            self.assertEqual(words(shop), ["u0", "a0"])

    def test_fork_stays_where_it_is(self):
        with Scripted({"a": self.LISTS}, says("a0"), says("a1"), config=WRITES) as shop:
            shop.run("u0")
            shop.run("u1")
            entries = shop.daemon.api("GET", f"/sessions/{shop.session}/entries")[1]["entries"]
            at = [each["id"] for each in entries if each["content"] == "a0"][0]
            self.assertEqual(shop.text("fork", at), "asked")
            wait_for(lambda: len(self.sessions(shop)) == 2, "the fork")
            self.assertEqual(words(shop), ["u0", "a0", "u1", "a1"])
            made = [each for each in self.sessions(shop) if each["id"] != shop.session][0]
            self.assertEqual((made["parent"], made["parent_entry"]), (shop.session, at))
            shop.session = made["id"]
            self.assertEqual(words(shop), ["u0", "a0"])

    def test_scripts_forbid_a_fork_or_choose_another_place(self):
        watches = "kage.on('session_before_fork', function(target) asked = target return answer end)\n" + \
            command("forbid", "answer = {cancel = raw}") + command("patch", "answer = {patch = raw}") + \
            command("asked", "return asked")
        with Scripted({"a": self.LISTS, "b": watches}, says("a0"), says("a1"), config=WRITES) as shop:
            shop.run("u0")
            shop.run("u1")
            ids = {each["content"]: each["id"] for each in
                   shop.daemon.api("GET", f"/sessions/{shop.session}/entries")[1]["entries"] if
                   each["kind"] == "message"}
            shop.command("forbid", "not now")
            self.assertEqual(shop.text("fork", ids["a0"]), "asked")
            wait_for(lambda: "script b forbids the fork: not now" in shop.daemon.log(), "the veto")
            self.assertEqual(shop.text("asked"), ids["a0"])
            status, answer = shop.daemon.api("POST", f"/sessions/{shop.session}/fork", {})
            self.assertEqual((status, len(self.sessions(shop))), (403, 1), answer)
            shop.command("patch", ids["a0"])
            status, made = shop.daemon.api("POST", f"/sessions/{shop.session}/fork", {"entry": ids["a1"]})
            self.assertEqual((status, made["parent_entry"]), (201, ids["a0"]))

    def test_a_script_sends_a_move_elsewhere(self):
        watches = "kage.on('session_before_switch', function() return answer end)\n" + \
            command("patch", "answer = {patch = raw}")
        with Scripted({"b": watches}, says("a0"), says("a1"), says("a2")) as shop:
            for text in ("u0", "u1", "u2"):
                shop.run(text)
            ids = {each["content"]: each["id"] for each in
                   shop.daemon.api("GET", f"/sessions/{shop.session}/entries")[1]["entries"] if
                   each["kind"] == "message"}
            shop.command("patch", ids["a0"])
            move(shop, "rewind", entry=ids["a1"])
            self.assertEqual(words(shop), ["u0", "a0"])


class Said(FlowTest):
    SENDS = "kage.request_capabilities({'session_write'})\n" + \
        command("send", "kage.send_message(raw)") + \
        command("later", "kage.send_message(raw, {trigger_turn = false})") + \
        command("bad", "kage.send_message('x', {deliver_as = 'system'})")

    def test_a_message_begins_a_turn_when_none_runs(self):
        with Scripted({"a": self.SENDS}, says("a0"), says("a1"), config=WRITES) as shop:
            shop.command("send", "from the script")
            wait_for(lambda: words(shop) == ["from the script", "a0"], "the turn")
            shop.command("later", "and this")
            self.assertEqual(words(shop), ["from the script", "a0"])
            shop.run("mine")
            self.assertEqual(words(shop), ["from the script", "a0", "mine", "and this", "a1"])
            self.assertIn("deliver_as is user", shop.command("bad")[-1]["text"])

    def test_a_message_in_a_turn_is_said_before_its_next_step_and_the_reader_hears_of_it(self):
        text = "kage.request_capabilities({'session_write'})\n" \
               "kage.on('tool_result', function() kage.send_message('be brief') end)"
        with Scripted({"a": text}, calls({"acts": {"result": 1}}), says("brief"), config=WRITES) as shop:
            lines = shop.run("go")
            self.assertEqual(text_of(lines), "brief")
            self.assertEqual(of(lines, "said"), [{"type": "said", "plugin": "a", "text": "be brief"}])
            self.assertEqual(words(shop), ["go", "be brief", "brief"])
            self.assertEqual(shop.provider.requests[1][1]["messages"][-1]["content"], "be brief")

    def test_a_follow_up_goes_on_in_the_same_run(self):
        text = "kage.request_capabilities({'session_write'})\n" \
               "kage.on('turn_end', function() if not said then said = true kage.send_message('check it') end end)"
        with Scripted({"a": text}, says("done"), says("checked"), config=WRITES) as shop:
            self.assertEqual(text_of(shop.run("go")), "donechecked")
            self.assertEqual(words(shop), ["go", "done", "check it", "checked"])

    def test_scripts_do_not_talk_to_a_model_for_ever(self):
        text = "kage.request_capabilities({'session_write'})\n" \
               "kage.on('agent_end', function() kage.send_message('again') end)"
        with Scripted({"a": text}, *(says(f"a{i}") for i in range(30)), config=WRITES) as shop:
            shop.run("go")
            wait_for(lambda: "scripts begin no more turns" in shop.daemon.log(), "the bound")
            self.assertEqual(words(shop).count("again"), 8)
            shop.run("I am here")
            wait_for(lambda: shop.daemon.log().count("scripts begin no more turns") == 2, "the bound")

    def test_without_the_grant_it_raises_and_names_the_line(self):
        with Scripted({"a": self.SENDS}) as shop:
            self.assertIn('[plugins.capabilities] a = ["session_write"]', shop.command("send", "x")[-1]["text"])

    def test_usage_and_config_are_told(self):
        text = command("usage", "return kage.json.encode(kage.context_usage() or {})") + \
            command("config", "return kage.json.encode(kage.config())")
        answers = says("a0"), calls({"acts": {"result": 1}}), says("a1")
        with Scripted({"a": text}, *answers, config={"plugins.capabilities.a": ["context"]}) as shop:
            self.assertEqual(shop.text("usage"), "{}")
            shop.run("u0")
            self.assertGreater(json.loads(shop.text("usage"))["current_context"], 0)
            shop.run("u1", steps=1)
            usage = json.loads(shop.text("usage"))
            self.assertEqual((usage["model"], usage["working"], usage["cache_write_tokens"]), ("m0", False, 0))
            self.assertEqual((usage["input_tokens"], usage["output_tokens"]), (7, 3))
            self.assertEqual(usage["current_context"], 10)
            self.assertGreater(usage["context_window"], 0)
            config = json.loads(shop.text("config"))
            self.assertEqual((config["model"], config["system_prompt"], config["cwd"]),
                             ("m0", "You sell fruit.", shop.root))
        with Scripted({"a": text}) as shop:
            self.assertNotIn("system_prompt", json.loads(shop.text("config")))


class Compactions(FlowTest):
    COMPACTS = command("compact", "kage.compact(raw ~= '' and raw or nil)")

    def compactions(self, shop):
        return [content for kind, _, content in shop.entries() if kind == "summary"]

    def test_a_script_asks_for_one_with_words_for_who_sums_up(self):
        with Scripted({"a": self.COMPACTS}, says("a0"), says("a1"), says("it was about fruit"),
                      compaction=SUMMARIZE) as shop:
            shop.run("u0")
            shop.run("u1")
            shop.command("compact", "mention the plums")
            wait_for(lambda: self.compactions(shop), "the summary")
            self.assertIn("it was about fruit", json.dumps(self.compactions(shop)))
            self.assertIn("mention the plums", shop.provider.requests[2][1]["messages"][0]["content"])

    def test_compact_prepare_changes_the_question_or_writes_the_summary(self):
        prepares = self.COMPACTS + "kage.on('compact_prepare', function(data) " \
            "seen = data data.instruction = 'Sing.' data.prompt = 'Loudly.' if mine then data.summary = mine end " \
            "return data end)\n" + command("mine", "mine = raw") + \
            command("seen", "return kage.json.encode(seen)")
        config = {"plugins.capabilities.a": ["context"]}
        with Scripted({"a": prepares}, *(says(f"a{i}") for i in range(6)), compaction=SUMMARIZE, config=config) as shop:
            shop.run("u0")
            shop.run("u1")
            shop.command("compact", "asked")
            wait_for(lambda: self.compactions(shop), "the summary")
            self.assertEqual(shop.provider.requests[2][1]["messages"][0]["content"], "Sing.\n\nLoudly.")
            seen = json.loads(shop.text("seen"))
            self.assertIn("a0", seen["transcript"])
            self.assertEqual((seen["model"], seen["summarized"]), ("m0", 1))
            shop.run("u2")
            shop.command("mine", "written by a script")
            shop.command("compact")
            wait_for(lambda: "written by a script" in json.dumps(self.compactions(shop)), "its summary")
            self.assertEqual(len(shop.provider.requests), 4)


class Tools(FlowTest):
    def test_a_tool_is_renamed_for_the_model_and_called_by_its_own_name(self):
        text = "kage.rename_tool{from = '" + TOOL + "', to = 'act'}\n" \
               "kage.register_tool{name='add', description='', schema={type='object'}, execute=function() " \
               "return 'added' end}\nkage.rename_tool{from = 'add', to = 'plus'}"
        answers = calls({"acts": {"result": 3}}, name="act"), calls({}, name="plus"), says("done")
        with Scripted({"a": text}, *answers) as shop:
            lines = shop.run("go")
            names = [tool["function"]["name"] for tool in shop.provider.requests[0][1]["tools"]]
            self.assertIn("act", names)
            self.assertIn("plus", names)
            self.assertNotIn(TOOL, names)
            self.assertEqual([line["result"] for line in of(lines, "tool_result")], [3, {"text": "added"}])
            self.assertEqual([line["tool"] for line in of(lines, "tool_call")], ["agents-as-told.act", "a__add"])

    def test_a_tool_takes_the_place_of_a_plugins_and_its_bare_name_works(self):
        text = "kage.override_tool{name='" + TOOL + "', description='mine', schema={type='object'}, " \
               "execute=function() return 'mine' end}\n" \
               "kage.register_tool{name='bare', description='', schema={type='object'}, execute=function() " \
               "return 'bare' end}"
        with Scripted({"a": text}, calls({}), calls({}, name="bare"), says("done")) as shop:
            lines = shop.run("go")
            tools = {tool["function"]["name"]: tool["function"] for tool in shop.provider.requests[0][1]["tools"]}
            self.assertEqual(tools[TOOL]["description"], "mine")
            self.assertNotIn("a__" + TOOL, tools)
            self.assertEqual([line["result"] for line in of(lines, "tool_result")],
                             [{"text": "mine"}, {"text": "bare"}])

    def test_a_name_that_is_taken_is_not_given_away(self):
        text = "kage.register_tool{name='x', description='', schema={type='object'}, execute=function() end}\n" \
               "kage.rename_tool{from = 'x', to = '" + TOOL + "'}"
        with Scripted({"a": text}, says("done")) as shop:
            shop.run("go")
            names = [tool["function"]["name"] for tool in shop.provider.requests[0][1]["tools"]]
            self.assertEqual((names.count(TOOL), names.count("a__x")), (1, 1))


class Streams(FlowTest):
    def test_a_message_is_told_as_it_is_written(self):
        text = told("message_start", "message_update", "message_end", "turn_end")
        answer = STREAM + b"".join(delta(word) for word in ("one ", "two ", "three")) + END
        with Scripted({"a": text}, answer, config={"plugins.capabilities.a": ["context"]}) as shop:
            self.assertEqual(text_of(shop.run("go")), "one two three")
            events = heard(shop)
            self.assertEqual(events[0][0], "message_start")
            self.assertEqual([name for name, _ in events[-2:]], ["message_end", "turn_end"])
            updates = [data for name, data in events if name == "message_update"]
            self.assertEqual("".join(data["delta"] for data in updates), "one two three")
            entry = [each["id"] for each in shop.daemon.api("GET", f"/sessions/{shop.session}/entries")[1]["entries"]
                     if each["content"] == "one two three"][0]
            self.assertEqual({data["id"] for name, data in events if name.startswith("message")}, {entry})

    def test_words_of_the_model_need_the_grant_and_its_start_does_not(self):
        with Scripted({"a": told("message_start", "message_update")}, says("secret")) as shop:
            shop.run("go")
            self.assertEqual([name for name, _ in heard(shop)], ["message_start"])

    def test_a_script_that_is_slow_holds_no_stream_up_and_hears_all(self):
        text = told("message_end") + "kage.on('message_update', function(data) kage.sleep_ms(200) " \
            "text = (text or '') .. data.delta end)\n" + command("text", "return text")
        answer = STREAM + b"".join(delta(f"{i},") for i in range(300)) + END
        with Scripted({"a": text}, answer, config={"plugins.capabilities.a": ["context"]}) as shop:
            whole = "".join(f"{i}," for i in range(300))
            self.assertEqual(text_of(shop.run("go")), whole)
            self.assertEqual(shop.text("text"), whole)

    def test_progress_of_a_tool_is_told(self):
        text = told("tool_call", "tool_update", "tool_result")
        with Scripted({"a": text}, calls({}, name="asks__wait"), says("done"), plugin="asks") as shop:
            with shop.running("go") as response:
                call = next_line(response, "tool_call")["call"]
                wait_for(lambda: [name for name, _ in heard(shop)][-1] == "tool_update", "the progress")
                first, last = heard(shop)[0], heard(shop)[-1]
                self.assertEqual((first[0], last[1]["id"], last[1]["structured"]["total"]), ("tool_call", call, 2))
                self.assertEqual(shop.daemon.api("POST", f"/sessions/{shop.session}/cancel")[0], 200)

    def test_another_model_is_told(self):
        with Scripted({"a": told("model_select", "turn_start")}, says("a0"), says("a1")) as shop:
            with open(os.path.join(shop.daemon.home, "local.toml"), "a") as file:
                file.write('[models.m9]\nprovider = "p0"\nmodel = "other"\n')
            shop.run("u0")
            shop.write_project("m9")
            self.assertEqual(shop.daemon.api("POST", "/reload")[0], 200)
            self.assertEqual(shop.daemon.api("POST", "/projects/shop/reload")[0], 200)
            shop.run("u1")
            self.assertEqual(heard(shop), [["turn_start", {"index": 0}], [
                "model_select", {"prev": "m0", "next": "m9", "source": "project"}], ["turn_start", {"index": 0}]])


class Reloads(FlowTest):
    """What a script asked for in a turn is dropped when its file changes before the turn is over."""

    ASKS = "kage.request_capabilities({'session_write'})\n" \
           "kage.on('agent_start', function() kage.session.fork_to(kage.session.entries()[3].id) " \
           "kage.session.append_entry('x') kage.session.fork() end)"

    def test_reload_drops_moves_messages_and_entries_that_wait_and_says_so(self):
        go = threading.Event()
        with Scripted({"a": "-- nothing"}, says("a0"), held("a1", go), says("a2"), config=WRITES) as shop:
            shop.run("u0")
            shop.write("a", self.ASKS)
            wait_for(lambda: "not the one that its grants are for" in
                     (shop.daemon.api("GET", "/plugins/a")[1]["problem"] or ""), "the new file")
            self.assertEqual(shop.daemon.cli("plugin", "approve", "a", "--yes")[0], 0)
            with shop.running("u1") as response:
                wait_for(lambda: len(shop.provider.requests) == 2, "the turn")
                shop.write("a", command("new", "return 'new'"))
                wait_for(lambda: "not the one that its grants are for" in
                         (shop.daemon.api("GET", "/plugins/a")[1]["problem"] or ""), "the other file")
                go.set()
                lines = [json.loads(line) for line in response]
            self.assertEqual(of(lines, "end")[0]["stop"], "stop")
            wait_for(lambda: shop.text("new") == "new", "the new script")
            for what in ("the move", "an entry", "a fork"):
                wait_for(lambda: f"{what} that it asked for is dropped" in shop.daemon.log(), what)
            self.assertEqual(words(shop), ["u0", "a0", "u1", "a1"])
            self.assertEqual(len(events_of(shop)), 1)
            self.assertEqual(len(shop.daemon.api("GET", "/sessions")[1]["sessions"]), 1)

    def test_reload_drops_a_message_that_waits_for_the_next_turn(self):
        with Scripted({"a": Said.SENDS}, says("a0"), config=WRITES) as shop:
            shop.command("later", "never said")
            shop.write("a", command("new", "return 'new'"))
            wait_for(lambda: shop.command("new", status=None)[-1].get("text") == "new", "the new script")
            shop.run("u0")
            self.assertEqual(words(shop), ["u0", "a0"])
            self.assertIn("a message that it asked for is dropped", shop.daemon.log())


if __name__ == "__main__":
    main()
