"""The OpenAPI document: it lists every route, and every route answers as it says."""
import contextlib
import http.client
import json
import os
import re
import subprocess
import urllib.parse

from harness import KAGED, PLUGINS, ROOT, Daemon, FlowTest, main, wait_for

# What a test puts in the place of a path's parameters.
NAMES = {"secret": "to-be-set", "name": "declares-all", "method": "all.config", "id": "to-be-revoked", "knob": "turns",
         "path": "primary"}
# A refusal that is right: nothing was damaged; the unix socket has no session to leave.
REFUSED = {("post", "/api/v1/plugins/{name}/storage/reset"): 409,
           ("get", "/api/v1/system-plugins/{name}"): 404,  # test_system_plugins.py has some
           ("post", "/api/v1/plugins/{name}/tools"): 409,  # its manifest declares them
           **{(method, "/api/v1/plugins/{name}/" + what): 409  # it is not an MCP server
              for method, what in (("get", "resources"), ("get", "prompts"), ("post", "prompts"),
                                   ("post", "completion"))},
           ("post", "/api/v1/plugins/{name}/grant"): 409,  # it may already do that
           ("post", "/api/v1/plugins/{name}/revoke"): 409,  # it may not do that
           **{(method, "/api/v1/plugins/{name}/script"): 409 for method in ("get", "post")},  # it is no script
           **{("post", "/api/v1/cluster/" + what): 409 for what in ("tokens", "join")},  # it is alone: test_link.py
           ("delete", "/api/v1/session"): 409}
# Bodies of routes that need more than an object.
BODIES = {("post", "/api/v1/tokens"): '{"name": "just-made"}',
          ("post", "/api/v1/cluster/join"): '{"secret": "x", "node": "n", "request": "x"}',
          ("post", "/api/v1/backups"): '{"file": "/x", "files": 1, "bytes": 1}',
          ("post", "/api/v1/plugins/{name}/tools"): '{"off": "x"}',
          ("post", "/api/v1/plugins/{name}/prompts"): '{"name": "x"}',
          ("post", "/api/v1/plugins/{name}/completion"):
              '{"ref": {"type": "ref/prompt"}, "argument": {"name": "x", "value": ""}}',
          ("post", "/api/v1/plugins/{name}/grant"): '{"capabilities": ["kaged:storage:read"]}',
          ("post", "/api/v1/plugins/{name}/revoke"): '{"capabilities": ["net:example.org:443"]}',
          ("post", "/api/v1/plugins/{name}/upgrade"): '{"source": "/nowhere"}',
          ("post", "/api/v1/plugins/{name}/script"): '{"approve": "x"}',
          ("post", "/api/v1/uploads"): '{"name": "x.zip", "content": "eA=="}',
          ("put", "/api/v1/plugins/{name}/knobs/{knob}"): '{"value": 1}'}
