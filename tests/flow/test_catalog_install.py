"""Between the two worlds: packages of the catalog as plugins, and folders of plugins as packages."""
# also on PostgreSQL
import io
import json
import os
import shutil
import zipfile

from harness import PLUGINS, FlowTest, main
from test_catalog import FREE_PORT
from test_catalog_packages import MANIFEST, PackageTest, archive
from test_projects import TOLD, Projects


def package(pid, version, name, top=""):
    """Whose program can be executed."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as zipped:
        zipped.writestr(top + "kaged-plugin.yaml", MANIFEST.format(pid=pid, version=version, name=name))
        program = zipfile.ZipInfo(top + "shout")
        program.external_attr = 0o100755 << 16
        zipped.writestr(program, "#!/bin/sh\n")
    return made.getvalue()


class Install(PackageTest):
    def run_well(self, *words):
        code, out, err = self.daemon.cli(*words)
        self.assertEqual((code, err), (0, ""), out)
        return out

    def installed(self, name):
        listed = json.loads(self.run_well("--json", "plugin", "list"))["plugins"]
        return [plugin["version"] for plugin in listed if plugin["name"] == name]

    def offer(self, pid, name, *versions, path="/api/admin/plugins/upload"):
        for version in versions:
            status, made = self.upload(package(pid, version, name), "root", path=path)
            self.assertEqual(status, 201, made)

    def test_the_highest_of_a_range_that_is_enabled_is_installed_after_a_yes(self):
        self.offer("org.example.ranged", "ranged", "1.0.0", "1.1.0", "1.2.0", "2.0.0")
        versions = self.ask("root", "GET", "/api/admin/plugins/org.example.ranged/versions")[1]["plugins"]
        self.ask("root", "PATCH", f"/api/admin/plugins/{versions[2]['id']}", {"enabled": False})
        out = self.run_well("plugin", "install", "catalog:org.example.ranged@^1", "--yes")
        self.assertIn("api.example.com", out)
        self.assertEqual(self.installed("ranged"), ["1.1.0"])
        self.run_well("plugin", "install", "catalog:org.example.ranged", "--yes")
        self.assertEqual(self.installed("ranged"), ["2.0.0"])
        self.run_well("plugin", "install", "catalog:org.example.ranged", "--version", "1.0.0", "--yes")
        self.assertEqual(self.installed("ranged"), ["1.0.0"])

    def test_nothing_is_installed_without_a_yes(self):
        self.offer("org.example.asked", "asked", "1.0.0")
        code, _, err = self.daemon.cli("plugin", "install", "catalog:org.example.asked")
        self.assertNotEqual(code, 0, err)
        self.assertEqual(self.installed("asked"), [])

    def test_an_orgs_package_is_named_with_its_org(self):
        self.offer("example.acme.orgs", "orgs", "1.0.0", path="/api/orgs/acme/plugins/upload")
        self.run_well("plugin", "install", "catalog:acme/example.acme.orgs", "--yes")
        self.assertEqual(self.installed("orgs"), ["1.0.0"])
        for source, code, words in (
                ("catalog:example.acme.orgs", 4, "in the catalog of the system"),
                ("catalog:other/example.acme.orgs", 4, "there is no package"),
                ("catalog:nobody/example.acme.orgs", 4, 'there is no org "nobody"'),
                ("catalog:acme/example.acme.orgs@^2", 4, "there is no package example.acme.orgs ^2"),
                ("catalog:", 2, "not the pid"), ("catalog:a/b/c", 2, "not the pid"),
                ("catalog:../x", 2, "not the pid"), ("catalog:x@what?", 2, "neither like 1.2.3")):
            with self.subTest(source):
                got, _, err = self.daemon.cli("plugin", "install", source, "--yes")
                self.assertEqual(got, code, err)
                self.assertIn(words, err)

    def test_a_package_that_has_a_folder_around_it_and_one_that_is_damaged(self):
        status, made = self.upload(package("org.example.around", "1.0.0", "around", "folder/"), "root",
                                   path="/api/admin/plugins/upload")
        self.assertEqual(status, 201, made)
        self.run_well("plugin", "install", "catalog:org.example.around", "--yes")
        self.offer("org.example.hurt", "hurt", "1.0.0")
        shown = self.ask("root", "GET", "/api/admin/plugins/org.example.hurt/versions")[1]["plugins"][0]["sha256"]
        with open(os.path.join(self.daemon.home, "state/catalog/objects", shown[:2], shown), "r+b") as file:
            file.seek(40)
            file.write(b"X")
        code, _, err = self.daemon.cli("plugin", "install", "catalog:org.example.hurt", "--yes")
        self.assertEqual(code, 1)
        self.assertIn("is damaged", err)

    def test_a_bundle_becomes_an_mcp_server(self):
        bundle = {"manifest_version": "0.3", "name": "echoer", "version": "0.3.1", "description": "Echoes.",
                  "author": {"name": "Ada"},
                  "server": {"type": "python", "entry_point": "server.py",
                             "mcp_config": {"command": "python3", "args": ["${__dirname}/server.py"], "env": {}}}}
        status, made = self.upload(archive({"manifest.json": json.dumps(bundle), "server.py": ""}), "root",
                                   name="echoer.mcpb", path="/api/admin/plugins/upload")
        self.assertEqual((status, made.get("pid")), (201, "mcpb.echoer"), made)
        self.run_well("plugin", "install", "catalog:mcpb.echoer", "--yes")
        self.assertEqual(self.installed("echoer"), ["0.3.1"])

    def test_a_folder_is_packed_and_uploaded(self):
        folder = os.path.join(self.daemon.home, "packed")
        shutil.copytree(os.path.join(PLUGINS, TOLD), folder)
        with open(os.path.join(folder, "kaged-plugin.yaml"), "a") as file:
            file.write("catalog: {pid: org.example.told}\n")
        with open(os.path.join(folder, ".env"), "w") as file:
            file.write("KEY=1\n")
        code, out, err = self.daemon.cli("catalog", "upload", folder)
        self.assertEqual((code, err), (0, "left out: .env\n"), out)
        self.assertIn("org.example.told 1.0.0 is in the catalog", out)
        self.run_well("plugin", "install", "catalog:org.example.told", "--yes")
        self.assertEqual(self.installed(TOLD), ["1.0.0"])
        self.run_well("plugin", "enable", TOLD)
        self.daemon.wait_state(TOLD, "running")
        code, _, err = self.daemon.cli("catalog", "upload", os.path.join(self.daemon.home, "run"))
        self.assertNotEqual(code, 0, err)


class Without(FlowTest):
    def test_without_a_daemon_there_is_no_catalog(self):
        with Projects(config=FREE_PORT) as daemon:
            daemon.stop()
            code, _, err = daemon.cli("plugin", "install", "catalog:org.example.none", "--yes")
            self.assertEqual(code, 3, err)
            self.assertIn("the daemon has the catalog", err)


class Ranges(FlowTest):
    def test_a_project_gets_what_its_range_means_in_the_catalog(self):
        with Projects(config=FREE_PORT) as daemon:
            folder = os.path.join(daemon.base, "made")
            shutil.copytree(os.path.join(PLUGINS, TOLD), folder)
            path = os.path.join(folder, "kaged-plugin.yaml")
            with open(path) as file:
                text = file.read() + "catalog: {pid: org.example.told}\n"
            with open(os.path.join(folder, "plugin.py")) as file:
                program = file.read()
            for version in ("1.0.0", "1.4.0", "2.0.0"):
                with open(path, "w") as file:
                    file.write(text.replace("version: 1.0.0", f"version: {version}"))
                with open(os.path.join(folder, "plugin.py"), "w") as file:
                    file.write(program.replace("1.0.0", version))
                code, _, err = daemon.cli("catalog", "upload", folder)
                self.assertEqual(code, 0, err)
            daemon.write("music", {"told": {"package": TOLD, "source": "catalog:org.example.told", "version": "^1.0"}})
            consent = daemon.load("music")["consents"][0]
            self.assertEqual(consent["state"], "wanted")
            code, _, err = daemon.cli("project", "consent", "approve", "--yes", consent["id"])
            self.assertEqual((code, err), (0, ""))
            daemon.wait_project("music", "active")
            self.assertEqual(daemon.status(TOLD)["version"], "1.4.0")


if __name__ == "__main__":
    main()
