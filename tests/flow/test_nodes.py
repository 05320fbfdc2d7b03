"""Three daemons with one database: what one changes the others know, what is on a disk stays there, what moves is
on one node at a time, and goes on elsewhere when that is killed, paused or cut off; nothing that was answered is lost."""
import os
import subprocess
import threading
import time

import cluster
import postgres
from harness import PATIENCE, FlowTest, main, wait_for
from test_cluster import PROJECT


class Talk(threading.Thread):
    """Somebody who talks with an orchestrator, whichever node answers; each attempt is a text of its own."""

    def __init__(self, world, instance, name):
        super().__init__(daemon=True)
        self.world, self.instance, self.label = world, instance, name
        self.conversation, self.answered, self.attempts = None, [], 0
        self.last = {}  # what each node answered
        self.over, self.problem = threading.Event(), None
        self.start()

    def run(self):
        try:
            while not self.over.is_set():
                self.attempt()
        except BaseException as problem:  # shown by who waits for it
            self.problem = problem

    def attempt(self):
        for node in self.world.nodes:
            if node.process is None or self.over.is_set():
                continue
            self.attempts += 1
            text = f"{self.label}-{self.attempts}"
            status, answer = self.world.say(node, self.instance, text, self.conversation)
            assert status in (0, 200, 409, 499, 502, 503), (status, answer)
            self.last[node.name] = status, answer
            if status == 200:
                self.conversation = answer["conversation_id"]
                self.answered.append(text)
                return
        time.sleep(0.05)

    def wait_answers(self, count):
        before = len(self.answered)
        try:
            wait_for(lambda: self.problem or len(self.answered) >= before + count, "answers", timeout=2 * PATIENCE)
        except AssertionError:
            logs = "\n".join(node.log()[-2000:] for node in self.world.nodes)
            raise AssertionError(f"{self.label} has had {before} answers, and gets none: {self.last}\n{logs}") from None
        if self.problem:
            raise self.problem

    def end(self):
        """How many answers there were; each of them is of a message that is there, once and in order."""
        self.over.set()
        self.join(PATIENCE)
        if self.problem:
            raise self.problem
        there = self.world.texts(self.conversation)
        assert len(there) == len(set(there)), "a message is there twice"
        kept = [text for text in there if text in set(self.answered)]
        assert kept == self.answered, f"of {len(self.answered)} answered messages {len(kept)} are there"
        return len(self.answered)


class Nodes(FlowTest):
    @classmethod
    def setUpClass(cls):
        postgres.need()
        cls.world = cls.enterClassContext(cluster.World())

    def setUp(self):
        self.first, self.second, self.third = self.world.nodes

    def elsewhere(self, answer, node):
        status, body = answer
        self.assertEqual(status, 503, body)
        error = body.get("details", body.get("error"))
        self.assertEqual(error.get("error", error.get("code")), "on_another_node", body)
        self.assertIn(f"node {node.name}", str(body))

    def refused(self, sql, name, value):
        """By the database, who says where it is."""
        with self.assertRaises(subprocess.CalledProcessError) as refused:
            self.world.ask(f"SELECT set_config('{name}', '{value}', false); {sql}")
        self.assertRegex(refused.exception.stderr, "project .* is on node n")


