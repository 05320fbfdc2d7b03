"""What an org sets of a package and lets it reach: checked, sealed, masked, kept from version to version."""
# also on PostgreSQL
import glob
import os
import unittest

from harness import ON_POSTGRES, main
from test_catalog import FREE_PORT
from test_catalog_packages import MANIFEST, PackageTest, archive, package

SECRET = "swordfish-in-a-barrel"


def second(pid, version):
    """The next version: volume became a text, and there is one more that is required."""
    text = MANIFEST.format(pid=pid, version=version, name="shout").replace(
        "type: int, description: How loud, default: 3", "type: str, description: How loud")
    return archive({"kaged-plugin.yaml": text + "    - {key: region, type: str, description: Where, required: true}\n",
                    "shout": "#!/bin/sh\n"})


class SettingsTest(PackageTest):
    config = {**FREE_PORT, "catalog.org_may.acme": ["net:api.example.com:443", "net:10.1.2.3:*"]}

    def settings(self, pid, who="acme-admin", org="acme", query=""):
        return self.ask(who, "GET", f"/api/orgs/{org}/plugins/{pid}/settings{query}")

    def set(self, pid, values, who="acme-admin", org="acme"):
        return self.ask(who, "PATCH", f"/api/orgs/{org}/plugins/{pid}/settings", {"settings": values})

    def values(self, *arguments, **named):
        answer = self.settings(*arguments, **named)[1]
        return {item["key"]: item["value"] for item in answer["settings"]}

    def grants(self, answer):
        self.assertEqual(answer[0], 200, answer)
        return [grant["capability"] for grant in answer[1]["grants"]]


@unittest.skipUnless(ON_POSTGRES, "kaged.db has no roles: see tests/run --long")
class Roles(SettingsTest):
    def test_work_for_an_org_is_done_as_a_role_that_sees_no_other(self):
        pid = "example.acme.roles"
        self.take(pid)
        self.daemon.rows("""CREATE TABLE spy (who text, org text); GRANT ALL ON spy TO PUBLIC;
            CREATE FUNCTION spy() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO kaged.spy VALUES (current_user, current_setting('kaged.org', true)); RETURN NEW; END $$;
            CREATE TRIGGER spy BEFORE INSERT OR UPDATE ON package_setting FOR EACH ROW EXECUTE FUNCTION spy()""")
        self.assertEqual(self.set(pid, {"volume": 7})[0], 200)
        self.assertEqual(self.daemon.rows("SELECT DISTINCT who, org FROM spy"),
                         [["kaged_org", self.world.orgs["acme"]]])


