"""Orchestrators: from an uploaded package to a chat with tool calls, as the catalog's document goes about it; what
its table of troubles says, row by row; changes, versions, reloads and what dies meanwhile."""
# also on PostgreSQL
import http.client
import json
import os
import shutil
import subprocess
import threading

import packages
import python_runtime
from harness import PATIENCE, ROOT, Daemon, at_once, main, wait_for
from models import Provider
from test_catalog import FREE_PORT, World
from test_catalog_packages import PackageTest, archive
from test_package_tier import SHOUT
from test_turns import KEY, calls, says

EXAMPLE = os.path.join(python_runtime.SDK, "example")
FIND, ESTIMATE = "parcels__find_parcels", "parcels__estimate_delivery"
LOCAL = """[providers.p]
kind = "openai"
base_url = "{url}"
api_key = "{key}"
retries = 0
[models.talker]
provider = "p"
model = "gpt"
"""
SLOW = """
def get_tools(self):
    import os, time
    @uvtool
    def wait(seconds: float) -> str:
        time.sleep(seconds)
        return "waited"
    @uvtool
    def die():
        os._exit(7)
    return [say, wait, die]
"""


SPEAKS = """
def get_tools(self):
    import socket, sys
    @uvtool
    def reach(port: int) -> str:
        print("the key is", self.key, flush=True)
        print("and again", self.key, file=sys.stderr, flush=True)
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
            return "reached with " + self.key
        except OSError:
            return "not reached"
    return [reach]
def initialize(self, config):
    self.key = config["api_key"]
"""
NEEDS_KEY = '@plugin_settings([{"key": "api_key", "type": "str", "description": "A key", "required": True, "sensitive": True}])'


def example(pid="example.acme.parcels", version="1.0.0"):
    files = {}
    for name in os.listdir(EXAMPLE):
        path = os.path.join(EXAMPLE, name)
        if os.path.isfile(path):
            with open(path, "rb") as file:
                files[name] = file.read()
    source = files["plugin.py"].decode().replace("com.example.parcels", pid).replace('"1.0.0"', f'"{version}"')
    return archive({**files, "plugin.py": source}, "parcels/")


def written(base, pid, version="1.0", **parts):
    folder = packages.write(base, **parts)
    with open(os.path.join(folder, "plugin.py")) as file:
        source = file.read().replace("com.example.say", pid).replace('version="1.0"', f'version="{version}"')
    return archive({"plugin.py": source})


class OrchestratorTest(PackageTest):
    more_config = {}
    bounds = ""  # of the provider

    @classmethod
    def setUpClass(cls):
        subprocess.run([os.path.join(ROOT, "scripts/share"), "cadence"], check=True, stdout=subprocess.DEVNULL)
        tree = python_runtime.root()
        cls.provider = cls.enterClassContext(Provider())
        config = {**FREE_PORT, "limits.initialize_timeout_ms": 60000, "limits.restart_delay_ms": 20,
                  "catalog.org_may.acme": [f"net:127.0.0.1:{cls.provider.port}"], **({"catalog.runtimes.python.root": tree} if tree else {}),
                  **cls.more_config}
        daemon = Daemon([], config)
        daemon.write_local(LOCAL.format(url=cls.provider.url, key=KEY).replace("retries = 0\n", f"retries = 0\n{cls.bounds}"))
        cls.share(daemon)
        cls.world = World(cls.daemon)
        cls.made = 0

    def setUp(self):
        self.provider.answers.clear()
        self.provider.requests.clear()

    def uploaded(self, content, **place):
        status, answer = self.upload(content, **place)
        self.assertIn(status, (201, 409), answer)

    def parcels(self):
        """The example, with what it needs."""
        if self.ask("acme-admin", "GET", "/api/orgs/acme/plugins/example.acme.parcels/versions")[0] == 404:
            self.uploaded(example())

    def create(self, *pids, name=None, who="acme-admin", org="acme", **more):
        type(self).made += 1
        body = {"name": name or f"Support {self.made}", "framework_type": "langgraph", "mode": "supervisor",
                "active_plugin_ids": list(pids), "config": {"model": "talker"}, **more}
        return self.ask(who, "POST", f"/api/orgs/{org}/orchestrators", body)

    def created(self, *pids, **more):
        status, made = self.create(*pids, **more)
        self.assertEqual(status, 201, made)
        return made["instance_id"]

    def at(self, instance, rest="", org="acme"):
        return f"/api/orgs/{org}/orchestrators/{instance}{rest}"

    def show(self, instance):
        status, item = self.ask("acme-admin", "GET", self.at(instance))
        self.assertEqual(status, 200, item)
        return item

    def load(self, instance):
        return self.ask("acme-admin", "POST", self.at(instance, "/load"))

    def loaded(self, instance):
        status, answer = self.load(instance)
        self.assertEqual(status, 202, answer)

    def set_key(self, instance, pid="example.acme.parcels", key="k-1234567890"):
        status, item = self.ask("acme-admin", "PATCH", self.at(instance, "/plugin-settings"),
                                {"plugin_settings": {pid: {"settings": [{"key": "api_key", "value": key}]}}})
        self.assertEqual(status, 200, item)
        return item

    def ready(self, **more):
        self.parcels()
        instance = self.created("example.acme.parcels", **more)
        self.set_key(instance)
        self.loaded(instance)
        return instance

    def shouting(self):
        """With a package that has a manifest of kaged's, and is no Python."""
        manifest = SHOUT["kaged-plugin.yaml"].replace("com.example.shout", "example.acme.shout")
        self.uploaded(archive({"kaged-plugin.yaml": manifest, "shout": SHOUT["shout"]}, "shout/", ["shout"]))
        return self.created("example.acme.shout")

    def chat(self, instance, message="where is it?", who="acme-member", org="acme", **body):
        return self.world.clients[who].ask("POST", "/api/chat/completion",
                                           {"message": message, "stream": False, **body},
                                           X_ORG_ID=org, X_INSTANCE_ID=instance)

    def said(self, instance, *answers, **body):
        self.provider.answers.extend(answers)
        status, answer = self.chat(instance, **body)
        self.assertEqual(status, 200, answer)
        return answer

    def stream(self, instance, who="acme-member", **body):
        client = self.world.clients[who]
        connection = http.client.HTTPConnection(client.address, timeout=PATIENCE * 3)
        try:
            connection.request("POST", "/api/chat/completion", json.dumps({"message": "where is it?", **body}),
                               {**client.headers, "X-ORG-ID": "acme", "X-INSTANCE-ID": instance})
            answer = connection.getresponse()
            self.assertEqual((answer.status, answer.headers["Content-Type"]), (200, "text/event-stream"))
            events = []
            for block in answer.read().decode().split("\n\n"):
                lines = block.split("\n")
                if len(lines) == 2:
                    self.assertTrue(lines[0].startswith("event: ") and lines[1].startswith("data: "), block)
                    events.append((lines[0][7:], json.loads(lines[1][6:])))
            return events
        finally:
            connection.close()

    def asked(self, index):
        """What the model was asked with."""
        return self.provider.requests[index][1]


