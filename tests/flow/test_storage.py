"""Storage of plugins, from a plugin in its cage to its file on disk."""
import json
import os
import signal
import sqlite3
import threading

from harness import Daemon, FlowTest, at_once, descendants, main, process_name, wait_for

NAME = "stores"


class Storing(Daemon):
    def __init__(self, *capabilities, plugins=(NAME,), **options):
        super().__init__(list(plugins), **options)
        for name in self.names:
            self.declare(name, *(capabilities or ("kaged:storage:write",)))

    def ask(self, method, sql=None, *params, plugin=NAME, **more):
        """The answer to one storage request: the result, or the error object."""
        request = {**({} if sql is None else {"sql": sql}),
                   **({"params": list(params)} if params else {}), **more}
        return self.call(plugin, "store.ask",
                         {"request": {"method": method, "params": request}})[0]

    def ask_many(self, requests, plugin=NAME):
        return self.call(plugin, "store.ask_many", {"requests": [
            {"method": method, "params": params} for method, params in requests]})

    def file(self, name=NAME):
        return os.path.join(self.home, "state/storage", f"{name}.db")

    def storage_pids(self):
        return [pid for pid in descendants(self.pid) if process_name(pid) == "kaged-storage"]


def ticks(pid):
    """Of the processor, that it has had so far."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[11])
    except OSError:
        return 0


class Requests(FlowTest):
    """The document's storage tests. Each plugin has a file of its own: a table is `presets` in it,
    and what the document calls plugin_NAME_presets is its name in the operator's listings."""

    @classmethod
    def setUpClass(cls):
        cls.share(Storing())

    def test_table_is_made_filled_and_queried(self):
        ask = self.daemon.ask
        self.assertEqual(ask("exec", "CREATE TABLE presets (name TEXT PRIMARY KEY, body TEXT)"),
                         {"rows_affected": 0})
        self.assertEqual(ask("exec", "INSERT INTO presets VALUES (?, ?), (?, ?)",
                             "a", "1", "b", "2")["rows_affected"], 2)
        answer = ask("query", "SELECT name, body FROM presets ORDER BY name")
        self.assertEqual(answer["columns"], ["name", "body"])
        self.assertEqual(answer["rows"], [{"name": "a", "body": "1"}, {"name": "b", "body": "2"}])
        self.assertIn("presets", ask("schema")["tables"])

    def test_tables_of_others_are_out_of_reach(self):
        for sql in ("SELECT * FROM plugin_other_presets", "SELECT * FROM sqlite_master",
                    "ATTACH '/tmp/x.db' AS other", "PRAGMA writable_schema = 1"):
            with self.subTest(sql=sql):
                self.assertEqual(self.daemon.ask("query", sql)["code"], -32003)
        events = self.daemon.wait_audit("plugin.storage_denied", NAME)
        self.assertNotIn("/tmp/x.db", json.dumps(events))

    def test_error_of_sqlite_keeps_its_words_and_the_plugin_lives(self):
        error = self.daemon.ask("query", "SELECT * FROM nowhere")
        self.assertEqual(error["code"], -32000)
        self.assertIn("nowhere", error["message"])
        self.assertEqual(self.daemon.status(NAME)["state"], "running")

    def test_bad_parameters_are_said_to_be_that(self):
        self.assertEqual(self.daemon.ask("exec")["code"], -32602)
        self.assertEqual(self.daemon.ask("query", "SELECT ?, ?", 1)["code"], -32602)

    def test_batch_is_all_or_nothing(self):
        ask = self.daemon.ask
        ask("exec", "CREATE TABLE IF NOT EXISTS pairs (k INTEGER PRIMARY KEY)")
        insert = "INSERT INTO pairs VALUES (?)"
        failed = ask("batch", statements=[{"sql": insert, "params": [1]},
                                          {"sql": insert, "params": [1]}])
        self.assertEqual(failed["code"], -32000)
        self.assertEqual(ask("query", "SELECT count(*) AS n FROM pairs")["rows"], [{"n": 0}])
        done = ask("batch", statements=[{"sql": insert, "params": [1]},
                                        {"sql": insert, "params": [2]}])
        self.assertEqual(len(done["results"]), 2)
        self.assertEqual(ask("query", "SELECT count(*) AS n FROM pairs")["rows"], [{"n": 2}])

    def test_values_survive_the_round_trip(self):
        values = [2**53 + 1, -(2**63), 1.5, None, "\u00e4\u4e16", {"$blob": "AAH/"}]
        answer = self.daemon.ask("query", "SELECT ? AS a, ? AS b, ? AS c, ? AS d, ? AS e, ? AS f",
                                 *values)
        self.assertEqual(list(answer["rows"][0].values()), values)

    def test_requests_keep_their_order(self):
        self.daemon.ask("exec", "CREATE TABLE IF NOT EXISTS ordered (n INTEGER)")
        requests = [("exec", {"sql": "INSERT INTO ordered SELECT count(*) FROM ordered"})] * 200
        self.daemon.ask_many(requests)
        rows = self.daemon.ask("query", "SELECT n FROM ordered ORDER BY rowid")["rows"]
        self.assertEqual([row["n"] for row in rows], list(range(200)))


