"""Plugins against the host in memory."""
import asyncio
import os
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from kaged_sdk import (ConfigInvalid, HostGone, InvalidParams, Log, Plugin,  # noqa: E402
                       PluginError, blob, compactor_result, unblob)
from kaged_sdk.testing import Host  # noqa: E402


def quiet_plugin(*capabilities):
    """A plugin and the lines of its log."""
    lines = []
    return Plugin("unit", "1.0.0", capabilities=capabilities, log=Log(lines.append)), lines


class Calls(unittest.TestCase):
    def setUp(self):
        self.plugin, self.log = quiet_plugin()

    def failure_of(self, function, *arguments, **options):
        with self.assertRaises(PluginError) as caught:
            function(*arguments, **options)
        return caught.exception

    def test_sync_and_async_handlers_answer(self):
        @self.plugin.method("unit.plain")
        def plain(params, ctx):
            return {"from": "thread", **params}

        @self.plugin.method("unit.coroutine")
        async def coroutine(params, ctx):
            await asyncio.sleep(0)
            return {"from": "loop", **params}

        with Host(self.plugin) as host:
            self.assertEqual(host.call("unit.plain", {"a": 1}), {"from": "thread", "a": 1})
            self.assertEqual(host.call("unit.coroutine", {"a": 2}), {"from": "loop", "a": 2})

    def test_handlers_run_at_the_same_time(self):
        meeting = threading.Barrier(3, timeout=30)
        self.plugin.method("unit.meet")(lambda params, ctx: meeting.wait() >= 0)
        with Host(self.plugin) as host:
            threads = [threading.Thread(target=host.call, args=("unit.meet",)) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30)
            self.assertFalse(meeting.broken)

    def test_introduction_lists_methods_and_not_tools_or_hooks(self):
        plugin = Plugin("unit", "1.0.0", capabilities=["net:[]"], notifications=["unit.changed"])
        plugin.method("unit.one")(print)
        plugin.tool("two")(print)
        plugin.hook("pre_compact")(print)
        with Host(plugin) as host:
            self.assertEqual(host.introduction, {
                "name": "unit", "version": "1.0.0", "api_version": 1, "methods": ["unit.one"],
                "notifications": ["unit.changed"], "capabilities_used": ["net:[]"]})

    def test_tools_and_hooks_are_called_by_their_full_names(self):
        self.plugin.tool("add")(lambda params, ctx: params["a"] + params["b"])
        self.plugin.hook("pre_compact")(
            lambda params, ctx: compactor_result([], ["m1"], summary="gone"))
        with Host(self.plugin) as host:
            self.assertEqual(host.tool("add", {"a": 2, "b": 3}), 5)
            self.assertEqual(host.hook("pre_compact"), {
                "role": "compactor", "messages": [], "superseded": ["m1"], "summary": "gone"})

    def test_errors_keep_code_message_and_data(self):
        @self.plugin.method("unit.fail")
        async def fail(params, ctx):
            raise PluginError("busy", code=-32005, data={"retry": 1})

        @self.plugin.method("unit.need")
        def need(params, ctx):
            raise InvalidParams("x is missing")

        with Host(self.plugin) as host:
            error = self.failure_of(host.call, "unit.fail")
            self.assertEqual((error.code, error.message, error.data),
                             (-32005, "busy", {"retry": 1}))
            error = self.failure_of(host.call, "unit.need")
            self.assertEqual((error.code, error.message), (-32602, "invalid params: x is missing"))
            self.assertEqual(self.failure_of(host.call, "unit.none").code, -32601)

    def test_what_cannot_be_json_is_an_internal_error(self):
        bad = {"nan": float("nan"), "set": {1}, "half": "\ud800", "long": "x" * (5 << 20)}
        self.plugin.method("unit.bad")(lambda params, ctx: bad[params["what"]])
        self.plugin.method("unit.data")(self.raise_data)
        with Host(self.plugin) as host:
            for what in bad:
                with self.subTest(what):
                    error = self.failure_of(host.call, "unit.bad", {"what": what})
                    self.assertEqual(error.code, -32603)
            self.assertEqual(self.failure_of(host.call, "unit.data").code, -32603)

    @staticmethod
    def raise_data(params, ctx):
        raise PluginError("no", data={1, 2})

    def test_a_crash_is_logged_with_its_trace(self):
        self.plugin.method("unit.crash")(lambda params, ctx: {}["bug"])
        with Host(self.plugin) as host:
            error = self.failure_of(host.call, "unit.crash")
            self.assertEqual((error.code, error.message),
                             (-32603, "internal error: KeyError: 'bug'"))
        self.assertIn("Traceback", "".join(self.log))

    def test_names_are_checked_when_registered(self):
        for register, name in ((self.plugin.method, "nodot"), (self.plugin.method, "kaged.x"),
                               (self.plugin.method, "a.b\n"), (self.plugin.tool, "a.b"),
                               (self.plugin.hook, "on_tuesday")):
            with self.subTest(name), self.assertRaises(ValueError):
                register(name)
        self.plugin.tool("twice")(print)
        with self.assertRaises(ValueError):
            self.plugin.tool("twice")

    def test_the_context_is_typed(self):
        self.plugin.method("unit.who")(lambda params, ctx: [
            ctx.operator_id, ctx.project_id, ctx.agent_path, ctx.session_id, ctx.project_root])
        with Host(self.plugin) as host:
            self.assertEqual(host.call("unit.who"), ["tester", None, None, None, None])
            given = {"project_id": "music", "agent_path": "primary", "session_id": "ses_1",
                     "project_root": "/music"}
            self.assertEqual(host.call("unit.who", context=given),
                             ["tester", "music", "primary", "ses_1", "/music"])

    def test_notifications_reach_the_host_in_order(self):
        @self.plugin.method("unit.tell")
        def tell(params, ctx):
            for n in range(3):
                self.plugin.notify("unit.told", {"n": n})

        with Host(self.plugin) as host:
            host.call("unit.tell")
            self.assertEqual(host.notifications, [("unit.told", {"n": n}) for n in range(3)])

    def test_nothing_is_sent_before_the_plugin_runs(self):
        with self.assertRaises(HostGone):
            self.plugin.notify("unit.told")