# Routes that the walk through all of them leaves out, each with why.
LEFT_OUT = {("post", "/api/v1/stop"): "it ends the daemon, and has a test of its own",
            ("get", "/api/v1/events"): "a WebSocket: see test_events.py",
            ("post", "/api/v1/dev"): "it lasts as long as somebody reads: see test_dev.py",
            ("get", "/api/v1/plugins/{name}/trace"): "it has no end: see test_trace.py",
            **{(method, path): "messages of another protocol: see test_gateway.py"
               for method in ("get", "post", "delete") for path in ("/mcp", "/mcp/{name}")},
            ("get", "/page/{file}"): "its files have a hash in their names: see test_page.py",
            ("get", "/auth/launch"): "it needs a browser and a token: see test_auth.py",
            **{key: "one leads to the other: see below" for key in (
                ("delete", "/api/v1/mcp/log"), ("put", "/api/v1/mcp/profiles/{profile}"),
                ("delete", "/api/v1/mcp/profiles/{profile}"), ("put", "/api/v1/mcp/marks/{tool}"),
                ("get", "/api/v1/secrets/{secret}"), ("put", "/api/v1/secrets/{secret}"),
                ("delete", "/api/v1/secrets/{secret}"), ("post", "/api/v1/secrets/rotate"),
                ("post", "/api/v1/plugins"), ("delete", "/api/v1/plugins/{name}"),
                ("post", "/api/v1/plugins/{name}/upgrade"),
                ("post", "/api/v1/plugins/{name}/approve"),
                ("post", "/api/v1/plugins/{name}/promote"),
                ("get", "/api/v1/consents/{id}"), ("post", "/api/v1/consents/{id}/approve"),
                ("post", "/api/v1/consents/{id}/decline"), ("post", "/api/v1/projects"),
                ("get", "/api/v1/projects/{id}"), ("delete", "/api/v1/projects/{id}"),
                ("post", "/api/v1/projects/{id}/reload"), ("get", "/api/v1/projects/{id}/agents"),
                ("get", "/api/v1/projects/{id}/agents/{path}"),
                ("post", "/api/v1/projects/{id}/agents/{path}/plugins"),
                ("put", "/api/v1/scripts/{script}"), ("post", "/api/v1/mcp/found/{plugin}"),
                ("put", "/api/v1/plugins/{name}/knobs/{knob}"),
                ("get", "/api/v1/projects/{id}/sessions"),
                ("post", "/api/v1/projects/{id}/sessions"),
                ("get", "/api/v1/sessions/{id}"), ("delete", "/api/v1/sessions/{id}"),
                ("get", "/api/v1/sessions/{id}/entries"), ("get", "/api/v1/sessions/{id}/context"),
                ("post", "/api/v1/sessions/{id}/tools/{tool}"),
                ("get", "/api/v1/sessions/{id}/questions"),
                ("post", "/api/v1/sessions/{id}/questions/{question}"),
                ("get", "/api/v1/sessions/{id}/commands"),
                ("post", "/api/v1/sessions/{id}/commands/{name}"),
                *(("post", "/api/v1/sessions/{id}/" + action) for action in (
                    "messages", "runs", "idle", "compact", "undo-compact", "pin", "fork", "resume",
                    "undo", "redo", "rewind", "cancel")))}}
WRONG = {"integer": "one", "boolean": "maybe"}


def table_routes():
    """(method, pattern) of each row of the table, as its source has them."""
    with open(os.path.join(ROOT, "src/http/routes.c")) as source:
        text = source.read()
    rows = text[text.index("const struct http_route http_routes[]"):]
    return {(method.lower(), pattern)
            for method, pattern in re.findall(r'\{"([A-Z]+)",\s+"(/[^"]*)"', rows)}


def operations(document):
    return {(method, path): operation for path, methods in document["paths"].items()
            for method, operation in methods.items()}


