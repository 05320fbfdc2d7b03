"""Packages in the catalog: uploaded, refused, listed, disabled; of one org, of another, of the system."""
# also on PostgreSQL
import http.client
import io
import json
import os
import subprocess
import zipfile

import packages
import python_runtime
from harness import ROOT, FlowTest, at_once, main
from test_catalog import FREE_PORT, World

MANIFEST = """
name: {name}
version: {version}
kaged_api: 1
description: Says it louder.
command: [./shout]
capabilities: ["net:api.example.com:443"]
tools:
  - {{name: shout, description: Says it louder., parameters_schema: {{type: object}}}}
catalog:
  pid: {pid}
  tag: words
  stateless: false
  capabilities: [speech]
  settings_schema:
    - {{key: volume, type: int, description: How loud, default: 3}}
    - {{key: token, type: str, description: A key, required: true, sensitive: true}}
"""
BOUNDARY = "a-boundary-that-is-nowhere-else"


def archive(files, top="", programs=()):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as zipped:
        for name, text in files.items():
            entry = zipfile.ZipInfo(top + name)
            entry.external_attr = (0o100755 if name in programs else 0o100644) << 16
            zipped.writestr(entry, text)
    return made.getvalue()


def package(pid="example.acme.shout", version="1.0.0", name="shout", top="", **files):
    return archive({"kaged-plugin.yaml": MANIFEST.format(pid=pid, version=version, name=name),
                    "shout": "#!/bin/sh\n", **files}, top)


def form(content, name="package.zip", field="file"):
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{field}"; filename="{name}"\r\n\r\n'
    return head.encode() + content + f"\r\n--{BOUNDARY}--\r\n".encode()


class PackageTest(FlowTest):
    plugins = []
    config = {**FREE_PORT, "catalog.upload_max_bytes": 200_000}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.world = World(cls.daemon)

    def ask(self, who, *request):
        return self.world.clients[who].ask(*request)

    def post(self, who, body, path="/api/orgs/acme/plugins/upload", kind=f"multipart/form-data; boundary={BOUNDARY}"):
        client = self.world.clients[who]
        connection = http.client.HTTPConnection(client.address, timeout=120)
        try:
            connection.request("POST", path, body, {**client.headers, "Content-Type": kind})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def upload(self, content, who="acme-admin", name="package.zip", **place):
        return self.post(who, form(content, name), **place)

    def take(self, *arguments, **named):
        status, answer = self.upload(package(*arguments, **named))
        self.assertEqual(status, 201, answer)
        return answer

    def assert_refused(self, answer, status, code, words):
        self.assertEqual((answer[0], answer[1]["code"]), (status, code), answer)
        self.assertIn(words, answer[1]["message"])

    def left_over(self):
        """What uploads leave beside objects and trees."""
        base = os.path.join(self.daemon.home, "state/catalog")
        return [name for folder in ("incoming", "trees") if os.path.isdir(os.path.join(base, folder))
                for name in os.listdir(os.path.join(base, folder)) if folder == "incoming" or name.startswith(".")]