class Story(OrchestratorTest):
    def test_from_upload_to_a_chat_with_tool_calls(self):
        self.parcels()
        status, made = self.create("example.acme.parcels", name="Parcel Desk", whoami="You are the parcel desk.")
        self.assertEqual(status, 201, made)
        instance = made["instance_id"]
        self.assertEqual((made["tier"], made["mode"], made["engine"], made["is_ready"], made["stale"], made["status"]),
                         ("demand", "supervisor", "kaged", False, False, "active"))
        status, refused = self.load(instance)
        self.assertEqual((status, refused["code"]), (422, "PL-0003"), refused)
        self.assertIn("api_key", refused["message"])
        shown = self.set_key(instance)["plugin_settings"]["org:example.acme.parcels@1.0.0"]["settings"]
        self.assertIn({"key": "api_key", "value": "***MASKED***"}, shown)
        status, answer = self.load("Parcel%20Desk")
        self.assertEqual((status, answer["instance_id"], answer["tier"]), (202, instance, "demand"), answer)
        self.assertTrue(self.show(instance)["is_ready"])
        answer = self.said(instance, calls({"query": "Lisbon"}, name=FIND), calls({"parcel_id": "KX-1001"}, name=ESTIMATE),
                           says("It comes in two days."))
        self.assertEqual((answer["response"], answer["agent_hops"], answer["current_agent"], answer["stop"]),
                         ("It comes in two days.", 0, "primary", "stop"))
        first, second, third = (self.asked(i) for i in range(3))
        self.assertIn("You are the parcel desk.", first["messages"][0]["content"])
        names = {tool["function"]["name"] for tool in first["tools"]}
        self.assertEqual(names, {FIND, ESTIMATE, "agent__parcels"})
        self.assertIn("Kestrel Express", second["messages"][-1]["content"])
        self.assertIn("days_left", third["messages"][-1]["content"])
        self.assertNotIn("k-1234567890", json.dumps([first, second, third]))

    def test_the_same_as_events_and_what_a_tool_shows_ahead(self):
        instance = self.ready()
        self.provider.answers.extend([calls({"parcel_id": "KX-1001"}, name=ESTIMATE), says("Two ", "days.")])
        events = self.stream(instance)
        kinds = [kind for kind, _ in events]
        self.assertEqual(kinds, ["agent", "tool", *["message"] * (len(events) - 3), "metadata"], events)
        tool = dict(events)["tool"]
        self.assertEqual((tool["tool"], set(tool["data"])), ("parcels.estimate_delivery", {"parcel", "days_left"}))
        self.assertEqual("".join(data["content"] for kind, data in events if kind == "message"), "Two days.")
        self.assertEqual(events[-1][1]["agent_hops"], 0)

    def test_work_is_handed_to_a_specialized_package(self):
        instance = self.ready()
        self.provider.answers.extend([calls({"task": "find the one to Lisbon"}, name="agent__parcels"),
                                      calls({"query": "Lisbon"}, name=FIND), says("KX-1001"), says("It is KX-1001.")])
        events = self.stream(instance)
        self.assertEqual([data["agent"] for kind, data in events if kind == "agent"], ["primary", "parcels", "primary"])
        self.assertEqual(events[-1][1]["agent_hops"], 1)
        self.assertIn("You find parcels and tell when they arrive", self.asked(1)["messages"][0]["content"])

    def test_a_package_of_kageds_own_kind_is_called_in_a_chat(self):
        instance = self.shouting()
        status, item = self.ask("acme-admin", "PATCH", self.at(instance, "/plugin-settings"), {
            "plugin_settings": {"example.acme.shout": {"settings": [{"key": "volume", "value": 2}]}}})
        self.assertEqual(status, 200, item)
        self.loaded(instance)
        self.assertTrue(self.show(instance)["is_ready"])
        answer = self.said(instance, calls({"text": "hi"}, name="shout__shout"), says("Loud enough?"))
        self.assertEqual(answer["response"], "Loud enough?")
        self.assertEqual([tool["function"]["name"] for tool in self.asked(0)["tools"]], ["shout__shout"])
        self.assertIn("HIHI", self.asked(1)["messages"][-1]["content"])
        self.assertEqual(self.ask("acme-admin", "POST", self.at(instance, "/unload"))[0], 202)
        wait_for(lambda: not self.show(instance)["is_ready"], "its end")

    def test_a_package_reaches_what_was_granted_and_its_secret_is_not_in_what_it_prints(self):
        pid, key = "example.acme.speaks", "sk-tern-and-gull-0042"
        self.uploaded(written(os.path.join(self.daemon.home, "speaks"), pid, agent=SPEAKS, decorator=NEEDS_KEY))
        instance = self.created(pid)
        self.set_key(instance, pid, key)
        self.loaded(instance)
        tool = calls({"port": self.provider.port}, name="speaks__reach")
        self.said(instance, tool, says("No."))
        self.assertIn("not reached", self.asked(1)["messages"][-1]["content"])
        capability = f"net:127.0.0.1:{self.provider.port}"
        status, told = self.ask("acme-admin", "POST", f"/api/orgs/acme/plugins/{pid}/grants", {"capability": capability})
        self.assertIn(status, (200, 201), told)
        self.loaded(instance)
        self.provider.requests.clear()
        self.said(instance, tool, says("Yes."))
        result = next(body["messages"][-1]["content"] for _, body in self.provider.requests
                      if body and body["messages"][-1]["role"] == "tool")
        self.assertIn("reached with", result)
        name = next(one["name"] for one in self.daemon.api("GET", "/plugins")[1]["plugins"] if one["name"].startswith("speaks-"))
        lines = json.dumps(self.daemon.api("GET", f"/plugins/{name}/logs?lines=100")[1])
        self.assertIn("the key is", lines)
        self.assertIn("and again", lines)
        for text in (lines, self.daemon.log(), json.dumps(self.daemon.audit())):
            self.assertNotIn(key, text)

    def test_two_hundred_chats_at_once(self):
        instance = self.ready()
        self.provider.answers.extend([says("Here.")] * 200)
        answers = at_once([lambda number=number: self.chat(instance, f"chat {number}") for number in range(200)])
        self.assertEqual({(status, answer.get("response", str(answer))) for status, answer in answers}, {(200, "Here.")})
        self.assertEqual(len({answer["session_id"] for _, answer in answers}), 200)
        asked = {body["messages"][-1]["content"] for _, body in self.provider.requests}
        self.assertEqual(asked, {f"chat {number}" for number in range(200)})

    def test_conversations_are_kept_and_are_their_own(self):
        instance = self.ready()
        first = self.said(instance, says("Hello."), message="Hi there")
        again = self.said(instance, says("Still here."), message="And now?", conversation_id=first["conversation_id"])
        self.assertEqual(again["session_id"], first["session_id"])
        self.assertIn("Hi there", json.dumps(self.asked(1)["messages"]))
        at = {"X_ORG_ID": "acme", "X_INSTANCE_ID": instance}
        member, admin = self.world.clients["acme-member"], self.world.clients["acme-admin"]
        listed = member.ask("GET", "/api/chat/conversations", **at)[1]["conversations"]
        self.assertEqual([one["conversation_id"] for one in listed], [first["session_id"]])
        self.assertEqual(admin.ask("GET", "/api/chat/conversations", **at)[1]["conversations"], [])
        path = f"/api/chat/conversations/{first['session_id']}/messages"
        status, told = member.ask("GET", path, **at)
        self.assertEqual([(one["role"], one["content"]) for one in told["messages"]],
                         [("user", "Hi there"), ("assistant", "Hello."), ("user", "And now?"), ("assistant", "Still here.")])
        for client in (admin, self.world.clients["root"]):
            self.assertEqual(client.ask("GET", path, **at)[0], 404)
        self.assertEqual(self.chat(instance, who="acme-admin", conversation_id=first["session_id"])[0], 404)
        self.assertEqual(self.chat(instance, conversation_id="@last")[0], 404)
        other = self.ready()
        self.assertEqual(self.chat(other, conversation_id=first["session_id"])[0], 404)

    def test_grounded_speaks_of_one_resource_and_of_no_other(self):
        instance = self.ready(mode="grounded")
        answer = self.said(instance, says("It is on its way."), resource_id="KX-1001")
        self.assertEqual(answer["response"], "It is on its way.")
        told = json.dumps(self.asked(0)["messages"])
        self.assertIn("Talk about parcel KX-1001 only", told)
        self.assertIn("days_left", told)
        self.assertIn("Never guess: use your tools", self.asked(0)["messages"][0]["content"])
        asked = len(self.provider.requests)
        status, unknown = self.chat(instance, resource_id="KX-9999")
        self.assertEqual((status, unknown["stop"]), (200, "unknown_resource"), unknown)
        self.assertIn("KX-9999", unknown["response"])
        self.assertEqual(len(self.provider.requests), asked)
        status, refused = self.chat(instance)
        self.assertEqual((status, refused["code"]), (422, "VA-9001"), refused)