def strict(schema):
    """The schema, with every member that it does not name refused."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    if "properties" in made and "additionalProperties" not in made:
        made["unevaluatedProperties"] = False
    return made


class OpenApi(FlowTest):
    plugins = ["declares-all"]
    config = {"limits.http_body_bytes": 5000, "daemon.bind": "127.0.0.1:0",
              "auth.failures_per_min": 100_000}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        status, cls.document = cls.daemon.api("GET", "/openapi.json")
        assert status == 200
        cls.operations = operations(cls.document)

    def resolve(self, node):
        while "$ref" in node:
            place = self.document
            for part in node["$ref"].removeprefix("#/").split("/"):
                place = place[part]
            node = place
        return node

    def fits(self, schema, instance):
        """Asks our own checker. An alternative or a summary is open for what stands around it."""
        summaries = ("PluginSummary", "Storage", "StorageRows", "Token", "ConsentSummary",
                     "ProjectFacts")
        components = {name: strict(part) if name not in summaries else part
                      for name, part in self.document["components"]["schemas"].items()}
        line = json.dumps({"schema": {**schema, "components": {"schemas": components}},
                           "instance": instance})
        done = subprocess.run([KAGED, "schema", "check", "--lines"], input=line + "\n", text=True,
                              capture_output=True, env=self.daemon.environment())
        return done.stdout.strip() == "true"

    def url(self, path, **query):
        for name, value in NAMES.items():
            path = path.replace("{" + name + "}", value)
        return path + ("?" + urllib.parse.urlencode(query) if query else "")

    @staticmethod
    def has_free_query(operation):
        return any(parameter.get("style") == "form" for parameter in operation["parameters"])

    @staticmethod
    def good_status(operation):
        return next(int(status) for status, answer in operation["responses"].items()
                    if "$ref" not in answer)

    def check(self, operation, status, body):
        answers = operation["responses"]
        self.assertIn(str(status), answers, body)
        content = self.resolve(answers[str(status)]).get("content", {})
        if "application/json" not in content:
            return
        schema = content["application/json"]["schema"]
        self.assertTrue(self.fits(schema, json.loads(body)), f"{schema}: {body.decode()}")

    def make_token(self, name, scope):
        status, made = self.daemon.api("POST", "/tokens", {"name": name, "scopes": [scope]})
        self.assertEqual(status, 201, made)
        return made["token"]

    def by_tcp(self, method, path, token=None, **query):
        """(status, body), and the connection is the request's own."""
        connection = http.client.HTTPConnection(self.daemon.api("GET", "/status")[1]["tcp"],
                                                timeout=60)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        with contextlib.closing(connection):
            connection.request(method.upper(), self.url(path, **query), headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def test_every_route_of_the_table_is_in_it_and_no_other(self):
        self.assertEqual(set(self.operations), table_routes())

    def test_every_operation_has_a_name_of_its_own_and_an_answer(self):
        names = [operation["operationId"] for operation in self.operations.values()]
        self.assertEqual(len(names), len(set(names)))
        self.assertNotIn(None, names)
        for (method, path), operation in self.operations.items():
            with self.subTest(f"{method} {path}"):
                good = [(status, answer) for status, answer in operation["responses"].items()
                        if "$ref" not in answer]
                self.assertEqual(len(good), 1)
                status, answer = good[0]
                if status[0] == "2" and status != "204":
                    self.assertIn("content", answer)

    def test_every_reference_leads_somewhere(self):
        for reference in re.findall(r'"\$ref": "([^"]*)"', json.dumps(self.document)):
            self.assertTrue(self.resolve({"$ref": reference}) is not None, reference)

    def test_its_schemas_are_schemas(self):
        for name in self.document["components"]["schemas"]:
            with self.subTest(name):
                schema = {"$ref": f"#/components/schemas/{name}",
                          "components": self.document["components"]}
                line = json.dumps({"schema": schema, "instance": None}) + "\n"
                done = subprocess.run([KAGED, "schema", "check", "--lines"], input=line, text=True,
                                      capture_output=True, env=self.daemon.environment())
                self.assertIn(done.stdout.strip(), ("true", "false"), done.stderr)

    def test_what_it_does_not_name_does_not_fit(self):
        health = {"$ref": "#/components/schemas/Health"}
        self.assertTrue(self.fits(health, {"status": "ok"}))
        for other in ({"status": "well"}, {"status": "ok", "more": 1}, {}, None):
            self.assertFalse(self.fits(health, other), other)

    def test_every_path_parameter_is_declared(self):
        for (method, path), operation in self.operations.items():
            declared = {parameter["name"] for parameter in map(self.resolve, operation["parameters"])
                        if parameter["in"] == "path"}
            self.assertEqual(declared, set(re.findall(r"\{(\w+)\}", path)), path)

    def test_permissions_are_scopes(self):
        scopes = set(self.document["components"]["schemas"]["Scope"]["enum"])
        for operation in self.operations.values():
            for way in operation["security"]:
                self.assertTrue(set(*way.values()) <= scopes, operation["security"])
        self.assertEqual(self.operations["get", "/healthz"]["security"], [])

    def test_every_route_answers_as_it_says(self):
        self.daemon.call("declares-all", "all.store", {"text": "x"})
        self.make_token("to-be-revoked", "audit:read")
        for key in self.operations.keys() - LEFT_OUT.keys():
            if key[1].startswith(("/api/orgs", "/api/admin", "/api/chat")):
                continue  # each with every role: see test_catalog.py
            with self.subTest(" ".join(key)):
                self.daemon.wait_state("declares-all", "running")
                method, path = key
                operation = self.operations[key]
                body = BODIES.get(key, "{}") if "requestBody" in operation else None
                status, answer = self.daemon.raw(method.upper(), self.url(path), body)
                self.assertEqual(status, REFUSED.get(key, self.good_status(operation)), answer)
                self.check(operation, status, answer)
                self.daemon.act("declares-all", "enable")

    def ask(self, daemon, method, route, body=None, query="", **names):
        place = route.format(**names) + query
        status, answer = daemon.raw(method.upper(), place, body and json.dumps(body))
        operation = self.operations[method, route]
        self.assertEqual(status, self.good_status(operation), answer)
        self.check(operation, status, answer)
        return json.loads(answer)

    def test_projects_answer_as_they_say(self):
        project = ("version: 1\nname: music\nprimary:\n  compaction: { threshold: 0.5 }\n  plugins:\n"
                   "    mine: { package: declares-all, config: { turns: 7 } }\n"
                   "    gone: { package: gone, version: ^1, source: ./gone }\n")
        with Daemon(["declares-all"]) as daemon:
            root = daemon.write_project("music", project)
            loaded = self.ask(daemon, "post", "/api/v1/projects", {"path": root})
            self.assertEqual((loaded["state"], loaded["missing"][0]["package"]), ("pending", "gone"))
            daemon.write_project("music", project.replace("7", "8"))
            again = self.ask(daemon, "post", "/api/v1/projects/{id}/reload", id="music")
            self.assertEqual(again["changes"][0]["what"], "turns")
            for path in ("", "/agents", "/agents/{path}"):
                self.ask(daemon, "get", "/api/v1/projects/{id}" + path, id="music", path="primary")
            self.ask(daemon, "get", "/api/v1/projects/{id}/agents/{path}", query="?tools=openai",
                     id="music", path="primary")
            self.ask(daemon, "get", "/api/v1/projects")
            self.ask(daemon, "get", "/api/v1/plugins/{name}/knobs", query="?project=music",
                     name="declares-all")
            knob = self.ask(daemon, "put", "/api/v1/plugins/{name}/knobs/{knob}", {"value": 9},
                            "?project=music", name="declares-all", knob="turns")
            self.assertEqual(knob["value"], 9)
            added = self.ask(daemon, "post", "/api/v1/projects/{id}/agents/{path}/plugins", {"plugin": "other"},
                             id="music", path="primary")
            self.assertIn("other", [plugin["package"] for plugin in added["agents"][0]["plugins"]])
            for wrong, status in (({"plugin": "other"}, 409), ({"plugin": "no such/name"}, 422), ({"plugin": ""}, 400)):
                answer = daemon.raw("POST", "/api/v1/projects/music/agents/primary/plugins", json.dumps(wrong))
                self.assertEqual(answer[0], status, answer)
            for place in ("music/agents/nobody", "nowhere/agents/primary"):
                self.assertEqual(daemon.raw("POST", f"/api/v1/projects/{place}/plugins", '{"plugin": "x"}')[0], 404)
            daemon.write_project("music", "nonsense: 1\n")
            status, answer = daemon.raw("POST", "/api/v1/projects", json.dumps({"path": root}))
            self.assertEqual((status, len(json.loads(answer)["error"]["problems"])), (422, 4))
            self.check(self.operations["post", "/api/v1/projects"], status, answer)
            self.ask(daemon, "get", "/api/v1/projects/{id}", id="music")
            self.ask(daemon, "delete", "/api/v1/projects/{id}", id="music")

    def test_secrets_answer_as_they_say(self):
        one = "/api/v1/secrets/{secret}"
        with Daemon() as daemon:
            made = self.ask(daemon, "put", one, {"value": "a secret value"}, secret="mine")
            self.assertEqual((made["source"], made["redacted"]), ("sealed", True))
            self.ask(daemon, "get", one, secret="mine")
            self.ask(daemon, "post", "/api/v1/secrets/rotate")
            self.assertEqual(len(self.ask(daemon, "get", "/api/v1/secrets")["secrets"]), 1)
            self.ask(daemon, "delete", one, secret="mine")

    def test_profiles_of_mcp_clients_answer_as_they_say(self):
        one = "/api/v1/mcp/profiles/{profile}"
        with Daemon(["declares-all"]) as daemon:
            self.ask(daemon, "put", one, {"tools": ["declares-all"]}, profile="mine")
            self.ask(daemon, "put", "/api/v1/mcp/marks/{tool}", {"read_only": True},
                     tool="declares-all.recall")
            listed = self.ask(daemon, "get", "/api/v1/mcp/profiles")
            self.assertEqual((len(listed["profiles"]), len(listed["marks"])), (1, 1))
            self.ask(daemon, "delete", one, profile="mine")
            self.ask(daemon, "put", "/api/v1/scripts/{script}", {"source": "-- nothing"}, script="mine")
            status, answer = daemon.raw("POST", "/api/v1/mcp/found/nobody")
            self.assertEqual(status, 404)
            self.check(self.operations["post", "/api/v1/mcp/found/{plugin}"], status, answer)
            self.assertEqual(daemon.raw("DELETE", "/api/v1/mcp/log")[0], 204)

    def test_sessions_answer_as_they_say(self):
        one = "/api/v1/sessions/{id}"
        with Daemon(["declares-all"]) as daemon:
            root = daemon.write_project("music", "version: 1\nname: music\nprimary:\n  plugins:\n"
                                        "    all: { package: declares-all }\n")
            self.ask(daemon, "post", "/api/v1/projects", {"path": root})
            made = self.ask(daemon, "post", "/api/v1/projects/{id}/sessions", {}, id="music")["id"]

            def act(method, path, body=None, query=""):
                return self.ask(daemon, method, one + path, body, query, id=made,
                                tool="declares-all.recall")

            said = act("post", "/messages", {"messages": [
                {"role": "user" if i % 2 == 0 else "assistant", "content": f"{i}"} for i in range(9)]})
            for arguments in ({"query": "x"}, {"query": 7}):
                act("post", "/tools/{tool}", arguments)
            act("post", "/pin", {"entry": said["added"][3]["id"]})
            act("post", "/compact", {"keep_recent": 1})
            act("get", "/context", query="?tools=openai")
            act("get", "/entries", query="?limit=100")
            act("post", "/undo-compact")
            act("post", "/compact", {"strategy": "checkpoint"})
            act("post", "/resume")
            act("post", "/idle")
            act("post", "/fork")
            act("post", "/undo", {"dry_run": True})
            act("post", "/undo")
            act("post", "/redo")
            act("post", "/rewind", {"entry": said["added"][1]["id"]})
            act("post", "/cancel")
            act("get", "/questions", query="?all=true")
            act("get", "/commands")
            status, answer = daemon.raw("POST", (one + "/commands/none").format(id=made), "{}")
            self.assertEqual(status, 404)
            self.check(self.operations["post", one + "/commands/{name}"], status, answer)
            status, answer = daemon.raw("POST", (one + "/runs").format(id=made), '{"text": "hi"}')
            self.assertNotEqual(status, 200)  # no model is known here
            self.check(self.operations["post", one + "/runs"], status, answer)
            for path in ("/api/v1/projects/{id}/sessions", "/api/v1/sessions"):
                self.ask(daemon, "get", path, id="music")
            act("get", "")
            act("delete", "")

    def test_installing_answers_as_it_says(self):
        ask = self.ask

        def show(daemon, consent, state):
            return wait_for(lambda: (lambda it: it["state"] == state and it)(
                ask(daemon, "get", "/api/v1/consents/{id}", id=consent["id"])), state)

        source = {"source": os.path.join(PLUGINS, "with-schemas")}
        with Daemon() as daemon:
            for path, body in (("/api/v1/plugins", source),
                               ("/api/v1/plugins/{name}/upgrade", source),
                               ("/api/v1/plugins/{name}/approve", None)):
                consent = ask(daemon, "post", path, body, name="with-schemas")
                offer = show(daemon, consent, "offered")["offer"]
                ask(daemon, "post", "/api/v1/consents/{id}/approve", {"hash": offer["hash"]},
                    id=consent["id"])
                show(daemon, consent, "done")
            wrong = ask(daemon, "post", "/api/v1/plugins", {"source": PLUGINS})
            show(daemon, wrong, "failed")
            declined = ask(daemon, "post", "/api/v1/plugins", source)
            ask(daemon, "post", "/api/v1/consents/{id}/decline", id=declined["id"])
            ask(daemon, "get", "/api/v1/consents")
            local = os.path.join(daemon.home, "local.toml")
            with open(local) as file:
                text = file.read()
            with open(local, "w") as file:
                file.write(text.replace("local = true", "local = false"))
            ask(daemon, "post", "/api/v1/plugins/{name}/promote", name="with-schemas")
            ask(daemon, "delete", "/api/v1/plugins/{name}", name="with-schemas")

    def test_every_route_refuses_who_is_nobody_or_may_not(self):
        tokens = {scope: self.make_token(f"only-{scope.replace(':', '-')}", scope)
                  for scope in ("plugins:read", "audit:read")}
        for (method, path), operation in self.operations.items():
            with self.subTest(f"{method} {path}"):
                if operation["security"] == []:
                    self.assertNotIn(self.by_tcp(method, path)[0], (401, 403))
                    continue
                status, answer = self.by_tcp(method, path)
                self.assertEqual(status, 401, answer)
                self.check(operation, status, answer)
                needed = operation["security"][0]["token"]
                for scope, token in tokens.items():
                    if needed in ([], [scope]):
                        continue
                    status, answer = self.by_tcp(method, path, token)
                    self.assertEqual(status, 403, answer)
                    self.check(operation, status, answer)

    def test_every_route_lets_in_who_may(self):
        scopes = {operation["security"][0]["token"][0] for operation in self.operations.values()
                  if operation["security"] and operation["security"][0]["token"]}
        tokens = {scope: self.make_token(f"may-{scope.replace(':', '-')}", scope)
                  for scope in scopes}
        for (method, path), operation in self.operations.items():
            if self.has_free_query(operation) or not operation["security"]:
                continue
            for scope in operation["security"][0]["token"]:
                with self.subTest(f"{method} {path}"):
                    # Past the door the next check refuses this one, so that nothing happens.
                    status, answer = self.by_tcp(method, path, tokens[scope], nonsense="1")
                    self.assertEqual(status, 400, answer)

    def test_stop_answers_as_it_says(self):
        with Daemon() as daemon:
            daemon.remember()
            status, answer = daemon.raw("POST", "/api/v1/stop")
            self.assertEqual(status, 202)
            self.check(self.operations["post", "/api/v1/stop"], status, answer)
            daemon.process.wait(60)
            daemon.check_end()

    def test_other_answers_of_a_route_fit_as_well(self):
        self.daemon.call("declares-all", "all.store", {"text": "x"})
        wait_for(lambda: self.daemon.api("GET", "/plugins/declares-all/storage")[1]["tables"],
                 "a table")
        for path, query in (("/api/v1/plugins/{name}", {"cage": "true"}),
                            ("/api/v1/plugins/{name}/storage", {"sql": "SELECT text FROM texts"}),
                            ("/api/v1/plugins/{name}/storage", {}),
                            ("/api/v1/audit", {"since": "1h", "limit": 5})):
            with self.subTest(f"{path} {query}"):
                status, answer = self.daemon.raw("GET", self.url(path, **query))
                self.assertEqual(status, 200, answer)
                self.check(self.operations["get", path], status, answer)

    def test_crashed_and_invalid_plugins_fit_as_well(self):
        with Daemon(["crash-at-start", "takes-config"], {"limits.restart_failures": 1}) as daemon:
            daemon.wait_state("crash-at-start", "failed")
            for path in ("/api/v1/plugins", "/api/v1/plugins/crash-at-start",
                         "/api/v1/plugins/takes-config"):
                status, answer = daemon.raw("GET", path)
                pattern = re.sub("/[a-z]+-[a-z-]+$", "/{name}", path)
                self.check(self.operations["get", pattern], status, answer)

    def test_missing_plugin_is_an_error_of_the_shape(self):
        for (method, path), operation in self.operations.items():
            if "{name}" not in path:
                continue
            with self.subTest(f"{method} {path}"):
                body = BODIES.get((method, path), "{}") if "requestBody" in operation else None
                status, answer = self.daemon.raw(
                    method.upper(), self.url(path.replace("{name}", "nobody")), body)
                self.assertEqual(status, 404)
                self.check(operation, status, answer)

    def test_unknown_parameter_is_refused(self):
        for (method, path), operation in self.operations.items():
            if self.has_free_query(operation):
                continue
            with self.subTest(f"{method} {path}"):
                status, answer = self.daemon.raw(method.upper(), self.url(path, nonsense="1"))
                self.assertEqual(status, 400, answer)
                self.check(operation, status, answer)

    def test_parameter_of_the_wrong_type_is_refused(self):
        tried = 0
        for (method, path), operation in self.operations.items():
            for parameter in map(self.resolve, operation["parameters"]):
                schema = parameter["schema"]
                wrong = "nonsense" if "enum" in schema else WRONG.get(schema.get("type"))
                if parameter["in"] == "path" or wrong is None:
                    continue
                tried += 1
                with self.subTest(f"{method} {path} {parameter['name']}"):
                    query = {parameter["name"]: wrong} if parameter["in"] == "query" else {}
                    headers = {parameter["name"]: wrong} if parameter["in"] == "header" else {}
                    status, answer = self.daemon.raw(method.upper(), self.url(path, **query),
                                                     headers=headers)
                    self.assertEqual(status, 400, answer)
                    self.check(operation, status, answer)
        self.assertGreater(tried, 5)

    def test_unknown_key_of_a_body_is_refused_with_its_name(self):
        tried = 0
        for (method, path), operation in self.operations.items():
            content = operation.get("requestBody", {}).get("content", {})
            schema = self.resolve(content.get("application/json", {}).get("schema", {}))
            if "properties" not in schema:
                continue  # its bytes are passed on
            self.assertIs(schema["additionalProperties"], False, path)
            tried += 1
            with self.subTest(f"{method} {path}"):
                near = next(iter(schema["properties"])) + "s"
                for key in (near, "nonsense"):
                    status, answer = self.daemon.raw(method.upper(), self.url(path),
                                                     json.dumps({key: 1}))
                    flat = path.startswith(("/api/orgs", "/api/admin", "/api/chat"))
                    self.assertEqual(status, 422 if flat else 400, answer)
                    self.check(operation, status, answer)
                    error = json.loads(answer) if flat else json.loads(answer)["error"]
                    self.assertEqual(error["code"], "VA-9001" if flat else "usage")
                    self.assertIn(f'unknown property "{key}"', error["message"])
        self.assertGreater(tried, 10)

    def test_number_below_its_least_is_refused(self):
        for path, headers in (("/api/v1/audit?limit=-1", {}),
                              ("/api/v1/plugins/declares-all/logs?after=-1", {}),
                              ("/api/v1/plugins/declares-all/call/all.config",
                               {"Kaged-Timeout-Ms": "0"})):
            status, answer = self.daemon.raw("GET", path, headers=headers)
            self.assertEqual(status, 400, answer)

    def test_time_that_is_none_is_refused_with_a_hint(self):
        status, answer = self.daemon.api("GET", "/audit?since=yesterday")
        self.assertEqual(status, 400)
        self.assertIn("15m", answer["error"]["hint"])

    def test_body_that_is_too_large_is_refused(self):
        for (method, path), operation in self.operations.items():
            media = operation.get("requestBody", {}).get("content", {})
            if method == "get" or "multipart/form-data" in media:  # uploads have a bound of their own
                continue
            with self.subTest(f"{method} {path}"):
                status, answer = self.daemon.raw(method.upper(), self.url(path), "x" * 40_000)
                self.assertEqual(status, 413 if "requestBody" in operation else 400, answer)
                self.check(operation, status, answer)

    def test_wrong_method_is_refused(self):
        for path in {path for _, path in self.operations}:
            with self.subTest(path):
                status, answer = self.daemon.raw("LOCK", self.url(path))
                self.assertEqual(status, 405)
                flat = "Flat" if path.startswith(("/api/orgs", "/api/admin", "/api/chat")) else ""
                self.assertTrue(self.fits({"$ref": f"#/components/schemas/{flat}Error"},
                                          json.loads(answer)), answer)


class Declared(FlowTest):
    """What a plugin declares, by the API and the commands."""
    plugins = ["declares-all", "good-c"]

    def test_tools(self):
        status, answer = self.daemon.api("GET", "/plugins/declares-all/tools")
        recall, forget = answer["tools"]
        self.assertEqual((status, recall["full_name"]), (200, "declares-all.recall"))
        self.assertEqual(recall["parameters_schema"]["required"], ["query"])
        self.assertIsNone(forget["parameters_schema"])
        code, out, err = self.daemon.cli("plugin", "tools", "declares-all")
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"declares-all\.recall +query \[limit\] +Finds")

    def test_knobs_have_the_value_that_holds(self):
        self.daemon.write_local('[plugins.declares-all]\napi_token = "5ecret"\n'
                                '[plugins.declares-all.config]\nbudget = "high"\n')
        self.assertEqual(self.daemon.api("POST", "/reload")[0], 200)
        status, answer = self.daemon.api("GET", "/plugins/declares-all/knobs")
        self.assertEqual(status, 200)
        self.assertEqual([(knob["name"], knob["type"], knob["value"], knob["default"])
                          for knob in answer["knobs"]],
                         [("budget", "enum", "high", "mid"), ("turns", "int_range", 5, 5)])
        code, out, err = self.daemon.cli("plugin", "knobs", "declares-all")
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r'budget +enum +"high" +"mid" +Budget')
        self.assertNotIn("5ecret", out + json.dumps(answer))

    def test_secret_in_the_place_of_a_setting_is_not_shown(self):
        # The operator's own side may hold a name of the other one: its value is a secret there.
        self.daemon.write_local('[plugins.declares-all]\nturns = 13\n')
        self.daemon.api("POST", "/reload")
        knobs = self.daemon.api("GET", "/plugins/declares-all/knobs")[1]["knobs"]
        self.assertEqual([knob["value"] for knob in knobs], ["mid", 5])

    def test_schema(self):
        status, answer = self.daemon.api("GET", "/plugins/declares-all/schema")
        self.assertEqual(status, 200)
        self.assertEqual(answer["config_schema"]["properties"]["turns"]["maximum"], 20)
        methods = {method["name"]: method for method in answer["methods"]}
        self.assertEqual(list(methods["all.store"]["params"]["properties"]), ["text"])
        self.assertEqual((methods["all.fail"]["params"], methods["all.store"]["result"]),
                         (None, None))

    def test_plugin_that_declares_nothing_says_so(self):
        for what in ("tools", "knobs"):
            code, out, err = self.daemon.cli("plugin", what, "good-c")
            self.assertEqual((code, out), (0, ""))
            self.assertIn(f"no {what}", err)


if __name__ == "__main__":
    main()