class Settings(SettingsTest):
    def test_values_are_set_masked_kept_and_taken_away(self):
        pid = "example.acme.values"
        self.take(pid)
        shown = self.settings(pid)[1]
        self.assertEqual((shown["missing"], shown["dropped"], shown["version"]), (["token"], [], "1.0.0"))
        status, shown = self.set(pid, {"token": SECRET, "volume": 7})
        self.assertEqual((status, shown["missing"]), (200, []), shown)
        self.assertEqual(self.values(pid), {"volume": 7, "token": "***MASKED***"})
        self.assertEqual(self.set(pid, {"token": "***MASKED***", "volume": None})[0], 200)
        self.assertEqual(self.values(pid), {"volume": None, "token": "***MASKED***"})
        self.assertEqual(self.set(pid, {"token": None})[1]["missing"], ["token"])

    def test_a_sensitive_value_is_nowhere_in_the_clear(self):
        pid = "example.acme.sealed"
        self.take(pid)
        self.set(pid, {"token": SECRET})
        for path in glob.glob(os.path.join(self.daemon.home, "**"), recursive=True):
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    self.assertNotIn(SECRET.encode(), file.read(), path)
        told = self.daemon.audit("catalog.settings_changed")[-1]
        self.assertEqual((told["org"], told["pid"], told["keys"], told["operator_id"]),
                         (self.world.orgs["acme"], pid, "token", "acme-admin"))
        key = os.stat(os.path.join(self.daemon.home, "state/catalog.key"))
        self.assertEqual(key.st_mode & 0o777, 0o600)

    def test_what_does_not_fit_is_refused_whole(self):
        pid = "example.acme.bad"
        self.take(pid)
        self.set(pid, {"volume": 1})
        for values, words in (({"volume": "loud"}, "its type is int"), ({"volume": True}, "its type is int"),
                              ({"volume": 2, "none": 1}, 'no setting "none"'), ({"token": 5}, "its type is str")):
            self.assert_refused(self.set(pid, values), 422, "VA-9001", words)
        for body in ({}, {"settings": {}}, {"settings": [1]}, {"settings": {"volume": 1}, "more": 1}):
            answer = self.ask("acme-admin", "PATCH", f"/api/orgs/acme/plugins/{pid}/settings", body)
            self.assertEqual((answer[0], answer[1]["code"]), (422, "VA-9001"), answer)
        self.assertEqual(self.values(pid)["volume"], 1)

    def test_a_schema_that_lies_is_refused_with_the_package(self):
        good = MANIFEST.format(pid="example.acme.lies", version="1.0.0", name="shout")
        for what, to in (("type: int", "type: str"), ("type: int", "type: bool"), ("default: 3", "default: three"),
                         ("default: 3", "default: [3]"), ("type: int", "type: integer"), ("key: volume", "key: token"),
                         ("required: true", "required: maybe"), ("sensitive: true", "sensitive: 1")):
            with self.subTest(f"{what} as {to}"):
                text = good.replace(what, to)
                self.assertNotEqual(text, good)
                answer = self.upload(archive({"kaged-plugin.yaml": text, "shout": "#!/bin/sh\n"}))
                self.assert_refused(answer, 400, "PL-0003", "Invalid plugin file")
        self.assertEqual(self.settings("example.acme.lies")[0], 404)

    def test_a_new_version_finds_what_fits_it_and_an_old_one_all_that_it_had(self):
        pid = "example.acme.carried"
        self.take(pid)
        self.set(pid, {"token": SECRET, "volume": 7})
        status, made = self.upload(second(pid, "2.0.0"))
        self.assertEqual(status, 201, made)
        self.assertTrue(made["warnings"][-1].startswith("setting volume: "), made)
        shown = self.settings(pid)[1]
        self.assertEqual((shown["version"], shown["missing"], shown["dropped"]), ("2.0.0", ["region"], ["volume"]))
        self.assertEqual(self.values(pid), {"volume": None, "token": "***MASKED***", "region": None})
        self.assertEqual(self.values(pid, query="?version=1.0.0"), {"volume": 7, "token": "***MASKED***"})
        self.assertEqual(self.settings(pid, query="?version=3.0.0")[0], 404)

    def test_values_of_a_system_package_are_each_orgs_own(self):
        pid = "org.example.everybodys"
        self.upload(package(pid), "root", path="/api/admin/plugins/upload")
        self.set(pid, {"volume": 1})
        self.set(pid, {"volume": 2}, who="other-admin", org="other")
        self.assertEqual(self.values(pid)["volume"], 1)
        self.assertEqual(self.values(pid, who="other-admin", org="other")["volume"], 2)
        self.take("example.acme.own-alone")
        self.assertEqual(self.settings("example.acme.own-alone", "other-admin", "other")[0], 404)
        self.assertEqual(self.set("example.acme.own-alone", {"volume": 1}, "other-admin", "other")[0], 404)

    def test_a_rotation_leaves_all_readable_with_another_key(self):
        pid = "example.acme.rotated"
        self.take(pid)
        self.set(pid, {"token": SECRET})
        path = os.path.join(self.daemon.home, "state/catalog.key")
        with open(path) as file:
            before = file.read()
        status, answer = self.ask("root", "POST", "/api/admin/catalog/rotate")
        self.assertEqual(status, 200, answer)
        self.assertGreaterEqual(answer["sealed"], 1)
        with open(path) as file:
            self.assertNotEqual(file.read(), before)
        self.assertFalse(os.path.exists(path + ".next"))
        self.assertEqual(self.ask("root", "POST", "/api/admin/catalog/rotate")[0], 200)
        self.assertEqual(self.values(pid)["token"], "***MASKED***")
        self.assertEqual(len(self.daemon.audit("catalog.key_rotated")) >= 2, True)