class Changes(Nodes):
    def test_what_one_node_changes_the_others_know(self):
        status, made = self.second.api("POST", "/tokens", {"name": "shared", "user": "ada"})
        self.assertEqual(status, 201, made)
        client = cluster.Client(self.third, {"Authorization": "Bearer " + made["token"]})
        wait_for(lambda: client.ask("GET", "/api/orgs/acme")[0] == 200, "the token")
        self.assertEqual(self.first.api("DELETE", f"/tokens/{made['id']}")[0], 200)
        wait_for(lambda: client.ask("GET", "/api/orgs/acme")[0] == 401, "its end")
        status, made = self.third.operator("POST", "/api/admin/orgs", {"name": "late", "domain": "late.example"})
        self.assertEqual(status, 201, made)
        wait_for(lambda: self.first.operator("GET", "/api/orgs/late")[0] == 200, "the org")
        self.assertEqual(self.first.operator("POST", "/api/orgs/late/members", {"user": "bob"})[0], 201)
        wait_for(lambda: "bob" in str(self.second.operator("GET", "/api/orgs/late/users")[1]), "the member")
        self.assertEqual(self.second.operator("DELETE", "/api/orgs/late/users/bob")[0], 200)
        wait_for(lambda: "bob" not in str(self.first.operator("GET", "/api/orgs/late/users")[1]), "his end")
        self.assertEqual(self.first.api("PUT", "/mcp/profiles/reader", {"tools": ["a.*"]})[0], 200)
        wait_for(lambda: "reader" in str(self.third.api("GET", "/mcp/profiles")[1]), "the profile")

    def test_a_notification_that_is_lost_costs_seconds_only(self):
        status, made = self.first.api("POST", "/tokens", {"name": "quiet", "user": "ada"})
        self.assertEqual(status, 201, made)
        client = cluster.Client(self.second, {"Authorization": "Bearer " + made["token"]})
        wait_for(lambda: client.ask("GET", "/api/orgs/acme")[0] == 200, "the token")
        self.world.ask("SET session_replication_role = replica; "  # no triggers: nobody is told
                       f"DELETE FROM kaged.credential WHERE id = '{made['id']}'; "
                       f"INSERT INTO kaged.event (kind, ref) VALUES ('credential', '{made['id']}')")
        wait_for(lambda: client.ask("GET", "/api/orgs/acme")[0] == 401, "its end")

    def test_a_change_that_is_committed_late_is_not_missed(self):
        status, made = self.first.operator("POST", "/api/admin/orgs", {"name": "slow", "domain": "slow.example"})
        self.assertEqual(status, 201, made)
        wait_for(lambda: self.second.operator("GET", "/api/orgs/slow")[0] == 200, "the org")
        words = [os.path.join(postgres.programs(), "psql"), "-X", "-q", "-A", "-t", self.world.url]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as psql:
            psql.stdin.write("BEGIN; UPDATE kaged.org SET deleted = 1 WHERE name = 'slow'; SELECT 'begun';\n")
            psql.stdin.flush()
            self.assertEqual(psql.stdout.readline(), "begun\n")
            self.third.operator("POST", "/api/admin/orgs", {"name": "between", "domain": "between.example"})
            wait_for(lambda: self.second.operator("GET", "/api/orgs/between")[0] == 200, "what came later")
            self.assertEqual(self.second.operator("GET", "/api/orgs/slow")[0], 200)
            psql.stdin.write("COMMIT;\n")
            psql.stdin.close()
            wait_for(lambda: self.second.operator("GET", "/api/orgs/slow")[0] == 404, "its end")

    def test_a_folder_is_on_the_node_whose_disk_has_it(self):
        root = self.first.write_project("tea", PROJECT.replace("smart", "talker"))
        other = self.second.write_project("tea", PROJECT.replace("smart", "talker"))
        status, answer = self.first.api("POST", "/projects", {"path": root})
        self.assertIn(status, (200, 201), answer)
        status, session = self.first.api("POST", "/projects/tea/sessions", {})
        self.assertEqual(status, 201, session)
        status, answer = self.second.api("POST", "/projects", {"path": other})
        self.assertEqual((status, "node n0" in str(answer)), (409, True), answer)
        body = {"messages": [{"role": "user", "content": "hello"}]}
        path = f"/sessions/{session['id']}/messages"
        self.assertIn(self.second.api("POST", path, body)[0], (409, 503))
        self.refused(f"UPDATE kaged.session SET title = 'theirs' WHERE id = '{session['id']}'", "kaged.node", "n1")
        self.assertEqual(self.first.api("POST", path, body)[0], 200)

    def test_two_nodes_cannot_have_one_name(self):
        twin = cluster.Node(self.world, "n0")
        try:
            twin.write_config(cluster__wait_ms=1000)
            with self.assertRaisesRegex(AssertionError, "the daemon of node n0 has it"):
                twin.start()
            twin.process = None
            self.assertEqual(self.first.api("GET", "/sessions")[0], 200)
        finally:
            twin.discard()