class Configuration(unittest.TestCase):
    def setUp(self):
        self.plugin, _ = quiet_plugin()
        self.plugin.method("unit.config")(lambda params, ctx: ctx.config)

    def test_a_call_may_have_its_own(self):
        with Host(self.plugin, config={"a": 1}) as host:
            self.assertEqual(host.call("unit.config"), {"a": 1})
            self.assertEqual(host.call("unit.config", config={"a": 2}), {"a": 2})
            host.configure({"a": 3})
            self.assertEqual(host.call("unit.config"), {"a": 3})

    def test_a_refused_one_is_not_kept(self):
        @self.plugin.on_config
        async def check(config):
            if config["a"] > 1:
                raise ConfigInvalid("a is too large", {"field": "a"})

        with Host(self.plugin, config={"a": 1}) as host:
            with self.assertRaises(PluginError) as caught:
                host.configure({"a": 2})
            self.assertEqual((caught.exception.code, caught.exception.data),
                             (-32004, {"field": "a"}))
            self.assertEqual(self.plugin.config, {"a": 1})

    def test_projects_are_told(self):
        seen = []
        self.plugin.on_activated(lambda project, config: seen.append((project, config)))
        self.plugin.on_deactivated(seen.append)
        with Host(self.plugin, projects=["music"]) as host:
            host.activate("lab", {"x": 1})
            self.assertEqual(self.plugin.projects, {"music": {}, "lab": {"x": 1}})
            host.deactivate("music")
            self.assertEqual(seen, [("lab", {"x": 1}), "music"])
            self.assertEqual(list(self.plugin.projects), ["lab"])