class Grants(SettingsTest):
    def path(self, pid, capability=""):
        return f"/api/orgs/acme/plugins/{pid}/grants" + (f"?capability={capability}" if capability else "")

    def test_hosts_are_granted_within_the_ceiling_and_taken_back(self):
        pid = "example.acme.reaching"
        self.take(pid)
        shown = self.ask("acme-admin", "GET", self.path(pid))[1]
        self.assertEqual((shown["declares"], shown["grants"]), (["net:api.example.com:443"], []))
        self.assertIn("net:api.example.com:443", shown["org_may"])
        for capability in ("net:api.example.com:443", "net:10.1.2.3:80", "net:api.example.com:443"):
            self.assertEqual(self.ask("acme-admin", "POST", self.path(pid), {"capability": capability})[0], 200)
        self.assertEqual(self.grants(self.ask("acme-admin", "GET", self.path(pid))),
                         ["net:10.1.2.3:80", "net:api.example.com:443"])
        told = self.daemon.audit("catalog.granted")[-1]
        self.assertEqual((told["org"], told["pid"], told["operator_id"]), (self.world.orgs["acme"], pid, "acme-admin"))
        self.assertEqual(self.grants(self.ask("acme-admin", "DELETE", self.path(pid, "net:10.1.2.3:80"))),
                         ["net:api.example.com:443"])
        self.assertEqual(self.ask("acme-admin", "DELETE", self.path(pid, "net:10.1.2.3:80"))[0], 404)
        self.assertEqual(len(self.daemon.audit("catalog.grant_revoked")), 1)

    def test_what_an_org_may_not_is_refused(self):
        pid = "example.acme.bounded"
        self.take(pid)
        for capability, status, code, words in (
                ("net:api.example.com:80", 403, "AZ-0001", "org acme may not"), ("net:*", 403, "AZ-0001", "may not"),
                ("net:127.0.0.1:1", 403, "AZ-0001", "may not"), ("read:fs:/opt/x", 422, "VA-9001", "hosts alone"),
                ("net:[]", 422, "VA-9001", "hosts alone"), ("nonsense", 422, "VA-9001", ""), ("", 422, "VA-9001", "")):
            answer = self.ask("acme-admin", "POST", self.path(pid), {"capability": capability})
            self.assert_refused(answer, status, code, words)
        self.assertEqual(self.ask("acme-admin", "DELETE", self.path(pid))[0], 422)
        answer = self.ask("other-admin", "POST", self.path("x").replace("acme", "other"),
                          {"capability": "net:api.example.com:443"})
        self.assertEqual(answer[0], 403)
        self.assertEqual(self.grants(self.ask("acme-admin", "GET", self.path(pid))), [])


class Commands(SettingsTest):
    def run_well(self, *words, text=None):
        code, out, err = self.daemon.cli(*words, "--org", "acme", **({"input": text} if text is not None else {}))
        self.assertEqual((code, err), (0, ""), out)
        return out

    def test_settings_and_grants_by_the_commands(self):
        pid = "example.acme.commanded"
        self.take(pid)
        self.assertIn("missing: token", self.run_well("catalog", "settings", pid))
        self.assertIn("still missing: token", self.run_well("catalog", "set", pid, "volume", "9"))
        self.assertIn("token of", self.run_well("catalog", "set", pid, "token", text=SECRET + "\n"))
        shown = self.run_well("catalog", "settings", pid)
        self.assertIn("***MASKED***", shown)
        self.assertNotIn("missing", shown)
        self.run_well("catalog", "unset", pid, "volume")
        self.assertEqual(self.values(pid)["volume"], None)
        code, _, err = self.daemon.cli("catalog", "set", pid, "token", SECRET, "--org", "acme")
        self.assertEqual(code, 2)
        self.assertIn("cannot be an argument", err)
        self.assertEqual(self.daemon.cli("catalog", "set", pid, "volume", "loud", "--org", "acme")[0], 6)
        self.assertEqual(self.daemon.cli("catalog", "settings", pid)[0], 2)
        self.assertIn("reach nothing", self.run_well("catalog", "grants", pid))
        self.assertIn("net:api.example.com:443", self.run_well("catalog", "grant", pid, "net:api.example.com:443"))
        self.assertIn("reach nothing", self.run_well("catalog", "revoke", pid, "net:api.example.com:443"))
        code, _, err = self.daemon.cli("catalog", "grant", pid, "net:elsewhere.example:443", "--org", "acme")
        self.assertEqual(code, 5)
        self.assertIn("[catalog.org_may]", err)
        self.assertIn("sealed with a new key", self.daemon.cli("catalog", "rotate")[1])


if __name__ == "__main__":
    main()
