"""A daemon whose state is in PostgreSQL: there and back, one daemon of a name at a time, and a database that goes away."""
import contextlib
import json
import os
import shutil
import signal
import socket
import tempfile
import threading

import postgres
from harness import PATIENCE, Daemon, FlowTest, UnixConnection, main, wait_for

PROJECT = """\
version: 1
name: tea
primary:
  model: smart
"""
LOCAL = """\
[providers.none]
kind = "openai"
base_url = "http://127.0.0.1:9/v1"
[models.smart]
provider = "none"
model = "m"
"""


class Node(Daemon):
    """A daemon with one project, on a database of its own, or on the one that is given."""

    def __init__(self, server, url=None, init=("--from-local",), **config):
        super().__init__(config={"cluster.database": url or server.database(), "cluster.node": "one",
                                 "cluster.wait_ms": 2000, **config})
        self.server, self.init = server, init
        self.write_local(LOCAL)
        self.root = self.write_project("tea", PROJECT)

    def start(self):
        if self.init is not None:
            code, _, said = self.cli("cluster", "init", *self.init)
            assert code == 0, said
            self.init = None
        super().start()

    def ask(self, sql):
        return self.server.ask(sql, self.config["cluster.database"])

    def new(self):
        status, answer = self.api("POST", "/projects", {"path": self.root})
        assert status in (200, 201), answer
        status, answer = self.api("POST", "/projects/tea/sessions", {})
        assert status == 201, answer
        return answer["id"]

    def say(self, session, text):
        """(status, answer): one entry, without a model."""
        return self.api("POST", f"/sessions/{session}/messages", {"messages": [{"role": "user", "content": text}]})

    def said(self, session):
        texts, after = [], 0
        while True:
            status, answer = self.api("GET", f"/sessions/{session}/entries?after={after}")
            assert status == 200, answer
            if not answer["entries"]:
                return texts
            texts += [entry["content"] for entry in answer["entries"] if entry["kind"] == "message"]
            after = answer["entries"][-1]["seq"]

    def full(self, method, path):
        """(status, headers) of an answer."""
        connection = UnixConnection(self.socket, PATIENCE)
        try:
            connection.request(method, "/api/v1" + path)
            response = connection.getresponse()
            response.read()
            return response.status, response.headers
        finally:
            connection.close()


class OnPostgres(FlowTest):
    @classmethod
    def setUpClass(cls):
        postgres.need()
        cls.server = postgres.shared_server()