class StorageUse(unittest.TestCase):
    def setUp(self):
        self.plugin, self.log = quiet_plugin("kaged:storage:write")
        self.plugin.on_start(
            lambda: self.plugin.storage.exec("CREATE TABLE notes(text TEXT, data BLOB)"))

    def test_rows_go_in_and_come_out(self):
        @self.plugin.method("unit.add")
        def add(params, ctx):
            return ctx.storage.exec("INSERT INTO notes VALUES (:text, :data)",
                                    {"text": params["text"], "data": blob(b"\xff\x00")})

        @self.plugin.method("unit.all")
        async def everything(params, ctx):
            return await ctx.storage.aio.query("SELECT * FROM notes WHERE text = ?", ["hi"])

        with Host(self.plugin) as host:
            self.assertEqual(host.call("unit.add", {"text": "hi"}),
                             {"rows_affected": 1, "last_insert_rowid": 1})
            found = host.call("unit.all")
            self.assertEqual(found["columns"], ["text", "data"])
            self.assertEqual(unblob(found["rows"][0]["data"]), b"\xff\x00")

    def test_a_batch_is_all_or_nothing(self):
        self.plugin.method("unit.batch")(lambda params, ctx: ctx.storage.batch(params["do"]))
        insert = ["INSERT INTO notes(text) VALUES (?)", ["x"]]
        with Host(self.plugin) as host:
            result = host.call("unit.batch", {"do": [insert, "DELETE FROM notes"]})
            self.assertEqual([one["rows_affected"] for one in result["results"]], [1, 1])
            with self.assertRaises(PluginError):
                host.call("unit.batch", {"do": [insert, "DELETE FROM nowhere"]})
            count = host.database.execute("SELECT count(*) FROM notes").fetchone()
            self.assertEqual(count, (0,))

    def test_refusals_reach_the_handler(self):
        caught = []

        @self.plugin.method("unit.try")
        def attempt(params, ctx):
            try:
                ctx.storage.exec(params["sql"])
            except PluginError as error:
                caught.append(error.code)

        with Host(self.plugin) as host:
            for sql in ("ATTACH 'x' AS y", "BEGIN", "DROP TABLE nowhere"):
                host.call("unit.try", {"sql": sql})
        self.assertEqual(caught, [-32003, -32003, -32000])

    def test_without_the_capability_there_is_none(self):
        plugin, _ = quiet_plugin()
        plugin.method("unit.tables")(lambda params, ctx: ctx.storage.schema())
        with Host(plugin) as host, self.assertRaises(PluginError) as caught:
            host.call("unit.tables")
        self.assertEqual(caught.exception.code, -32003)

    def test_a_config_handler_may_use_it(self):
        @self.plugin.on_config
        def keep(config):
            self.plugin.storage.exec("INSERT INTO notes(text) VALUES (?)", [config["name"]])

        with Host(self.plugin) as host:
            host.configure({"name": "x"})
            self.assertEqual(host.database.execute("SELECT text FROM notes").fetchall(), [("x",)])

    def test_a_coroutine_that_gives_up_does_not_disturb_the_others(self):
        let_go = threading.Event()

        def slow_answer(method, params):
            let_go.wait(30)
            return {"tables": []}

        @self.plugin.method("unit.impatient")
        async def impatient(params, ctx):
            try:
                await asyncio.wait_for(ctx.storage.aio.schema(), 0.01)
            except asyncio.TimeoutError:
                let_go.set()
            return "gave up"

        self.plugin._start_handlers.clear()
        self.plugin.method("unit.after")(lambda params, ctx: ctx.storage.schema())
        with Host(self.plugin, answer=slow_answer) as host:
            self.assertEqual(host.call("unit.impatient"), "gave up")
            self.assertEqual(host.call("unit.after"), {"tables": []})


class TheEnd(unittest.TestCase):
    def test_shutdown_handlers_run_last(self):
        plugin, _ = quiet_plugin()
        order, started = [], threading.Event()

        @plugin.method("unit.slow")
        def slow(params, ctx):
            started.set()
            threading.Event().wait(0.1)
            order.append("call")

        @plugin.on_shutdown
        async def end():
            order.append("shutdown")

        with Host(plugin) as host:
            threading.Thread(target=host.call, args=("unit.slow",), daemon=True).start()
            self.assertTrue(started.wait(30))
        self.assertEqual(order, ["call", "shutdown"])


if __name__ == "__main__":
    unittest.main()