class Rows(OrchestratorTest):
    def test_what_cannot_be_an_orchestrator_is_refused_before_anything_is_stored(self):
        self.parcels()
        before = len(self.ask("acme-admin", "GET", "/api/orgs/acme/orchestrators")[1]["orchestrators"])
        good = ("example.acme.parcels",)
        rows = [(good, {"name": "four"}, "name"), (good, {"name": "x" * 201}, "name"),
                (good, {"framework_type": "crewai"}, "framework_type"),
                (good, {"mode": "coordinator"}, "supervisor or grounded"), (good, {"mode": "handoff"}, "supervisor or grounded"),
                ((), {}, "active_plugin_ids"), (good, {"tier": "warm"}, "tier"), (good, {"colour": "blue"}, "colour"),
                (("example.acme.none",), {}, "no package example.acme.none"),
                (("example.acme.parcels@9.9",), {}, "no package example.acme.parcels 9.9"),
                (good + good, {}, "twice")]
        for pids, more, words in rows:
            with self.subTest(more, pids=pids):
                status, answer = self.create(*pids, **more)
                self.assertEqual((status, answer["code"]), (422, "VA-9001"), answer)
                self.assertIn(words, answer["message"])
        listed = self.ask("acme-admin", "GET", "/api/orgs/acme/orchestrators")[1]["orchestrators"]
        self.assertEqual(len(listed), before)

    def test_a_saved_change_runs_only_after_a_load(self):
        instance = self.ready(whoami="You are old.")
        before = self.show(instance)
        status, changed = self.ask("acme-admin", "PATCH", self.at(instance), {"whoami": "You are new."})
        self.assertEqual((status, changed["stale"], changed["is_ready"]), (200, True, True), changed)
        self.assertNotEqual(changed["config_hash"], before["config_hash"])
        self.said(instance, says("x"))
        self.assertIn("You are old.", self.asked(0)["messages"][0]["content"])
        self.loaded(instance)
        self.assertFalse(self.show(instance)["stale"])
        self.said(instance, says("x"))
        self.assertIn("You are new.", self.asked(1)["messages"][0]["content"])
        status, merged = self.ask("acme-admin", "PATCH", self.at(instance, "/config"), {"config": {"mode_config": {"a": 1}}})
        self.assertEqual((status, merged["config"]), (200, {"mode_config": {"a": 1}, "model": "talker"}), merged)
        self.assertEqual(self.ask("acme-admin", "PATCH", self.at(instance), {"mode": "grounded"})[0], 422)

    def test_a_deleted_one_is_gone_and_its_name_is_free(self):
        instance = self.ready(name="Short Life")
        self.assertEqual(self.create("example.acme.parcels", name="Short Life")[0], 409)
        status, item = self.ask("acme-admin", "DELETE", self.at(instance))
        self.assertEqual((status, item["status"], item["is_ready"]), (200, "deleted", False), item)
        for method, path in (("GET", self.at(instance)), ("POST", self.at(instance, "/load"))):
            status, answer = self.ask("acme-admin", method, path)
            self.assertEqual((status, answer["code"]), (410, "RE-0001"), answer)
        self.assertEqual(self.chat(instance)[0], 410)
        self.assertEqual(self.create("example.acme.parcels", name="Short Life")[0], 201)

    def test_the_quota_of_an_org_counts(self):
        self.uploaded(written(os.path.join(self.daemon.home, "q"), "example.other.say"), who="other-admin",
                      path="/api/orgs/other/plugins/upload")
        self.ask("root", "PATCH", "/api/admin/orgs/other", {"quota": {"max_orchestrators": 1}})
        place = {"who": "other-admin", "org": "other"}
        self.assertEqual(self.create("example.other.say", **place)[0], 201)
        status, answer = self.create("example.other.say", **place)
        self.assertEqual((status, answer["code"]), (409, "RE-0004"), answer)
        self.assertEqual(self.create("example.acme.parcels", **place)[0] in (409, 422), True)

    def test_every_route_with_every_role_across_two_orgs(self):
        self.parcels()
        instance = self.ready(name="For Everybody")
        settings = {"plugin_settings": {"example.acme.parcels": {"settings": {"carrier": "X"}}}}
        table = [("GET", "", None, (200, 200, 200)), ("PATCH", "", {"whoami": "x"}, (200, 200, 403)),
                 ("PATCH", "/config", {"config": {"a": 1}}, (200, 200, 403)),
                 ("PATCH", "/plugin-settings", settings, (200, 200, 403)),
                 ("POST", "/plugin-settings/activate", {"pid": "example.acme.parcels", "version": "1.0.0"}, (200, 200, 403)),
                 ("POST", "/load", None, (202, 202, 403)), ("POST", "/reload", None, (202, 202, 403)),
                 ("POST", "/unload", None, (202, 202, 403)), ("DELETE", "", None, (200, 410, 403))]
        rows = [("GET", "/api/orgs/acme/orchestrators", None, (200, 200, 200)),
                ("POST", "/api/orgs/acme/orchestrators", {}, (422, 422, 403))]
        rows += [(method, self.at(instance, rest), body, expected) for method, rest, body, expected in table]
        for method, path, body, expected in rows:
            wanted = {"nobody": 401, "other-admin": 404, "other-member": 404,
                      **dict(zip(("root", "acme-admin", "acme-member"), expected))}
            for who in ("nobody", "other-admin", "other-member", "acme-member", "root", "acme-admin"):
                with self.subTest(f"{method} {path}", who=who):
                    self.assertEqual(self.ask(who, method, path, body)[0], wanted[who])
        kept = self.ready(name="For Chats")
        at = {"X_ORG_ID": "acme", "X_INSTANCE_ID": kept}
        for who, status in (("nobody", 401), ("other-admin", 404), ("other-member", 404), ("acme-member", 200), ("root", 200)):
            with self.subTest("chat", who=who):
                self.provider.answers.append(says("x"))
                self.assertEqual(self.chat(kept, who=who)[0], status)
                self.assertEqual(self.world.clients[who].ask("GET", "/api/chat/conversations", **at)[0], status)
        for who in ("other-admin", "other-member"):
            self.assertEqual(self.chat(kept, who=who, org="other")[0], 404)
        member = self.world.clients["acme-member"]
        for headers in ({}, {"X_ORG_ID": "acme"}, {"X_INSTANCE_ID": kept}):
            status, answer = member.ask("POST", "/api/chat/completion", {"message": "x"}, **headers)
            self.assertEqual((status, answer["code"]), (400, "VA-0001"), answer)