class Upload(PackageTest):
    def test_a_package_is_taken_listed_shown_and_given_back_as_it_was(self):
        content = package("example.acme.first", top="folder/")
        status, made = self.upload(content)
        self.assertEqual((status, made["pid"], made["version"], made["org_id"]),
                         (201, "example.acme.first", "1.0.0", self.world.orgs["acme"]), made)
        listed = {item["pid"]: item for item in self.ask("acme-admin", "GET", "/api/orgs/acme/plugins")[1]["plugins"]}
        item = listed["example.acme.first"]
        self.assertEqual((item["id"], item["source"], item["is_latest"], item["enabled"], item["tag"], item["kind"]),
                         (made["id"], "org", True, True, "words", "kaged"))
        self.assertEqual((item["default_settings"], item["stateless"], item["capabilities"]),
                         ({"volume": 3}, False, ["speech"]))
        self.assertEqual(self.ask("acme-admin", "GET", "/api/orgs/acme/plugins/" + made["id"])[1], item)
        schema = self.ask("acme-admin", "GET", "/api/orgs/acme/plugins/example.acme.first/settings-schema")[1]
        self.assertEqual(schema[1], {"key": "token", "name": "token", "type": "str", "default": None,
                                     "description": "A key", "required": True, "sensitive": True})
        status, back = self.daemon.raw("GET", f"/api/orgs/acme/plugins/{made['id']}/download")
        self.assertEqual((status, back), (200, content))
        for tag, count in (("words", 1), ("nothing", 0)):
            found = self.ask("acme-admin", "GET", f"/api/orgs/acme/plugins?tag={tag}")[1]["plugins"]
            self.assertEqual(len([one for one in found if one["pid"] == "example.acme.first"]), count)
        self.assertEqual(self.left_over(), [])
        told = self.daemon.audit("catalog.package_uploaded")[-1]
        self.assertEqual((told["org"], told["operator_id"]), (self.world.orgs["acme"], "acme-admin"))

    def test_what_is_not_a_package_is_refused_with_its_sentence_and_leaves_nothing(self):
        rows = {
            "another extension": (package(), "package.tar", "Invalid plugin file: only .zip"),
            "no extension": (package(), "package", "Invalid plugin file: only .zip"),
            "wrong magic": (b"PKnot" + package(), "x.zip", "Invalid plugin file: it does not begin"),
            "empty": (b"", "x.zip", "Invalid plugin file: it does not begin"),
            "too large": (b"PK\3\4" + bytes(300_000), "x.zip", "Invalid plugin file: it has more than 200000"),
            "cut off inside": (package()[:-30], "x.zip", "Invalid plugin file"),
            "no plugin": (archive({"pyproject.toml": "[project]\nname='x'\n"}), "x.zip", "No plugin.py found"),
            "nothing": (archive({"readme.txt": "x"}), "x.zip", "Invalid plugin file"),
            "two": (archive({"plugin.py": "", "sub/plugin.py": ""}), "x.zip", "there are 2 files plugin.py"),
            "a path that leads out": (archive({"plugin.py": "", "../x": ""}), "x.zip", "Invalid plugin file"),
            "a bad manifest": (archive({"kaged-plugin.yaml": "name: x\n"}), "x.zip", "Invalid plugin file"),
        }
        before = len(self.ask("acme-admin", "GET", "/api/orgs/acme/plugins")[1]["plugins"])
        for what, (content, name, words) in rows.items():
            with self.subTest(what):
                self.assert_refused(self.upload(content, name=name), 400, "PL-0003", words)
        self.assertEqual(self.left_over(), [])
        self.assertEqual(len(self.ask("acme-admin", "GET", "/api/orgs/acme/plugins")[1]["plugins"]), before)

    def test_bodies_that_are_no_forms_are_refused(self):
        for body, kind in ((package(), "application/zip"), (form(package()), "multipart/form-data"),
                           (form(package(), field="other"), None), (form(package())[:-40], None), (b"", None)):
            answer = self.post("acme-admin", body, kind=kind or f"multipart/form-data; boundary={BOUNDARY}")
            self.assert_refused(answer, 400, "PL-0003", "Invalid plugin file: the body is not multipart/form-data")
        self.assertEqual(self.left_over(), [])

    def test_an_upload_that_is_cut_off_leaves_nothing(self):
        body = form(package("example.acme.cut"))
        client = self.world.clients["acme-admin"]
        connection = http.client.HTTPConnection(client.address, timeout=60)
        connection.putrequest("POST", "/api/orgs/acme/plugins/upload")
        for name, value in {**client.headers, "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
                            "Content-Length": str(len(body))}.items():
            connection.putheader(name, value)
        connection.endheaders(body[:-100])
        connection.close()
        self.take("example.acme.after-cut")
        self.assertEqual(self.left_over(), [])
        self.assertEqual(self.ask("acme-admin", "GET", "/api/orgs/acme/plugins/example.acme.cut/versions")[0], 404)

    def test_versions_only_go_up(self):
        self.take("example.acme.up", "1.9.0")
        self.take("example.acme.up", "1.10.0")
        for version, status, code in (("1.10.0", 409, "RE-0002"), ("1.9.5", 409, "RE-0003"),
                                      ("1.10.0-rc.1", 409, "RE-0003")):
            answer = self.upload(package("example.acme.up", version))
            self.assert_refused(answer, status, code, "is not newer than 1.10.0")
        versions = self.ask("acme-admin", "GET", "/api/orgs/acme/plugins/example.acme.up/versions")[1]["plugins"]
        self.assertEqual([(one["version"], one["is_latest"]) for one in versions],
                         [("1.9.0", False), ("1.10.0", True)])

    def test_of_two_uploads_of_one_version_at_once_one_wins(self):
        answers = at_once([lambda: self.upload(package("example.acme.race"))] * 4)
        self.assertEqual(sorted(status for status, _ in answers), [201, 409, 409, 409], answers)
        versions = self.ask("acme-admin", "GET", "/api/orgs/acme/plugins/example.acme.race/versions")[1]["plugins"]
        self.assertEqual(len(versions), 1)

    def test_pids_belong_to_domains(self):
        for pid, who, path, words in (
                ("example.other.x", "acme-admin", "acme", "does not match organization domain 'acme.example'"),
                ("example.acmebutnot.x", "acme-admin", "acme", "The pid must start with 'example.acme'")):
            self.assert_refused(self.upload(package(pid), who, path=f"/api/orgs/{path}/plugins/upload"), 400,
                                "PL-0003", words)
        self.ask("root", "POST", "/api/admin/orgs", {"name": "plain"})
        place = {"path": "/api/orgs/plain/plugins/upload"}
        self.assert_refused(self.upload(package("example.other.y"), "root", **place), 400, "PL-0003",
                            "below the domain of another organization")
        self.upload(package("org.system.x"), "root", path="/api/admin/plugins/upload")
        self.assert_refused(self.upload(package("org.system.x"), "root", **place), 400, "PL-0003", "system plugin's")
        self.assertEqual(self.upload(package("org.own.x"), "root", **place)[0], 201)

    def test_quotas_bound_packages(self):
        self.ask("root", "POST", "/api/admin/orgs", {"name": "tiny", "quota": {"max_packages": 1}})
        place = {"path": "/api/orgs/tiny/plugins/upload"}
        self.assertEqual(self.upload(package("net.tiny.a"), "root", **place)[0], 201)
        self.assertEqual(self.upload(package("net.tiny.a", "1.1.0"), "root", **place)[0], 201)
        self.assert_refused(self.upload(package("net.tiny.b"), "root", **place), 409, "RE-0004", "1 packages")


