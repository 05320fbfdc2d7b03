"""Several daemons in homes of their own, with one PostgreSQL, one bucket and one model for all of them.

Requests go to one node after the other until one answers: who has what is the nodes' affair.
"""
import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time

import packages
import postgres
import python_runtime
import s3
from harness import PATIENCE, ROOT, Daemon, wait_for
from models import Provider
from test_catalog import FREE_PORT, Client
from test_catalog_packages import BOUNDARY, archive, form
from test_turns import KEY, says

LEASE_MS = 2000
LOCAL = """[providers.p]
kind = "openai"
base_url = "{url}"
api_key = "{key}"
retries = 0
[models.talker]
provider = "p"
model = "gpt"
"""
PID = "example.acme.say"


class Always(Provider):
    """A model that says the same for ever."""

    def answer(self, connection):
        self.answers = [says("yes")]
        super().answer(connection)


class Node(Daemon):
    def __init__(self, world, name):
        tree = python_runtime.root()
        super().__init__([], {
            **FREE_PORT, **s3.config(world.bucket), "cluster.database": world.url, "cluster.node": name,
            "cluster.lease_ms": LEASE_MS, "cluster.wait_ms": PATIENCE * 1000, "limits.initialize_timeout_ms": 60000,
            **({"catalog.runtimes.python.root": tree} if tree else {})})
        self.name, self.world = name, world
        self.write_local(LOCAL.format(url=world.provider.url, key=KEY) + s3.local())
        code, _, words = self.cli("secret", "set", "bucket", input=s3.SECRET)
        assert code == 0, words
        code, _, words = self.cli("cluster", "init", *(["--existing"] if world.nodes else []))
        assert code == 0, words
        self.must_init = False

    def start(self):
        super().start()
        self.client = Client(self)
        self.client.headers = self.world.headers

    def kill(self):
        """As a machine that loses its power."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)
        self.process = None

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def operator(self, method, path, body=None):
        status, answer = self.raw(method, path, None if body is None else json.dumps(body))
        return status, json.loads(answer) if answer else None


class World(contextlib.ExitStack):
    """A context manager. nodes: all of them run."""

    def __init__(self, count=3):
        super().__init__()
        self.count, self.nodes, self.headers = count, [], {}

    def __enter__(self):
        subprocess.run([os.path.join(ROOT, "scripts/share"), "cadence"], check=True, stdout=subprocess.DEVNULL)
        self.server = self.enter_context(postgres.Server())
        self.provider = self.enter_context(Always())
        self.bucket = s3.S3()
        self.callback(self.bucket.__exit__)
        self.url = self.server.database()
        for number in range(self.count):
            node = Node(self, f"n{number}")
            self.nodes.append(node)
            self.callback(node.discard)
        for node in self.nodes:
            node.start()
            self.callback(self.end, node)
        self.prepare()
        return self

    @staticmethod
    def end(node):
        if node.process is not None and node.process.poll() is None:
            node.go_on()
            node.stop()

    def prepare(self):
        """An org, somebody in it, and a package, all made on the first node."""
        first = self.nodes[0]
        for path, body in (("/api/admin/orgs", {"name": "acme", "domain": "acme.example"}),
                           ("/api/orgs/acme/members", {"user": "ada", "is_admin": True})):
            status, answer = first.operator("POST", path, body)
            assert status == 201, answer
        status, made = first.api("POST", "/tokens", {"name": "ada", "user": "ada"})
        assert status == 201, made
        self.headers["Authorization"] = "Bearer " + made["token"]
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(packages.write(folder), "plugin.py")) as file:
                source = file.read().replace("com.example.say", PID)
        status, answer = first.raw("POST", "/api/orgs/acme/plugins/upload", form(archive({"plugin.py": source})),
                                   {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"})
        assert status == 201, answer
        for node in self.nodes:  # all know her
            wait_for(lambda: node.client.ask("GET", "/api/orgs/acme")[0] == 200, f"the token on {node.name}")

    def orchestrator(self, name, **more):
        body = {"name": name, "framework_type": "langgraph", "mode": "supervisor", "active_plugin_ids": [PID],
                "config": {"model": "talker"}, **more}
        status, made = self.nodes[0].client.ask("POST", "/api/orgs/acme/orchestrators", body)
        assert status == 201, made
        instance = made["instance_id"]
        for node in self.nodes:
            wait_for(lambda: node.client.ask("GET", f"/api/orgs/acme/orchestrators/{instance}")[0] == 200,
                     f"the orchestrator on {node.name}")
        return instance

    def say(self, node, instance, text, conversation=None):
        """(status, answer) of that node; (0, None) if it is not there."""
        body = {"message": text, "stream": False, **({"conversation_id": conversation} if conversation else {})}
        try:
            return node.client.ask("POST", "/api/chat/completion", body, X_ORG_ID="acme", X_INSTANCE_ID=instance)
        except (OSError, ValueError, EOFError):
            return 0, None
        except Exception as problem:  # http.client's own: it died while it answered
            if type(problem).__module__ != "http.client":
                raise
            return 0, None

    def said(self, instance, text, conversation=None, patience=PATIENCE):
        """The answer of whoever gives one."""
        until = time.monotonic() + patience
        while time.monotonic() < until:
            for node in self.nodes:
                if node.process is None:
                    continue
                status, answer = self.say(node, instance, text, conversation)
                if status == 200:
                    return answer
                assert status in (0, 409, 499, 502, 503), (status, answer)
            time.sleep(0.05)
        raise AssertionError("no node answers:\n" + "\n".join(node.log()[-3000:] for node in self.nodes))

    def ask(self, sql):
        return self.server.ask(sql, self.url)

    def holder(self, instance):
        rows = self.ask(f"SELECT node FROM kaged.lease WHERE name = 'orchestrator-{instance}' AND until > now()")
        return next((node for node in self.nodes if rows and node.name == rows[0][0]), None)

    def texts(self, conversation):
        """What people said in it, in order, as the database has it."""
        return [json.loads(row[0]) for row in self.ask(
            "SELECT convert_from(c.bytes, 'UTF8') FROM kaged.session_entry e JOIN kaged.session s ON s.number = e.session "
            f"JOIN kaged.session_content c ON c.number = e.content WHERE s.id = '{conversation}' "
            "AND e.kind = 'message' AND e.role = 'user' ORDER BY e.seq")]