class Commands(OrchestratorTest):
    def run_well(self, *words, **options):
        code, out, err = self.daemon.cli(*words, **options)
        self.assertEqual((code, err), (0, ""), out)
        return out

    def test_an_orchestrator_by_the_commands(self):
        self.parcels()
        org = ("--org", "acme")
        made = self.run_well("orchestrator", "create", "by-hand", "example.acme.parcels", *org,
                             "--model", "nothing", "--whoami", "You are made by hand.")
        self.assertIn("created by-hand", made)
        self.assertIn("not loaded", self.run_well("orchestrator", "list", *org))
        code, _, err = self.daemon.cli("orchestrator", "load", "by-hand", *org)
        self.assertEqual(code, 6)
        self.assertIn("no model nothing", err)
        self.assertIn("by-hand is changed", self.run_well("orchestrator", "config", "by-hand", '{"model":"talker"}', *org))
        self.run_well("orchestrator", "settings", "by-hand", "example.acme.parcels", '{"api_key":"k-12345678"}', *org)
        shown = self.run_well("orchestrator", "show", "by-hand", *org)
        self.assertIn("org:example.acme.parcels@1.0.0", shown)
        self.assertIn("***MASKED***", shown)
        self.assertNotIn("k-12345678", shown)
        for act in ("load", "reload"):
            self.assertIn("Orchestrator loaded", self.run_well("orchestrator", act, "by-hand", *org))
        self.provider.answers.extend([says("Hello."), says("Again.")])
        answer = json.loads(self.run_well("--json", "orchestrator", "chat", "by-hand", "Hi", *org))
        self.assertEqual(answer["response"], "Hello.")
        self.assertEqual(self.run_well("orchestrator", "chat", "by-hand", "And?", *org, "--conversation",
                                       answer["conversation_id"]), "Again.\n")
        self.assertIn("unloaded", self.run_well("orchestrator", "unload", "by-hand", *org))
        self.assertIn("is deleted", self.run_well("orchestrator", "delete", "by-hand", *org))
        self.assertEqual(self.daemon.cli("orchestrator", "show", "by-hand", *org)[0], 4)
        self.assertEqual(self.daemon.cli("orchestrator", "list")[0], 2)