class Capabilities(FlowTest):
    def test_reading_alone_does_not_write(self):
        with Storing("kaged:storage:read") as daemon:
            self.assertTrue(daemon.call(NAME, "store.initialize")["storage_available"])
            self.assertEqual(daemon.ask("exec", "CREATE TABLE t (a)")["code"], -32003)
            self.assertEqual(daemon.ask("query", "CREATE TABLE t (a)")["code"], -32003)
            self.assertEqual(daemon.ask("query", "SELECT 1 AS a")["rows"], [{"a": 1}])
            event = daemon.wait_audit("plugin.storage_denied", NAME)[0]
            self.assertEqual(event["sql"], "CREATE TABLE t (a)")

    def test_without_the_capability_there_is_no_storage(self):
        with Storing("net:[]") as daemon:
            self.assertFalse(daemon.call(NAME, "store.initialize")["storage_available"])
            self.assertEqual(daemon.ask("query", "SELECT 'secret', 42")["code"], -32003)
            event = daemon.wait_audit("plugin.storage_denied", NAME)[0]
            self.assertEqual(event["sql"], "SELECT ?, ?")
            self.assertFalse(os.path.exists(daemon.file()))


class Process(FlowTest):
    def test_process_starts_on_first_use_and_ends_when_idle(self):
        with Storing(config={"limits.storage_idle_ms": 50}) as daemon:
            self.assertEqual(daemon.storage_pids(), [])
            daemon.ask("exec", "CREATE TABLE t (a)")
            wait_for(lambda: not daemon.storage_pids(), "the end of an idle storage process")
            self.assertEqual(daemon.ask("query", "SELECT count(*) AS n FROM t")["rows"],
                             [{"n": 0}])

    def test_storage_is_kept_over_a_restart(self):
        with Storing() as daemon:
            daemon.ask("exec", "CREATE TABLE t (a)")
            daemon.ask("exec", "INSERT INTO t VALUES (7)")
            daemon.stop()
            self.assertEqual(os.path.getsize(daemon.file() + "-wal"), 0)
            daemon.start()
            self.assertEqual(daemon.ask("query", "SELECT a FROM t")["rows"], [{"a": 7}])

    def test_two_plugins_have_a_file_each(self):
        with Storing(plugins=(NAME, f"{NAME} as other")) as daemon:
            daemon.ask("exec", "CREATE TABLE mine (a)")
            daemon.ask("exec", "CREATE TABLE theirs (a)", plugin="other")
            self.assertEqual(daemon.ask("schema")["tables"], ["mine"])
            self.assertEqual(daemon.ask("schema", plugin="other")["tables"], ["theirs"])

    def test_statement_past_its_time_is_ended_and_others_go_on(self):
        endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT max(n) FROM c"
        with Storing(plugins=(NAME, f"{NAME} as other"),
                     config={"limits.storage_statement_ms": 4000}) as daemon:
            slow, quick = at_once([lambda: daemon.ask("query", endless),
                                   lambda: daemon.ask("query", "SELECT 1 AS a", plugin="other")])
            self.assertEqual(slow["code"], -32000)
            self.assertIn("4000 ms", slow["message"])
            self.assertEqual(quick["rows"], [{"a": 1}])
            self.assertEqual(daemon.ask("query", "SELECT 2 AS a")["rows"], [{"a": 2}])

    def ask_for_ages(self, daemon):
        """The plugin asks for more than its storage can do in a quarter of an hour."""
        slow = ("query", {"sql": "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) "
                                 "SELECT max(n) FROM c"})
        threading.Thread(target=daemon.try_call, args=(NAME, "store.ask_many", {"requests": [
            {"method": method, "params": params} for method, params in [slow] * 900]}),
            daemon=True).start()
        wait_for(lambda: any(ticks(pid) > 20 for pid in daemon.storage_pids()), "some work")

    def test_what_a_plugin_asked_of_its_storage_dies_with_it(self):
        with Storing() as daemon:
            daemon.ask("exec", "CREATE TABLE t (a)")
            self.ask_for_ages(daemon)
            daemon.act(NAME, "disable")
            status, answer = daemon.api("GET", f"/plugins/{NAME}/storage?sql=SELECT+1+AS+a")
            self.assertEqual((status, answer.get("rows")), (200, [{"a": 1}]), answer)
            daemon.act(NAME, "enable")
            daemon.wait_state(NAME, "running")
            self.assertEqual(daemon.ask("schema")["tables"], ["t"])
            self.ask_for_ages(daemon)
            status, _ = daemon.api("DELETE", f"/plugins/{NAME}?force=true")
            self.assertEqual(status, 200)

    def test_a_stop_does_not_wait_for_what_plugins_asked_of_their_storage(self):
        with Storing(config={"limits.storage_statement_ms": 600_000}) as daemon:
            self.ask_for_ages(daemon)
            daemon.stop()

    def test_a_stop_has_a_bound_of_its_own(self):
        with Daemon(["ignores-shutdown"], {"limits.shutdown_timeout_ms": 3_600_000,
                                           "limits.stop_timeout_ms": 200}) as daemon:
            daemon.stop()

    def test_storage_process_that_is_killed_loses_nothing_that_was_answered(self):
        with Storing() as daemon:
            daemon.ask("exec", "CREATE TABLE t (a)")
            daemon.ask("exec", "INSERT INTO t VALUES (1)")
            for pid in daemon.storage_pids():
                os.kill(pid, signal.SIGKILL)
            # What is asked before the daemon knows of the end is answered with an error.
            answer = wait_for(lambda: (lambda a: "rows" in a and a)(
                daemon.ask("query", "SELECT a FROM t")), "an answer of the next process")
            self.assertEqual(answer["rows"], [{"a": 1}])

    def test_size_of_a_database_is_bounded(self):
        with Storing(config={"limits.storage_size_bytes": 1048576}) as daemon:
            daemon.ask("exec", "CREATE TABLE t (a)")
            answers = daemon.ask_many([("exec", {"sql": "INSERT INTO t VALUES (randomblob(100000))"})]
                                      * 20)
            errors = [answer for answer in answers if "code" in answer]
            self.assertTrue(errors)
            self.assertEqual({error["code"] for error in errors}, {-32000})
            self.assertLessEqual(os.path.getsize(daemon.file()), 1048576)

    def test_process_writes_its_own_file_and_sees_nothing_else(self):
        with Storing() as daemon:
            daemon.ask("exec", "CREATE TABLE t (a)")
            pid = daemon.storage_pids()[0]
            with open(f"/proc/{pid}/mountinfo") as mounts:
                points = [line.split()[4] for line in mounts]
            self.assertIn(os.path.realpath(daemon.file()), points)
            self.assertNotIn(os.path.realpath(os.path.dirname(daemon.file())), points)

    def test_damaged_file_is_set_aside_until_the_operator_says_so(self):
        with Storing() as daemon:
            daemon.ask("exec", "CREATE TABLE t (a)")
            daemon.stop()
            with open(daemon.file(), "r+b") as file:
                file.write(b"this is no database" * 100)
            daemon.start()
            answers = at_once([lambda: [daemon.ask("query", "SELECT 1") for _ in range(10)]] * 8)
            for answer in sum(answers, []):  # whenever it is asked: also while the process leaves
                self.assertNotIn("messages", answer["message"])
                self.assertRegex(answer["message"], "damaged|not a database")
            event = daemon.wait_audit("plugin.storage_damaged", NAME)[0]
            self.assertTrue(os.path.exists(event["moved_to"]))
            self.assertIn("set aside", daemon.ask("query", "SELECT 1")["message"])
            code, _, _ = daemon.cli("plugin", "storage", NAME, "--reset")
            self.assertEqual(code, 0)
            self.assertEqual(daemon.ask("query", "SELECT 1 AS a")["rows"], [{"a": 1}])


