"""Homes that an older kaged made: the first start of this one takes them over, without loss.

tests/homes/before-versions.tar.gz: plugins were run from plugins/NAME. Two are installed and enabled, one
of them with storage, a file below config:/ and a path setting; a project is loaded and has a session.
"""
import os
import sqlite3
import tarfile

from harness import ROOT, Daemon, FlowTest, main

HOMES = os.path.join(ROOT, "tests/homes")


def contents(folder):
    """What each file holds."""
    found = {}
    for path, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(path, name), "rb") as file:
                found[os.path.relpath(os.path.join(path, name), folder)] = file.read()
    return found


class BeforeVersions(FlowTest):
    def setUp(self):
        self.daemon = Daemon(approved=False)
        self.addCleanup(self.daemon.discard)
        self.home = self.daemon.home
        with tarfile.open(os.path.join(HOMES, "before-versions.tar.gz")) as archive:
            archive.extractall(self.daemon.base)
        database = sqlite3.connect(os.path.join(self.home, "state/kaged.db"))
        with database:
            database.execute("UPDATE project SET root = ?", [self.daemon.project_root("project")])
        database.close()

    def in_store(self):
        """All of the plugins folder but what each start writes anew."""
        return {path: text for path, text in contents(os.path.join(self.home, "plugins")).items()
                if path != ".store/lock"}

    def check_all_is_there(self):
        for name in ("keeper", "plain"):
            self.daemon.wait_state(name, "running")
        self.assertEqual(self.daemon.call("keeper", "keeper.get"),
                         {"rows": {"columns": ["text"], "rows": [{"text": "kept"}]}, "file": "kept"})
        projects = self.daemon.api("GET", "/projects")[1]["projects"]
        self.assertEqual([(p["id"], p["state"]) for p in projects], [("garden", "active")])
        session, = self.daemon.api("GET", "/sessions")[1]["sessions"]
        self.assertIn("The roses were watered.", self.daemon.cli("session", "show", session["id"])[1])

    def test_nothing_of_an_older_home_is_lost_and_a_second_start_changes_nothing(self):
        files = {name: contents(os.path.join(self.home, "plugins", name))
                 for name in ("keeper", "plain")}
        kept = contents(os.path.join(self.home, "plugin-data"))
        self.daemon.start()
        try:
            self.check_all_is_there()
        finally:
            self.daemon.stop()
        versions = os.path.join(self.home, "plugins/.store/versions")
        found = {name.rpartition("-")[0]: contents(os.path.join(versions, name))
                 for name in os.listdir(versions)}
        self.assertEqual(found, files)
        self.assertFalse(os.path.exists(os.path.join(self.home, "plugins/keeper")))
        self.assertEqual(contents(os.path.join(self.home, "plugin-data")), kept)
        after = self.in_store()
        with open(os.path.join(self.home, "local.toml")) as file:
            local = file.read()
        self.daemon.start()
        try:
            self.check_all_is_there()
        finally:
            self.daemon.stop()
        self.assertEqual(self.in_store(), after)
        with open(os.path.join(self.home, "local.toml")) as file:
            self.assertEqual(file.read(), local)

    def test_the_kaged_that_made_the_home_is_refused_from_then_on(self):
        self.daemon.start()
        self.daemon.stop()
        database = sqlite3.connect(os.path.join(self.home, "state/kaged.db"))
        self.addCleanup(database.close)
        self.assertGreater(database.execute("PRAGMA user_version").fetchone()[0], 5)

    def test_path_settings_that_nobody_was_asked_about_are_told_once(self):
        self.daemon.start()
        try:
            told = self.daemon.cli("doctor")[1]
            self.assertIn("keeper: setting:store:config:/; keeper: setting:store:project:/", told)
            self.assertNotIn("keeper: setting", self.daemon.cli("doctor")[1])
        finally:
            self.daemon.stop()


if __name__ == "__main__":
    main()