class Troubles(OrchestratorTest):
    """The document's table."""

    def test_upload_succeeds_but_no_tools_in_chat(self):
        """Not attached, or not reloaded."""
        self.uploaded(written(os.path.join(self.daemon.home, "t"), "example.acme.other"))
        instance = self.ready()
        self.ask("acme-admin", "PATCH", self.at(instance), {"active_plugin_ids": ["example.acme.parcels", "example.acme.other"]})
        self.said(instance, says("x"))
        self.assertNotIn("other__say", json.dumps(self.asked(0)["tools"]))
        self.loaded(instance)
        self.said(instance, says("x"))
        self.assertIn("other__say", json.dumps(self.asked(1)["tools"]))

    def test_settings_schema_of_a_pid_that_is_not_there_is_404(self):
        self.assertEqual(self.ask("acme-admin", "GET", "/api/orgs/acme/plugins/example.acme.nowhere/settings-schema")[0], 404)

    def test_required_settings_that_are_missing_are_named(self):
        self.parcels()
        instance = self.created("example.acme.parcels")
        status, answer = self.load(instance)
        self.assertEqual(status, 422, answer)
        self.assertIn("api_key", answer["message"])
        status, answer = self.chat(instance)
        self.assertEqual(status, 422, answer)
        self.assertIn("api_key", self.show(instance)["load_error"])
        status, answer = self.ask("acme-admin", "PATCH", self.at(instance, "/plugin-settings"),
                                  {"plugin_settings": {"example.acme.parcels": {"settings": {"max_results": "many"}}}})
        self.assertEqual(status, 422, answer)

    def test_a_running_instance_has_the_old_code_until_it_is_loaded_and_pins_stay(self):
        base = os.path.join(self.daemon.home, "v")
        self.uploaded(written(base + "1", "example.acme.vers", "1.0"))
        instance = self.created("example.acme.vers")
        pinned = self.created("example.acme.vers@1.0")
        self.loaded(instance)
        folder = packages.write(base + "2")
        with open(os.path.join(folder, "plugin.py")) as file:
            source = file.read().replace("com.example.say", "example.acme.vers").replace('version="1.0"', 'version="2.0"')
        self.uploaded(archive({"plugin.py": source.replace("return text * times", "return 'newer ' + text")}))

        def spoken(which):
            self.said(which, calls({"text": "hi"}, name="vers__say"), says("x"))
            return self.asked(-1)["messages"][-1]["content"]
        self.assertNotIn("newer", spoken(instance))
        self.loaded(instance)
        self.assertIn("newer hi", spoken(instance))
        self.assertNotIn("newer", spoken(pinned))
        status, item = self.ask("acme-admin", "POST", self.at(pinned, "/plugin-settings/activate"),
                                {"pid": "example.acme.vers", "version": "2.0"})
        self.assertEqual((status, item["active_plugin_ids"], item["stale"]), (200, ["example.acme.vers@2.0"], True), item)
        self.loaded(pinned)
        self.assertIn("newer hi", spoken(pinned))

    def test_validate_dependencies_says_what_is_missing(self):
        missing = "@staticmethod\ndef validate_dependencies():\n    return ['the package lxml is not here']\n"
        self.uploaded(written(os.path.join(self.daemon.home, "d"), "example.acme.needy", plugin=missing))
        status, answer = self.load(self.created("example.acme.needy"))
        self.assertGreaterEqual(status, 400, answer)
        self.assertIn("the package lxml is not here", answer["message"])

    def test_a_system_package_that_is_disabled_is_not_visible(self):
        content = written(os.path.join(self.daemon.home, "s"), "com.system.say")
        status, made = self.upload(content, who="root", path="/api/admin/plugins/upload")
        self.assertEqual(status, 201, made)
        instance = self.created("com.system.say")
        self.loaded(instance)
        self.ask("root", "PATCH", f"/api/admin/plugins/{made['id']}", {"enabled": False})
        self.assertEqual(self.create("com.system.say")[0], 422)
        status, answer = self.load(instance)
        self.assertEqual((status, answer["code"]), (404, "PL-0002"), answer)
        self.assertTrue(self.show(instance)["is_ready"])
        self.ask("root", "PATCH", f"/api/admin/plugins/{made['id']}", {"enabled": True})
        self.loaded(instance)

    def test_what_the_org_sets_counts_at_the_next_load(self):
        self.parcels()
        instance = self.created("example.acme.parcels")
        path = "/api/orgs/acme/plugins/example.acme.parcels/settings"
        self.assertEqual(self.ask("acme-admin", "PATCH", path, {"settings": {"api_key": "k-of-the-org"}})[0], 200)
        self.loaded(instance)
        self.assertFalse(self.show(instance)["stale"])
        self.ask("acme-admin", "PATCH", path, {"settings": {"carrier": "Heron"}})
        self.assertTrue(self.show(instance)["stale"])
        self.loaded(instance)
        self.said(instance, calls({"query": "KX"}, name=FIND), says("x"))
        self.assertIn("Heron", self.asked(1)["messages"][-1]["content"])
        self.ask("acme-admin", "PATCH", path, {"settings": {"api_key": None, "carrier": None}})

    def test_it_goes_on_when_the_operator_reloads_and_ends_when_he_unloads_its_project(self):
        instance = self.ready()
        self.assertEqual(self.daemon.api("POST", "/reload")[0], 200)
        self.said(instance, calls({"query": "KX"}, name=FIND), says("x"))
        self.assertIn("Kestrel", self.asked(1)["messages"][-1]["content"])
        self.assertEqual(self.daemon.api("DELETE", f"/projects/orchestrator-{instance}?force=true")[0], 200)
        wait_for(lambda: not self.show(instance)["is_ready"], "its end")
        self.said(instance, says("loaded again"))

    def test_a_model_of_the_org(self):
        self.parcels()
        body = {"name": "ours", "provider": "local", "model": "talker"}
        status, made = self.ask("acme-admin", "POST", "/api/orgs/acme/llm-configs", body)
        self.assertEqual(status, 201, made)
        instance = self.created("example.acme.parcels", config={"default_llm_config_id": made["id"]})
        self.set_key(instance)
        self.assertEqual(self.said(instance, says("by the org's"))["response"], "by the org's")
        lost = self.created("example.acme.parcels", config={"default_llm_config_id": "nowhere"})
        self.set_key(lost)
        status, answer = self.load(lost)
        self.assertEqual((status, answer["code"]), (422, "CF-0001"), answer)

    def test_a_provider_of_the_org_its_key_and_no_other_one(self):
        self.parcels()
        body = {"name": "own", "provider": "openai", "model": "gpt-own", "base_url": self.provider.url, "api_key": "key-of-acme"}
        status, made = self.ask("acme-admin", "POST", "/api/orgs/acme/llm-configs", body)
        self.assertEqual(status, 201, made)
        instance = self.created("example.acme.parcels", config={"default_llm_config_id": made["id"]})
        self.set_key(instance)
        self.said(instance, says("x"))
        head, asked = self.provider.requests[0]
        self.assertEqual(asked["model"], "gpt-own")
        self.assertIn("key-of-acme", str(head))

    def test_a_model_that_is_not_there(self):
        self.parcels()
        instance = self.created("example.acme.parcels", config={"model": "nothing"})
        self.set_key(instance)
        status, answer = self.load(instance)
        self.assertEqual((status, answer["code"]), (422, "CF-0001"), answer)


