"""Nodes of a cluster: one joins with a token, and any of them answers for what another has."""
import base64
import json
import os

from harness import PATIENCE, Daemon, UnixConnection, main, wait_for
from test_cluster import LOCAL, PROJECT
from test_cluster import OnPostgres as Shared


class Node(Daemon):
    def __init__(self, name, **config):
        super().__init__(config={"cluster.node": name, "cluster.listen": "127.0.0.1:0", "cluster.wait_ms": 5000,
                                 **config})
        self.write_local(LOCAL)

    def token(self, *options):
        code, out, said = self.cli("cluster", "token", *options)
        assert code == 0, said
        return out.strip()

    def full(self, method, path, body=None):
        """(status, headers, answer)"""
        connection = UnixConnection(self.socket, PATIENCE)
        try:
            connection.request(method, "/api/v1" + path, body and json.dumps(body))
            response = connection.getresponse()
            text = response.read()
            return response.status, response.headers, json.loads(text) if text else None
        finally:
            connection.close()

    def contents(self, session):
        status, _, answer = self.full("GET", f"/sessions/{session}/entries")
        assert status == 200, answer
        return [entry["content"] for entry in answer["entries"] if entry["kind"] == "message"]

    def say(self, session, text):
        return self.full("POST", f"/sessions/{session}/messages", {"messages": [{"role": "user", "content": text}]})


def first_node(server):
    node = Node("one", **{"cluster.database": server.database()})
    code, _, said = node.cli("cluster", "init")
    assert code == 0, said
    return node


def changed(token, place, text):
    """The token with another fingerprint, secret or address."""
    raw = token[len("kgj_"):]
    parts = base64.urlsafe_b64decode(raw + "=" * (-len(raw) % 4)).decode().split(" ")
    parts[place] = text
    return "kgj_" + base64.urlsafe_b64encode(" ".join(parts).encode()).decode().rstrip("=")


class OnPostgres(Shared):
    def keep(self, node):
        self.addCleanup(node.discard)
        return node

    def started(self, node):
        self.keep(node).start()
        self.addCleanup(lambda: node.process and node.stop())
        return node


class Joining(OnPostgres):
    def test_only_a_token_of_this_cluster_lets_a_node_in_and_once(self):
        one, two = self.started(first_node(self.server)), self.keep(Node("two"))
        token = one.token()
        for wrong, words in (("kgj_nonsense", "not a token"),
                             (changed(token, 0, "0" * 64), "not of the token's cluster"),
                             (changed(token, 1, "x" * 43), "used before, has expired"),
                             (changed(token, 2, "127.0.0.1:1"), "Connection refused")):
            code, _, said = two.cli("cluster", "join", wrong)
            self.assertNotEqual(code, 0)
            self.assertIn(words, said)
        self.assertFalse(os.path.exists(os.path.join(two.home, "state/cluster.keys")))
        code, _, said = two.cli("cluster", "join", token)
        self.assertEqual(code, 0, said)
        keys = os.stat(os.path.join(two.home, "state/cluster.keys"))
        self.assertEqual(keys.st_mode & 0o777, 0o600)
        code, _, said = two.cli("cluster", "join", token)
        self.assertIn("used before, has expired", said)
        self.assertNotEqual(code, 0)
        wait_for(lambda: [line["node"] for line in one.audit("cluster.joined")] == ["two"], "the audit of it")
        self.assertTrue(one.audit("cluster.refused"))
        self.assertTrue(one.audit("cluster.token_made"))

    def test_a_name_that_is_taken_does_not_cost_the_token(self):
        one, two = self.started(first_node(self.server)), self.keep(Node("one"))
        token = one.token("--minutes", "5")
        code, _, said = two.cli("cluster", "join", token)
        self.assertNotEqual(code, 0)
        self.assertIn('has a node "one" already', said)
        two.write_config(cluster__node="two")
        code, _, said = two.cli("cluster", "join", token)
        self.assertEqual(code, 0, said)

    def test_without_keys_a_daemon_does_not_listen_for_nodes(self):
        node = self.keep(first_node(self.server))
        os.remove(os.path.join(node.home, "state/cluster.keys"))
        with self.assertRaisesRegex(AssertionError, "has no keys of a cluster"):
            node.start()


class Passing(OnPostgres):
    def setUp(self):
        self.one = self.started(first_node(self.server))
        self.two = self.keep(Node("two"))
        code, _, said = self.two.cli("cluster", "join", self.one.token())
        self.assertEqual(code, 0, said)
        self.started(self.two)
        root = self.one.write_project("tea", PROJECT)
        status, _, answer = self.one.full("POST", "/projects", {"path": root})
        self.assertIn(status, (200, 201), answer)
        # The other knows of it, and of where we are, a moment later.
        wait_for(lambda: self.two.full("GET", "/projects/tea")[0] == 200, "the project at the other node")

    def test_what_one_node_has_the_other_answers_for(self):
        status, _, answer = self.two.full("POST", "/projects/tea/sessions", {})
        self.assertEqual(status, 201, answer)
        session = answer["id"]
        self.assertEqual(self.two.say(session, "from two")[0], 200)
        self.assertEqual(self.one.say(session, "from one")[0], 200)
        for node in (self.one, self.two):
            self.assertEqual(node.contents(session), ["from two", "from one"])
        self.assertEqual(self.two.full("GET", "/sessions/ses_none")[0], 404)
        self.assertRegex(self.two.cli("doctor")[1], r"certificate +this node's, for other nodes, ends in \d+ days")

    def test_the_last_session_is_looked_for_each_time(self):
        first = self.two.full("POST", "/projects/tea/sessions", {})[2]["id"]
        self.assertEqual(self.two.full("GET", "/sessions/@last")[2]["id"], first)
        status, _, answer = self.two.full("POST", "/projects", {"path": self.two.write_project("mate", PROJECT.replace("tea", "mate"))})
        self.assertIn(status, (200, 201), answer)
        second = self.two.full("POST", "/projects/mate/sessions", {})[2]["id"]
        status, _, answer = self.two.say("@last", "to the second")
        self.assertEqual(status, 200, answer)
        self.assertEqual(self.two.contents(second), ["to the second"])

    def test_a_node_that_is_away_is_named_and_found_again(self):
        session = self.two.full("POST", "/projects/tea/sessions", {})[2]["id"]
        self.one.kill()
        status, headers, answer = self.two.say(session, "lost?")
        self.assertEqual(status, 503, answer)
        self.assertIn("the node one ", answer["error"]["message"])
        self.assertTrue(headers["Retry-After"])
        self.one.start()
        wait_for(lambda: self.two.say(session, "again")[0] == 200, "the node that is back")
        self.assertEqual(self.two.contents(session)[-1], "again")


if __name__ == "__main__":
    main()
