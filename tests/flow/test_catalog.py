"""The catalog: orgs, members and roles; every route with every role, across two orgs."""
# also on PostgreSQL
import http.client
import json

from harness import Daemon, FlowTest, main

FREE_PORT = {"daemon.bind": "127.0.0.1:0", "auth.failures_per_min": 100_000}


class Client:
    """Over TCP, with a token or without."""

    def __init__(self, daemon, headers=None):
        self.address = daemon.api("GET", "/status")[1]["tcp"]
        self.headers = headers or {}

    def ask(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection(self.address, timeout=60)
        try:
            text = None if body is None else json.dumps(body)
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, text, {**self.headers, **named})
            response = connection.getresponse()
            answer = response.read()
            return response.status, json.loads(answer) if answer else None
        finally:
            connection.close()


class World:
    """Two orgs with an admin and a member each, a system admin, and a client for everybody."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.orgs = {}
        for name, domain in (("acme", "acme.example"), ("other", "other.example")):
            status, org = self.operator("POST", "/api/admin/orgs", {"name": name, "domain": domain})
            assert status == 201, org
            self.orgs[name] = org["org_id"]
            for user, is_admin in ((f"{name}-admin", True), (f"{name}-member", False)):
                status, made = self.operator("POST", f"/api/orgs/{name}/members",
                                             {"user": user, "is_admin": is_admin})
                assert status == 201, made
        status, made = self.operator("POST", "/api/admin/users", {"name": "root", "is_sys_admin": True})
        assert status == 201, made
        self.clients = {"nobody": Client(daemon)}
        for user in ("root", "acme-admin", "acme-member", "other-admin", "other-member"):
            self.clients[user] = self.client(user)

    def operator(self, method, path, body=None):
        status, answer = self.daemon.raw(method, path, None if body is None else json.dumps(body))
        return status, json.loads(answer) if answer else None

    def client(self, user, **wish):
        status, made = self.daemon.api("POST", "/tokens", {"name": user + str(len(wish)), "user": user, **wish})
        assert status == 201, made
        return Client(self.daemon, {"Authorization": "Bearer " + made["token"]})


# Each route of the org acme, a body that it takes, and the status for: the system's admin, the org's admin, its
# member. Nobody is 401; whoever is in the other org only is 404 below /api/orgs, and 403 below /api/admin.
ROLES = ("root", "acme-admin", "acme-member")
TABLE = [
    ("GET", "/api/orgs/{org}", None, (200, 200, 200)),
    ("PATCH", "/api/orgs/{org}/profile", {"description": "makes things"}, (200, 200, 403)),
    ("GET", "/api/orgs/{org}/users", None, (200, 200, 403)),
    ("POST", "/api/orgs/{org}/members", {"user": "acme-admin"}, (409, 409, 403)),
    ("PATCH", "/api/orgs/{org}/users/acme-member/membership", {"is_admin": False}, (200, 200, 403)),
    ("DELETE", "/api/orgs/{org}/users/stranger", None, (404, 404, 403)),
    ("GET", "/api/orgs/{org}/settings", None, (200, 200, 403)),
    ("POST", "/api/orgs/{org}/settings", {"colour": "blue"}, (200, 200, 403)),
    ("GET", "/api/orgs/{org}/quota", None, (200, 200, 403)),
    ("GET", "/api/orgs/{org}/plugins", None, (200, 200, 403)),
    ("POST", "/api/orgs/{org}/plugins/upload", {}, (400, 400, 403)),
    ("GET", "/api/orgs/{org}/plugins/{pid}/versions", None, (404, 404, 403)),
    ("GET", "/api/orgs/{org}/plugins/{pid}/settings-schema", None, (404, 404, 403)),
    ("GET", "/api/orgs/{org}/plugins/{pid}/settings", None, (404, 404, 403)),
    ("PATCH", "/api/orgs/{org}/plugins/{pid}/settings", {"settings": {"a": 1}}, (404, 404, 403)),
    ("GET", "/api/orgs/{org}/plugins/{pid}/grants", None, (404, 404, 403)),
    ("POST", "/api/orgs/{org}/plugins/{pid}/grants", {"capability": "net:example.com:443"}, (403, 403, 403)),
    ("DELETE", "/api/orgs/{org}/plugins/{pid}/grants", None, (422, 422, 403)),
    ("GET", "/api/orgs/{org}/plugins/{plugin_id}", None, (404, 404, 403)),
    ("GET", "/api/orgs/{org}/plugins/{plugin_id}/download", None, (404, 404, 403)),
    ("PATCH", "/api/orgs/{org}/plugins/{plugin_id}", {"enabled": True}, (404, 404, 403)),
    ("DELETE", "/api/orgs/{org}/plugins/{plugin_id}", None, (404, 404, 403)),
    ("GET", "/api/orgs/{org}/orchestrators", None, (200, 200, 200)),
    ("POST", "/api/orgs/{org}/orchestrators", {}, (422, 422, 403)),
    ("GET", "/api/orgs/{org}/orchestrators/{instance_id}", None, (404, 404, 404)),
    ("PATCH", "/api/orgs/{org}/orchestrators/{instance_id}", {"whoami": "x"}, (404, 404, 403)),
    ("DELETE", "/api/orgs/{org}/orchestrators/{instance_id}", None, (404, 404, 403)),
    ("PATCH", "/api/orgs/{org}/orchestrators/{instance_id}/config", {"config": {}}, (404, 404, 403)),
    ("PATCH", "/api/orgs/{org}/orchestrators/{instance_id}/plugin-settings",
     {"plugin_settings": {"com.example.none": {"settings": {}}}}, (404, 404, 403)),
    ("POST", "/api/orgs/{org}/orchestrators/{instance_id}/plugin-settings/activate",
     {"pid": "com.example.none", "version": "1.0"}, (404, 404, 403)),
    ("POST", "/api/orgs/{org}/orchestrators/{instance_id}/load", None, (404, 404, 403)),
    ("POST", "/api/orgs/{org}/orchestrators/{instance_id}/reload", None, (404, 404, 403)),
    ("POST", "/api/orgs/{org}/orchestrators/{instance_id}/unload", None, (404, 404, 403)),
    ("GET", "/api/orgs/{org}/llm-configs", None, (200, 200, 403)),
    ("POST", "/api/orgs/{org}/llm-configs", {"name": "x", "provider": "local", "model": "none"}, (422, 422, 403)),
    ("GET", "/api/orgs/{org}/llm-configs/{llm_config_id}", None, (404, 404, 403)),
    ("PATCH", "/api/orgs/{org}/llm-configs/{llm_config_id}", {"name": "x"}, (404, 404, 403)),
    ("DELETE", "/api/orgs/{org}/llm-configs/{llm_config_id}", None, (404, 404, 403)),
    ("GET", "/api/admin/plugins", None, (200, 403, 403)),
    ("POST", "/api/admin/plugins/upload", {}, (400, 403, 403)),
    ("GET", "/api/admin/plugins/{pid}/versions", None, (404, 403, 403)),
    ("GET", "/api/admin/plugins/{plugin_id}", None, (404, 403, 403)),
    ("GET", "/api/admin/plugins/{plugin_id}/download", None, (404, 403, 403)),
    ("PATCH", "/api/admin/plugins/{plugin_id}", {"enabled": True}, (404, 403, 403)),
    ("DELETE", "/api/admin/plugins/{plugin_id}", None, (404, 403, 403)),
    ("POST", "/api/admin/catalog/rotate", None, (200, 403, 403)),
    ("GET", "/api/admin/orgs", None, (200, 403, 403)),
    ("POST", "/api/admin/orgs", {"name": "acme"}, (409, 403, 403)),
    ("GET", "/api/admin/orgs/{org}", None, (200, 403, 403)),
    ("PATCH", "/api/admin/orgs/{org}", {"quota": {"max_members": 3}}, (200, 403, 403)),
    ("GET", "/api/admin/orgs/{org}/quota", None, (200, 403, 403)),
    ("GET", "/api/admin/users", None, (200, 403, 403)),
    ("POST", "/api/admin/users", {"name": "acme-admin"}, (409, 403, 403)),
    ("PATCH", "/api/admin/users/acme-member", {"email": "m@acme.example"}, (200, 403, 403)),
]


class Orgs(FlowTest):
    plugins = []
    config = FREE_PORT

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.world = World(cls.daemon)

    def ask(self, who, *request, **headers):
        return self.world.clients[who].ask(*request, **headers)

    def assert_flat(self, answer, status, code):
        self.assertEqual(answer[0], status, answer)
        self.assertEqual((answer[1]["code"], set(answer[1]) <= {"code", "message", "details"}), (code, True), answer)

    def test_every_route_with_every_role_across_two_orgs(self):
        for method, pattern, body, expected in TABLE:
            path = pattern.format(org=self.world.orgs["acme"], pid="com.example.none", plugin_id="none",
                                  llm_config_id="none", instance_id="none")
            outside = 404 if path.startswith("/api/orgs/") else 403
            wanted = dict(zip(ROLES, expected), nobody=401)
            for stranger in ("other-admin", "other-member"):
                wanted[stranger] = outside
            for who, status in wanted.items():
                with self.subTest(f"{who}: {method} {pattern}"):
                    answer = self.ask(who, method, path, body)
                    self.assertEqual(answer[0], status, answer)
                    if status >= 400:
                        self.assertRegex(answer[1]["code"], "^[A-Z]{2}-[0-9]{4}$")

    def test_the_table_has_every_route_of_the_trees(self):
        document = self.daemon.api("GET", "/openapi.json")[1]
        there = {(method.upper(), path.replace("{org_id}", "{org}")) for path, methods in document["paths"].items()
                 for method in methods if path.startswith(("/api/orgs/", "/api/admin/"))}
        walked = {(method, path.replace("acme-member", "{user_id}").replace("stranger", "{user_id}"))
                  for method, path, _, _ in TABLE}
        self.assertEqual(there, walked)

    def test_an_org_that_is_anothers_reads_like_one_that_is_not(self):
        theirs, none = self.world.orgs["other"], "00000000-0000-7000-8000-000000000000"
        answers = []
        for org in (theirs, none):
            answer = self.ask("acme-admin", "GET", f"/api/orgs/{org}")
            self.assert_flat(answer, 404, "RE-0001")
            answers.append(json.dumps(answer[1]).replace(org, "ORG"))
        self.assertEqual(*answers)

    def test_each_sees_his_own_orgs(self):
        for who, names in (("acme-member", {"acme"}), ("other-admin", {"other"}), ("root", {"acme", "other"})):
            orgs = self.ask(who, "GET", "/api/orgs")[1]["orgs"]
            self.assertTrue(names <= {org["name"] for org in orgs}, orgs)
            if who != "root":
                self.assertEqual({org["name"] for org in orgs}, names)

    def test_a_token_of_a_user_opens_nothing_else(self):
        for path in ("/api/v1/plugins", "/api/v1/tokens", "/api/v1/audit", "/api/v1/secrets"):
            for who in ("root", "acme-admin"):
                self.assertEqual(self.ask(who, "GET", path)[0], 403, (who, path))

    def test_a_token_can_have_less_than_its_owner(self):
        client = self.world.client("acme-admin", scopes=["cadence:org:read"])
        self.assertEqual(client.ask("GET", "/api/orgs/acme")[0], 200)
        self.assert_flat(client.ask("GET", "/api/orgs/acme/users"), 403, "AZ-0001")
        self.assertEqual(client.ask("GET", "/api/orgs/other")[0], 404)

    def test_x_api_key_is_a_token_too_but_not_besides_one(self):
        token = self.world.clients["acme-admin"].headers["Authorization"].removeprefix("Bearer ")
        client = Client(self.daemon)
        self.assertEqual(client.ask("GET", "/api/orgs/acme", X_API_KEY=token)[0], 200)
        self.assert_flat(client.ask("GET", "/api/orgs/acme", X_API_KEY="kgd_wrong"), 401, "AU-0001")
        self.assert_flat(client.ask("GET", "/api/orgs/acme", X_API_KEY=token, Authorization=f"Bearer {token}"),
                         401, "AU-0001")

    def test_bodies_that_do_not_fit_say_where(self):
        for body in ({"name": "UPPER"}, {"name": "x", "domain": "no dots"}, {"name": "x", "more": 1}, {},
                     {"name": "x", "quota": {"max_members": "many"}}):
            answer = self.ask("root", "POST", "/api/admin/orgs", body)
            self.assert_flat(answer, 422, "VA-9001")
            self.assertEqual(len(answer[1]["details"]["validation_errors"]), 1)

    def test_a_member_who_is_removed_is_out_at_once_and_an_admin_who_is_none_any_more_too(self):
        self.assertEqual(self.ask("root", "POST", "/api/orgs/other/members", {"user": "guest", "is_admin": True})[0], 201)
        guest = self.world.client("guest")
        self.assertEqual(guest.ask("GET", "/api/orgs/other/users")[0], 200)
        self.assertEqual(self.ask("other-admin", "PATCH", "/api/orgs/other/users/guest/membership",
                                  {"is_admin": False})[0], 200)
        self.assertEqual(guest.ask("GET", "/api/orgs/other/users")[0], 403)
        self.assertEqual(self.ask("other-admin", "DELETE", "/api/orgs/other/users/guest")[0], 200)
        self.assertEqual(guest.ask("GET", "/api/orgs/other")[0], 404)
        self.assertEqual(guest.ask("GET", "/api/orgs")[1]["orgs"], [])

    def test_quotas_bound_members(self):
        self.assertEqual(self.ask("root", "POST", "/api/admin/orgs", {"name": "small", "quota": {"max_members": 1}})[0],
                         201)
        self.assertEqual(self.ask("root", "POST", "/api/orgs/small/members", {"user": "first"})[0], 201)
        self.assert_flat(self.ask("root", "POST", "/api/orgs/small/members", {"user": "second"}), 409, "RE-0004")
        quota = self.ask("root", "GET", "/api/orgs/small/quota")[1]
        self.assertEqual((quota["quota"], quota["used"]["members"]), ({"max_members": 1}, 1))

    def test_quotas_bound_requests_of_members_within_a_minute(self):
        self.world.operator("POST", "/api/admin/orgs", {"name": "slow", "quota": {"rate_limit_rpm": 3}})
        self.world.operator("POST", "/api/orgs/slow/members", {"user": "sloth"})
        sloth = self.world.client("sloth")
        answers = [sloth.ask("GET", "/api/orgs/slow") for _ in range(8)]  # a minute may end in between, once
        self.assertEqual(answers[0][0], 200)
        status, told = next(answer for answer in answers if answer[0] != 200)
        self.assertEqual((status, told["code"]), (429, "RL-0001"), told)
        self.assertIn("the org slow may make 3 requests a minute", told["message"])
        self.assertIn("try again in", told["details"]["hint"])
        self.assertEqual(self.world.clients["root"].ask("GET", "/api/orgs/slow")[0], 200)
        self.assertEqual(self.world.clients["acme-member"].ask("GET", "/api/orgs/acme")[0], 200)
        self.world.operator("PATCH", "/api/admin/orgs/slow", {"quota": {"rate_limit_rpm": -1}})
        self.assertEqual({sloth.ask("GET", "/api/orgs/slow")[0] for _ in range(5)}, {200})

    def test_names_and_domains_are_one_orgs(self):
        for body in ({"name": "acme"}, {"name": "new", "domain": "ACME.example"}):
            self.assert_flat(self.ask("root", "POST", "/api/admin/orgs", body), 409, "RE-0002")

    def test_settings_are_merged_and_null_removes(self):
        path = "/api/orgs/other/settings"
        self.ask("other-admin", "POST", path, {"a": 1, "b": {"c": [2]}})
        self.ask("other-admin", "POST", path, {"a": None, "d": "x"})
        self.assertEqual(self.ask("other-admin", "GET", path)[1]["settings"], {"b": {"c": [2]}, "d": "x"})

    def test_an_org_that_is_not_active_is_closed_to_its_own_and_a_deleted_one_is_gone(self):
        self.ask("root", "POST", "/api/admin/orgs", {"name": "leaving"})
        self.ask("root", "POST", "/api/orgs/leaving/members", {"user": "leaver", "is_admin": True})
        leaver = self.world.client("leaver")
        self.assertEqual(leaver.ask("GET", "/api/orgs/leaving")[0], 200)
        self.ask("root", "PATCH", "/api/admin/orgs/leaving", {"status": "inactive"})
        self.assert_flat(leaver.ask("GET", "/api/orgs/leaving"), 403, "AZ-0001")
        self.ask("root", "PATCH", "/api/admin/orgs/leaving", {"is_deleted": True})
        self.assertEqual(leaver.ask("GET", "/api/orgs/leaving")[0], 404)
        self.assertEqual(self.ask("root", "GET", "/api/orgs/leaving")[0], 404)
        self.assertIn("leaving", [org["name"] for org in self.ask("root", "GET", "/api/admin/orgs")[1]["orgs"]])

    def test_changes_are_in_the_audit_log_with_org_and_who(self):
        self.ask("acme-admin", "POST", "/api/orgs/acme/settings", {"audited": True})
        last = self.daemon.audit("catalog.org_changed")[-1]
        self.assertEqual((last["org"], last["operator_id"]), (self.world.orgs["acme"], "acme-admin"))


class Kept(FlowTest):
    def test_orgs_members_and_tokens_outlive_the_daemon(self):
        with Daemon(config=FREE_PORT) as daemon:
            world = World(daemon)
            headers = world.clients["acme-admin"].headers
            world.operator("DELETE", "/api/orgs/acme/users/acme-member")
            daemon.stop()
            daemon.start()
            client = Client(daemon, headers)
            users = client.ask("GET", "/api/orgs/acme/users")[1]["users"]
            self.assertEqual([user["name"] for user in users], ["acme-admin"])
            self.assertEqual(client.ask("GET", "/api/orgs/other/users")[0], 404)


if __name__ == "__main__":
    main()