class Busy(OrchestratorTest):
    bounds = "calls_max = 1\nwaiting_max = 0\n"

    def test_a_chat_past_what_its_provider_may_be_asked_is_told_when_to_come_back(self):
        instance, free = self.shouting(), threading.Event()

        def waits(connection):
            free.wait(PATIENCE)
            connection.sendall(says("At last."))
        self.provider.answers.append(waits)
        first = []
        thread = threading.Thread(target=lambda: first.append(self.chat(instance)))
        thread.start()
        try:
            wait_for(lambda: self.provider.requests, "the first chat")
            client = self.world.clients["acme-member"]
            connection = http.client.HTTPConnection(client.address, timeout=PATIENCE)
            connection.request("POST", "/api/chat/completion", json.dumps({"message": "and me?", "stream": False}),
                               {**client.headers, "X-ORG-ID": "acme", "X-INSTANCE-ID": instance})
            answer = connection.getresponse()
            told = json.loads(answer.read())
            connection.close()
            self.assertEqual((answer.status, told["code"], answer.headers["Retry-After"]), (429, "RL-0001", "1"), told)
            self.assertIn("as many questions wait for it as may", told["message"])
            name, data = self.stream(instance)[-1]
            self.assertEqual((name, data["code"]), ("error", "RL-0001"), data)
        finally:
            free.set()
            thread.join()
        self.assertEqual((first[0][0], first[0][1]["response"]), (200, "At last."))