class Operator(FlowTest):
    def test_operator_sees_tables_by_their_full_names(self):
        with Storing() as daemon:
            daemon.ask("exec", "CREATE TABLE presets (a)")
            daemon.ask("exec", "INSERT INTO presets VALUES (1), (2)")
            code, out, _ = daemon.cli("plugin", "storage", NAME)
            self.assertEqual(code, 0)
            self.assertIn("plugin_stores_presets", out)
            self.assertRegex(out, r"plugin_stores_presets\s+2")

    def test_operator_asks_a_question_of_his_own(self):
        with Storing() as daemon:
            daemon.ask("exec", "CREATE TABLE t (a, b)")
            daemon.ask("exec", "INSERT INTO t VALUES (1, 'x')")
            code, out, _ = daemon.cli("plugin", "storage", NAME, "SELECT a, b FROM t")
            self.assertEqual(code, 0)
            self.assertEqual(out.split(), ["A", "B", "1", "x"])
            code, out, _ = daemon.cli("--json", "plugin", "storage", NAME, "SELECT a, b FROM t")
            self.assertEqual(json.loads(out)["rows"], [{"a": 1, "b": "x"}])
            code, _, err = daemon.cli("plugin", "storage", NAME, "DELETE FROM t")
            self.assertNotEqual(code, 0)
            self.assertIn("read", err)

    def test_names_of_columns_cannot_steer_the_terminal(self):
        with Storing() as daemon:
            daemon.ask("exec", 'CREATE TABLE t ("a\x1b[2J\u202e\u200bb")')
            daemon.ask("exec", "INSERT INTO t VALUES (1)")
            code, out, _ = daemon.cli("plugin", "storage", NAME, "SELECT * FROM t")
            self.assertEqual((code, out.split()), (0, ["A\\x1b[2J\\u202e\\u200bB", "1"]))

    def test_export_copies_the_file_while_it_is_in_use(self):
        with Storing() as daemon:
            daemon.ask("exec", "CREATE TABLE t (a)")
            daemon.ask("exec", "INSERT INTO t VALUES (5)")
            copy = os.path.join(daemon.base, "copy.db")
            code, _, err = daemon.cli("plugin", "storage", NAME, "--export", copy)
            self.assertEqual((code, err), (0, ""))
            with sqlite3.connect(copy) as database:
                self.assertEqual(database.execute("SELECT a FROM t").fetchall(), [(5,)])
            self.assertEqual(daemon.ask("query", "SELECT a FROM t")["rows"], [{"a": 5}])


if __name__ == "__main__":
    main()