class There(OnPostgres):
    def test_session_lives_in_the_database_and_outlives_the_daemon(self):
        with Node(self.server) as node:
            session = node.new()
            self.assertEqual(node.say(session, "hello")[0], 200)
            node.stop()
            node.start()
            self.assertEqual(node.said(session), ["hello"])
            self.assertEqual(node.ask("SELECT count(*) FROM kaged.session_entry WHERE kind = 'message'"), [["1"]])
            code, out, _ = node.cli("cluster", "status", "--json")
            facts = json.loads(out)
            self.assertEqual((code, facts["node"], facts["held"], facts["sessions"]), (0, "one", True, 1))
            self.assertIn("database         postgres://", node.cli("doctor")[1])

    def test_status_and_doctor_tell_nodes_that_run_from_those_that_do_not(self):
        with Node(self.server) as node:
            node.ask("INSERT INTO kaged.node (name, incarnation, program, started, seen, stopped) VALUES "
                     "('gone', 'life_1', '0.1', now(), now() - interval '1 hour', 0), "
                     "('rests', 'life_2', '0.1', now(), now() - interval '1 hour', 1)")
            facts = json.loads(node.cli("cluster", "status", "--json")[1])
            self.assertEqual([(each["name"], each["state"], each["leases"]) for each in facts["nodes"]],
                             [("gone", "away", 0), ("one", "running", 0), ("rests", "stopped", 0)])
            self.assertIn("node      rests: stopped", node.cli("cluster", "status")[1])
            told = node.cli("doctor")[1]
            self.assertIn("node gone was seen 3600 s ago", told)
            self.assertNotIn("node rests", told)

    def test_home_goes_there_and_comes_back(self):
        url = self.server.database()
        node = Node(self.server, url, init=None)
        node.config.pop("cluster.database")
        node.write_config()
        with node:
            session = node.new()
            node.say(session, "at home")
            node.stop()
            node.write_config(cluster__database=url)
            code, out, _ = node.cli("cluster", "init", "--from-local")
            self.assertEqual(code, 0)
            self.assertRegex(out, r"session_entry +2\n")
            node.start()
            self.assertEqual(node.said(session), ["at home"])
            node.say(session, "away")
            node.stop()
            node.config.pop("cluster.database")
            node.write_config()
            with self.assertRaisesRegex(AssertionError, "is in a database since kaged cluster init"):
                node.start()
            node.process = None
            node.write_config(cluster__database=url)
            self.assertEqual(node.cli("cluster", "leave")[0], 2)
            self.assertEqual(node.cli("cluster", "leave", "--to-local")[0], 0)
            node.config.pop("cluster.database")
            node.write_config()
            node.start()
            self.assertEqual(node.said(session), ["at home", "away"])

    def test_second_home_takes_the_place_of_the_first_only_when_that_is_gone(self):
        with Node(self.server) as node:
            other = Node(self.server, node.config["cluster.database"], ("--existing",))
            try:
                with self.assertRaisesRegex(AssertionError, "the daemon of node one has it"):
                    other.start()
                self.assertEqual(node.api("GET", "/sessions")[0], 200)
                self.assertIn("nobody uses it", other.cli("cluster", "leave", "--to-local")[2])
                node.stop()
                other.start()
                other.stop()
            finally:
                other.discard()

    def test_password_comes_from_a_secret_and_is_shown_nowhere(self):
        password = "correct horse battery"
        with Node(self.server) as node:
            node.ask(f"ALTER ROLE kaged PASSWORD '{password}'")
            node.stop()
            node.write_local(LOCAL + '[cluster]\npassword = "${secret:pg}"\n')
            self.assertNotEqual(node.cli("cluster", "status")[0], 0)  # the secret is not there
            self.assertEqual(node.cli("secret", "set", "pg", input=password)[0], 0)
            self.assertEqual(node.cli("cluster", "status")[0], 0)
            node.start()
            self.assertEqual(node.api("GET", "/sessions")[0], 200)
            self.assertNotIn(password, node.log() + json.dumps(node.api("GET", "/config")[1]))
            node.stop()
            node.write_config(cluster__database="postgres://kaged:visible@/x")
            with self.assertRaisesRegex(AssertionError, "has a password in it"):
                node.start()
            node.process = None