class Leases(Nodes):
    def test_an_orchestrator_is_on_one_node_and_moves_when_it_is_unloaded(self):
        instance = self.world.orchestrator("One place")
        made = self.world.said(instance, "hello")
        holder = self.world.holder(instance)
        other = next(node for node in self.world.nodes if node is not holder)
        for name in ("up", "leases"):
            wait_for(lambda: other.figure(f'kaged_cluster_node_{name}{{node="{holder.name}"}}') in range(1, 100), name)
        self.elsewhere(self.world.say(other, instance, "hello?", made["conversation_id"]), holder)
        path = f"/api/orgs/acme/orchestrators/{instance}"
        self.assertTrue(other.client.ask("GET", path)[1]["is_ready"])
        self.assertEqual(holder.client.ask("POST", path + "/unload")[0], 202)
        wait_for(lambda: self.world.holder(instance) is None, "the lease's end")
        self.assertEqual(self.world.say(other, instance, "and now?", made["conversation_id"])[0], 200)
        self.assertIs(self.world.holder(instance), other)
        self.assertEqual(self.world.texts(made["conversation_id"]), ["hello", "and now?"])

    def test_a_node_that_was_paused_past_its_lease_writes_nothing(self):
        instance = self.world.orchestrator("Sleeper")
        made = self.world.said(instance, "before")
        conversation = made["conversation_id"]
        holder = self.world.holder(instance)
        holder.pause()
        nodes, self.world.nodes = self.world.nodes, [node for node in self.world.nodes if node is not holder]
        try:
            self.world.said(instance, "meanwhile", conversation)
        finally:
            self.world.nodes = nodes
        holder.go_on()
        now = self.world.holder(instance)
        self.assertIsNot(now, holder)
        self.elsewhere(self.world.say(holder, instance, "too late", conversation), now)
        wait_for(lambda: f"the lease of orchestrator-{instance} is lost" in holder.log(), "its word in the log")
        self.assertEqual(self.world.texts(conversation), ["before", "meanwhile"])

    def test_a_write_by_another_life_fails_in_the_database(self):
        instance = self.world.orchestrator("Fenced")
        conversation = self.world.said(instance, "mine")["conversation_id"]
        self.refused(f"UPDATE kaged.session SET title = 'theirs' WHERE id = '{conversation}'",
                     "kaged.life", "life_of_another")

    def test_a_hot_one_goes_on_elsewhere_when_its_node_is_killed(self):
        instance = self.world.orchestrator("Always there", tier="hot")
        status, answer = self.second.client.ask("POST", f"/api/orgs/acme/orchestrators/{instance}/load")
        self.assertEqual(status, 202, answer)
        wait_for(lambda: self.world.holder(instance) is self.second, "its load")
        self.second.kill()
        try:
            wait_for(lambda: self.world.holder(instance) not in (None, self.second), "another node")
            self.assertEqual(self.world.said(instance, "hello")["response"], "yes")
        finally:
            self.second.start()

    def test_a_holder_without_the_database_stops_and_goes_on_when_it_is_back(self):
        instance = self.world.orchestrator("Cut off")
        talk = Talk(self.world, instance, "cut")
        talk.wait_answers(2)
        holder = self.world.holder(instance)
        self.world.server.stop()
        wait_for(lambda: f"the lease of orchestrator-{instance} is lost" in holder.log(), "its word in the log")
        self.world.server.start()
        talk.wait_answers(2)
        print(f"# {talk.end()} messages were answered around a database that was away; all are there, once")


if __name__ == "__main__":
    main()