class Life(PackageTest):
    def test_the_highest_that_is_enabled_is_the_latest(self):
        ids = [self.take("example.acme.life", version)["id"] for version in ("1.0.0", "1.1.0", "1.2.0")]
        path = "/api/orgs/acme/plugins/"

        def latest():
            found = self.ask("acme-admin", "GET", path + "example.acme.life/versions")[1]["plugins"]
            return [(one["version"], one["enabled"]) for one in found if one["is_latest"]]
        self.assertEqual(latest(), [("1.2.0", True)])
        self.assertFalse(self.ask("acme-admin", "DELETE", path + ids[2])[1]["enabled"])
        self.assertEqual(latest(), [("1.1.0", True)])
        self.ask("acme-admin", "PATCH", path + ids[1], {"enabled": False})
        self.ask("acme-admin", "PATCH", path + ids[0], {"enabled": False})
        self.assertEqual(latest(), [("1.2.0", False)])
        self.assertEqual(self.ask("acme-admin", "GET", path + "example.acme.life/settings-schema")[0], 404)
        self.assertTrue(self.ask("acme-admin", "PATCH", path + ids[0], {"enabled": True})[1]["is_latest"])
        self.assertEqual(latest(), [("1.0.0", True)])
        self.assertEqual(self.ask("acme-admin", "GET", path + "example.acme.life/settings-schema")[0], 200)

    def test_a_system_package_is_everybodys_unless_it_is_disabled_and_an_orgs_is_its_own(self):
        made = self.upload(package("org.example.all"), "root", path="/api/admin/plugins/upload")[1]
        self.assertEqual((made["is_latest"], "org_id" in made), (True, False))
        own = self.take("example.acme.own")["id"]

        def seen(who, org):
            return {one["pid"]: one["source"] for one in self.ask(who, "GET", f"/api/orgs/{org}/plugins")[1]["plugins"]}
        for who, org in (("acme-admin", "acme"), ("other-admin", "other")):
            self.assertEqual(seen(who, org)["org.example.all"], "system")
        self.assertNotIn("example.acme.own", seen("other-admin", "other"))
        for method, path, body in (("GET", f"/api/orgs/other/plugins/{own}", None),
                                   ("GET", f"/api/orgs/other/plugins/{own}/download", None),
                                   ("PATCH", f"/api/orgs/other/plugins/{own}", {"enabled": False}),
                                   ("DELETE", f"/api/orgs/other/plugins/{own}", None),
                                   ("GET", "/api/orgs/other/plugins/example.acme.own/versions", None),
                                   ("GET", "/api/orgs/other/plugins/example.acme.own/settings-schema", None),
                                   ("DELETE", f"/api/orgs/acme/plugins/{made['id']}", None),
                                   ("GET", f"/api/admin/plugins/{own}", None),
                                   ("PATCH", f"/api/admin/plugins/{own}", {"enabled": False})):
            answer = self.ask("root" if "admin" in path else f"{path.split('/')[3]}-admin", method, path, body)
            self.assert_refused(answer, 404, "PL-0002", "there is no package")
        self.assertTrue(self.ask("acme-admin", "GET", f"/api/orgs/acme/plugins/{own}")[1]["enabled"])
        self.ask("root", "PATCH", f"/api/admin/plugins/{made['id']}", {"enabled": False})
        self.assertNotIn("org.example.all", seen("other-admin", "other"))
        shown = self.ask("root", "GET", "/api/admin/plugins")[1]["plugins"]
        self.assertIn("org.example.all", [one["pid"] for one in shown])
        shown = self.ask("root", "GET", "/api/admin/plugins?include_disabled=false")[1]["plugins"]
        self.assertNotIn("org.example.all", [one["pid"] for one in shown])
        self.ask("root", "PATCH", f"/api/admin/plugins/{made['id']}", {"enabled": True})
        self.assertIn("org.example.all", seen("other-admin", "other"))

    def test_a_damaged_object_is_not_given_out(self):
        made = self.take("example.acme.damaged")
        sha = self.ask("acme-admin", "GET", f"/api/orgs/acme/plugins/{made['id']}")[1]["sha256"]
        path = os.path.join(self.daemon.home, "state/catalog/objects", sha[:2], sha)
        with open(path, "r+b") as file:
            file.seek(40)
            file.write(b"X")
        answer = self.ask("acme-admin", "GET", f"/api/orgs/acme/plugins/{made['id']}/download")
        self.assertEqual((answer[0], answer[1]["code"]), (500, "DB-0001"))
        self.assertIn("is damaged", answer[1]["message"])