class Pool(OrchestratorTest):
    more_config = {"catalog.demand_idle_sec": 2, "catalog.loaded_max": 3}

    def slow(self):
        self.uploaded(written(os.path.join(self.daemon.home, "slow"), "example.acme.slow", agent=SLOW))
        return self.created("example.acme.slow", tier="hot")

    def test_a_hot_one_has_to_be_loaded_and_is_at_the_next_start(self):
        self.parcels()
        instance = self.created("example.acme.parcels", tier="hot")
        self.set_key(instance)
        status, answer = self.chat(instance)
        self.assertEqual((status, answer["code"]), (503, "OR-0002"), answer)
        self.loaded(instance)
        self.said(instance, says("x"))
        self.daemon.stop()
        self.daemon.start()
        self.world.clients = {who: type(client)(self.daemon, client.headers) for who, client in self.world.clients.items()}
        wait_for(lambda: self.show(instance)["is_ready"], "the hot one")
        self.assertEqual(self.ask("acme-admin", "DELETE", self.at(instance))[0], 200)

    def test_one_on_demand_is_loaded_by_its_first_chat_and_ends_when_it_rests(self):
        self.parcels()
        instance = self.created("example.acme.parcels")
        self.set_key(instance)
        self.assertFalse(self.show(instance)["is_ready"])
        self.said(instance, says("x"))
        wait_for(lambda: not self.show(instance)["is_ready"], "its end")
        self.said(instance, says("y"))

    def test_past_the_bound_one_that_rests_gives_way(self):
        self.parcels()
        made = []
        for _ in range(5):
            made.append(self.created("example.acme.parcels"))
            self.set_key(made[-1])
            self.loaded(made[-1])
        self.assertLessEqual(sum(self.show(one)["is_ready"] for one in made), 3)
        self.assertTrue(self.show(made[-1])["is_ready"])

    def test_a_cage_that_dies_in_mid_tool_is_that_calls_error_alone(self):
        instance, other = self.slow(), self.ready()
        self.loaded(instance)
        answer = self.said(instance, calls({}, name="slow__die"), says("It died."))
        self.assertEqual(answer["response"], "It died.")
        self.assertIn("BLOCKED", self.asked(1)["messages"][-1]["content"])
        self.said(other, says("x"))
        wait_for(lambda: self.show(instance)["is_ready"], "its restart")
        self.said(instance, calls({"text": "hi"}, name="slow__say"), says("ok"))
        self.assertEqual(self.ask("acme-admin", "DELETE", self.at(instance))[0], 200)

    def test_reload_while_chats_run(self):
        instance = self.slow()
        self.loaded(instance)
        self.provider.answers.extend([calls({"seconds": 1.5}, name="slow__wait")] * 4 + [says("done")] * 4)
        answers = []
        chats = [threading.Thread(target=lambda: answers.append(self.chat(instance))) for _ in range(4)]
        for chat in chats:
            chat.start()
        wait_for(lambda: len(self.provider.requests) >= 4, "the chats")
        self.ask("acme-admin", "PATCH", self.at(instance), {"whoami": "Changed meanwhile."})
        for _ in range(3):
            self.loaded(instance)
        for chat in chats:
            chat.join()
        self.assertEqual([(status, answer.get("response")) for status, answer in answers], [(200, "done")] * 4)
        results = [self.asked(i)["messages"][-1]["content"] for i in range(4, 8)]
        self.assertEqual([("waited" in result) for result in results], [True] * 4, results)
        self.assertEqual(self.ask("acme-admin", "DELETE", self.at(instance))[0], 200)

    def test_files_of_a_package_that_are_gone_are_unpacked_again_by_a_load(self):
        instance = self.ready()
        self.assertEqual(self.ask("acme-admin", "POST", self.at(instance, "/unload"))[0], 202)
        shutil.rmtree(os.path.join(self.daemon.home, "state", "catalog", "trees"))
        self.loaded(instance)
        self.said(instance, says("x"))
        self.assertIn(FIND, json.dumps(self.asked(0)["tools"]))

    def test_loads_and_unloads_at_once_end_well(self):
        instance = self.slow()
        rests = ["/load", "/unload", "/load", "/reload", "/unload", "/load"]
        codes = [answer[0] for answer in at_once([
            lambda rest=rest: self.ask("acme-admin", "POST", self.at(instance, rest)) for rest in rests])]
        self.assertEqual(set(codes) - {202, 409}, set(), codes)
        self.loaded(instance)
        self.assertTrue(self.show(instance)["is_ready"])
        self.assertEqual(self.ask("acme-admin", "DELETE", self.at(instance))[0], 200)


if __name__ == "__main__":
    main()