class Between:
    """A socket before the server's. The first go that has `text` in it is answered but for its end, and cut off."""

    def __init__(self, server, text):
        self.server, self.text, self.cuts = server, text, 0
        self.base = tempfile.mkdtemp(prefix="kg-pg-", dir="/tmp")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(os.path.join(self.base, ".s.PGSQL.5432"))
        self.listener.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        shutil.rmtree(self.base)

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client = self.listener.accept()[0]
                behind = socket.socket(socket.AF_UNIX)
                behind.connect(os.path.join(self.server.base, ".s.PGSQL.5432"))
                doomed = threading.Event()
                for target in (self.ask, self.answer):
                    threading.Thread(target=target, args=(client, behind, doomed), daemon=True).start()

    def ask(self, client, behind, doomed):
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if self.text in data and self.cuts == 0:
                    self.cuts += 1
                    doomed.set()
                behind.sendall(data)
        for end in (client, behind):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def answer(self, client, behind, doomed):
        left = b""
        with contextlib.suppress(OSError):
            while data := behind.recv(65536):
                left += data
                while len(left) >= 5 and len(left) > (length := int.from_bytes(left[1:5], "big")):
                    if doomed.is_set() and left[:1] == b"Z":
                        raise OSError("cut off")
                    client.sendall(left[:length + 1])
                    left = left[length + 1:]
        for end in (client, behind):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Away(FlowTest):
    """Each has a server of its own, to take away."""

    @classmethod
    def setUpClass(cls):
        postgres.need()

    def test_database_that_is_away_at_the_start_is_waited_for(self):
        with postgres.Server() as server, Node(server) as node:
            node.stop()
            server.stop()
            with self.assertRaisesRegex(AssertionError, "(?s)waiting for it.*never ready|never ready.*waiting for it"):
                node.start()
            node.process = None
            node.write_config(cluster__wait_ms=PATIENCE * 1000)
            later = threading.Timer(1, server.start)
            later.start()
            node.start()
            later.join()
            self.assertEqual(node.api("GET", "/sessions")[0], 200)

    def test_calls_get_503_while_it_is_away_and_nothing_that_was_answered_is_lost(self):
        with postgres.Server() as server, Node(server) as node:
            session = node.new()
            done, stop = [], threading.Event()

            def talk():
                number = 0
                while not stop.is_set():
                    number += 1
                    status, answer = node.say(session, str(number))
                    if status == 200:
                        done.append(str(number))
                    else:
                        assert status == 503 and answer["error"]["code"] == "database_away", answer

            speaker = threading.Thread(target=talk)
            speaker.start()
            try:
                for crash in (signal.SIGINT, signal.SIGQUIT, signal.SIGINT):
                    before = len(done)
                    wait_for(lambda: len(done) > before + 5, "entries")
                    server.stop(crash)
                    wait_for(lambda: node.full("GET", "/sessions")[0] == 503, "an answer 503")
                    status, headers = node.full("GET", f"/sessions/{session}/entries")
                    self.assertEqual((status, headers["Retry-After"]), (503, "5"))
                    self.assertEqual(node.api("GET", "/status")[0], 200)  # the rest goes on
                    server.start()
                    wait_for(lambda: node.full("GET", "/sessions")[0] == 200, "the database's return")
                before = len(done)
                wait_for(lambda: len(done) > before + 5, "entries")
            finally:
                stop.set()
                speaker.join()
            there = node.said(session)
            self.assertEqual([text for text in done if text not in set(there)], [])
            self.assertEqual(len(there), len(set(there)))  # none was written twice
            print(f"# {len(done)} entries were acknowledged over three restarts; all are there")
            wait_for(lambda: "is back after" in node.log(), "its word in the log")

    def test_what_was_answered_without_its_end_is_not_taken_for_done(self):
        with postgres.Server() as server, Between(server, b"cut off here") as between:
            url = server.database().replace(server.base, between.base)
            with Node(server, url) as node:
                session = node.new()
                self.assertEqual(node.say(session, "before")[0], 200)
                status, answer = node.say(session, "cut off here")
                self.assertEqual(between.cuts, 1)
                self.assertIn(status, (200, 503), answer)
                self.assertEqual(node.said(session), ["before"] + ["cut off here"] * (status == 200))

    def test_who_comes_back_late_refuses_work_and_says_who_has_it(self):
        with postgres.Server() as server, Node(server) as node:
            node.new()
            node.ask("UPDATE kaged.node SET incarnation = 'another' WHERE name = 'one'")
            node.ask("SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
                     "WHERE application_name LIKE 'kaged one %'")
            wait_for(lambda: "has had this node's name" in node.log(), "its word in the log")
            self.assert_error((lambda s, a: (s, a["error"]))(*node.api("GET", "/sessions")), 503, "database_away")

    def test_server_without_connections_left_is_away_and_then_is_not(self):
        """A user without rights of his own, whom the server refuses every connection for a while."""
        with postgres.Server() as server:
            server.ask("CREATE ROLE plain LOGIN CREATEROLE")
            server.ask("CREATE DATABASE plain OWNER plain")
            with Node(server, f"postgres://plain@/plain?host={server.base}") as node:
                session = node.new()
                self.assertLess(node.say(session, "before")[0], 300)
                server.ask("ALTER ROLE plain CONNECTION LIMIT 0")
                server.ask("SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE usename = 'plain'")
                for method, path in (("GET", "/sessions"), ("GET", f"/sessions/{session}/entries")):
                    status, headers = node.full(method, path)
                    self.assertEqual((status, headers["Retry-After"] is not None), (503, True), path)
                status, answer = node.say(session, "lost")
                self.assert_error((status, answer["error"]), 503, "database_away")
                self.assertIn("too many connections", answer["error"]["message"])
                self.assertEqual(node.full("GET", "/status")[0], 200)
                server.ask("ALTER ROLE plain CONNECTION LIMIT -1")
                wait_for(lambda: node.say(session, "after")[0] < 300, "the connections' return")
                self.assertEqual(node.said(session), ["before", "after"])


if __name__ == "__main__":
    main()