class Commands(PackageTest):
    def run_well(self, *words):
        code, out, err = self.daemon.cli(*words)
        self.assertEqual((code, err), (0, ""), out)
        return out

    def test_orgs_members_and_packages_by_the_commands(self):
        self.run_well("org", "create", "shop", "--domain", "shop.example")
        self.assertIn("shop.example", self.run_well("org", "list"))
        self.assertIn("ann is an admin of shop", self.run_well("org", "add-member", "shop", "ann", "--admin"))
        self.assertIn("org_admin", self.run_well("org", "members", "shop"))
        self.assertIn("ann", self.run_well("org", "users"))
        path = os.path.join(self.daemon.home, "shout.zip")
        with open(path, "wb") as file:
            file.write(package("example.shop.shout"))
        self.assertIn("example.shop.shout 1.0.0 is in the catalog",
                      self.run_well("catalog", "upload", path, "--org", "shop"))
        self.assertIn("latest", self.run_well("catalog", "list", "--org", "shop"))
        versions = json.loads(self.run_well("--json", "catalog", "versions", "example.shop.shout", "--org", "shop"))
        made = versions["plugins"][0]["id"]
        self.assertIn("is disabled", self.run_well("catalog", "disable", made, "--org", "shop"))
        enabled = self.run_well("catalog", "enable", made, "--org", "shop")
        self.assertIn("is enabled, and the latest", enabled)
        self.assertIn("has only what an org grants it: net:api.example.com:443", enabled)
        code, _, err = self.daemon.cli("catalog", "upload", path, "--org", "shop")
        self.assertEqual(code, 1)
        self.assertIn("is not newer than 1.0.0", err)
        self.assertEqual(self.daemon.cli("catalog", "versions", "example.shop.none", "--org", "shop")[0], 4)
        self.assertIn("no longer a member", self.run_well("org", "remove-member", "shop", "ann"))
        self.assertIn("inactive", self.run_well("org", "deactivate", "shop"))
        self.assertIn("is active", self.run_well("org", "activate", "shop"))
        self.assertIn("is deleted", self.run_well("org", "delete", "shop"))
        self.assertEqual(self.daemon.cli("org", "members", "shop")[0], 4)


class Python(PackageTest):
    @classmethod
    def setUpClass(cls):
        subprocess.run([os.path.join(ROOT, "scripts/share"), "cadence"], check=True, stdout=subprocess.DEVNULL)
        tree = python_runtime.root()
        cls.config = {**cls.config, **({"catalog.runtimes.python.root": tree} if tree else {})}
        super().setUpClass()

    def test_a_package_in_python_is_looked_at_and_one_that_raises_gets_its_sentence(self):
        base = os.path.join(self.daemon.home, "made")
        good = packages.write(base + "/good", {"pyproject.toml": "[project]\nname='x'\nversion='1'\n"})
        bad = packages.write(base + "/bad", before="raise ValueError('no, not today')")
        with open(os.path.join(good, "plugin.py")) as file:
            source = file.read().replace("com.example.say", "example.acme.say")
        status, made = self.upload(archive({"plugin.py": source}, "say/"))
        self.assertEqual((status, made.get("pid")), (201, "example.acme.say"), made)
        item = self.ask("acme-admin", "GET", f"/api/orgs/acme/plugins/{made['id']}")[1]
        self.assertEqual((item["kind"], item["is_specialized"], item["is_scoped"]), ("python", True, False))
        with open(os.path.join(bad, "plugin.py")) as file:
            answer = self.upload(archive({"plugin.py": file.read()}))
        self.assert_refused(answer, 400, "PL-0003", "no, not today")


if __name__ == "__main__":
    main()
