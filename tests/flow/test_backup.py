"""Backup and restore: a home in one file, made while it is used, restored anywhere or not at all."""
import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
import threading

from harness import KAGED, Daemon, FlowTest, main

VALUE = "tok-a-secret-of-the-operator"
USES = '[plugins.takes-config]\napi_token = "${secret:weather}"\n'


def kaged(home, *arguments, input=None, env=None):
    done = subprocess.run([KAGED, "--home", home, *arguments], input=input, text=True,
                          capture_output=True, timeout=120, env=env)
    return done.returncode, done.stdout, done.stderr


def files_of(home):
    """What is in a home, by its path; not what only a running daemon has."""
    found = {}
    for folder, _, names in os.walk(home):
        for name in names:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, home)] = path
    return {name: path for name, path in found.items() if not name.startswith("run/")}


class Backup(FlowTest):
    def setUp(self):
        self.base = tempfile.mkdtemp(prefix="kg-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.base)
        self.file = os.path.join(self.base, "home.backup")
        self.new = os.path.join(self.base, "new", "home")

    def make(self, plugins=("takes-config", "stores"), local=USES):
        daemon = Daemon(list(plugins))
        daemon.write_local(local)
        code, _, err = daemon.cli("secret", "set", "weather", input=VALUE)
        self.assertEqual(code, 0, err)
        return daemon

    def start_new(self):
        """The restored home, as a daemon of its own."""
        daemon = Daemon([])
        shutil.rmtree(daemon.home)
        os.rename(self.new, daemon.home)
        return daemon

    def backed_up(self):
        """A backup of a home that is gone, and its key."""
        key = os.path.join(self.base, "secrets.key")
        with self.make() as daemon:
            code, out, err = daemon.cli("backup", self.file)
            self.assertEqual(code, 0, err)
            self.assertIn("secrets.key", out)
            shutil.copy(os.path.join(daemon.home, "state", "secrets.key"), key)
            self.old = daemon.home
        return key

    def test_a_home_is_backed_up_while_it_is_used_and_works_elsewhere(self):
        with self.make() as daemon:
            stop = threading.Event()

            def use():
                while not stop.is_set():
                    daemon.call("takes-config", "config.get")
            user = threading.Thread(target=use)
            user.start()
            try:
                code, out, err = daemon.cli("backup", self.file)
            finally:
                stop.set()
                user.join()
            self.assertEqual(code, 0, err)
            self.assertEqual(os.stat(self.file).st_mode & 0o777, 0o600)
            self.assertEqual(os.listdir(self.base), ["home.backup"])
            with open(self.file, "rb") as file:
                content = file.read()
            with open(os.path.join(daemon.home, "state", "secrets.key"), "rb") as file:
                key = file.read().strip()
            self.assertNotIn(key, content)
            self.assertNotIn(VALUE.encode(), content)
            key_file = os.path.join(self.base, "secrets.key")
            shutil.copy(os.path.join(daemon.home, "state", "secrets.key"), key_file)
        code, out, err = kaged(self.new, "restore", self.file, "--key", key_file)
        self.assertEqual((code, err), (0, ""), out)
        self.assertEqual(kaged(self.new, "audit", "verify")[0], 0)
        with self.start_new() as again:
            again.wait_state("takes-config", "running")
            told = again.call("takes-config", "config.get")
            self.assertEqual(told[-1]["config"]["api_token"], VALUE)
            self.assertEqual(len(again.audit("home.restored")), 1)

    def test_a_backup_is_in_the_audit_log_with_and_without_a_daemon(self):
        daemon = self.make()
        self.addCleanup(daemon.discard)
        other = self.file + ".2"
        self.assertEqual(kaged(daemon.home, "backup", other)[::2], (0, ""))
        with daemon:
            code, _, err = daemon.cli("backup", self.file)
            self.assertEqual((code, err), (0, ""))
            told = daemon.audit("home.backed_up")
            self.assertEqual([row["file"] for row in told], [other, self.file])
            for row in told:
                self.assertTrue(row["operator_id"] and row["files"] > 0 and row["bytes"] > 0, row)
            self.assertEqual(daemon.cli("audit", "verify")[0], 0)

    def test_without_the_key_the_secrets_to_set_again_are_named(self):
        self.backed_up()
        code, out, err = kaged(self.new, "restore", self.file)
        self.assertEqual(code, 0, err)
        self.assertIn("secret set weather", out)
        self.assertNotIn("state/secrets.json", files_of(self.new))
        self.assertEqual(kaged(self.new, "secret", "set", "weather", input=VALUE)[0], 0)

    def test_a_wrong_key_and_a_file_that_is_not_whole_are_refused_and_nothing_is_made(self):
        self.backed_up()
        wrong = os.path.join(self.base, "wrong")
        with open(wrong, "w") as file:
            file.write("00" * 32 + "\n")
        os.chmod(wrong, 0o600)
        self.assertEqual(kaged(self.new, "restore", self.file, "--key", wrong)[0], 5)
        with open(self.file, "rb") as file:
            whole = file.read()
        middle = len(whole) // 2
        changed = bytes([whole[middle] ^ 1])
        newer = whole[:13] + (2).to_bytes(4, "big") + whole[17:]
        for content, code, words in [
                (whole[:middle], 6, "truncated"), (whole[:-1], 6, "truncated"), (b"", 6, "truncated"),
                (whole[:middle] + changed + whole[middle + 1:], 6, ""), (whole + b"x", 6, "data after its end"),
                (b"PK\3\4" + whole, 6, "not a backup"), (newer, 1, "newer version")]:
            with self.subTest(words=words, length=len(content)):
                with open(self.file + ".bad", "wb") as file:
                    file.write(content)
                got, out, err = kaged(self.new, "restore", self.file + ".bad")
                self.assertEqual(got, code, err)
                self.assertIn(words, err)
                self.assertEqual(files_of(self.new), {})
        self.assertEqual(kaged(self.new, "restore", self.base + "/nowhere")[0], 4)

    def test_a_home_of_a_newer_version_is_refused(self):
        with Daemon([]) as daemon:
            home = daemon.home
            daemon.stop()
            database = sqlite3.connect(os.path.join(home, "state", "kaged.db"))
            database.execute("PRAGMA user_version = 1000")
            database.close()
            self.assertEqual(kaged(home, "backup", self.file)[0], 0)
            database = sqlite3.connect(os.path.join(home, "state", "kaged.db"))
            database.execute("PRAGMA user_version = 5")
            database.close()
        code, out, err = kaged(self.new, "restore", self.file)
        self.assertEqual(code, 1)
        self.assertIn("version 1000", err)
        self.assertEqual(files_of(self.new), {})

    def test_a_home_that_is_there_stays_or_is_moved_aside(self):
        self.backed_up()
        with Daemon([]) as daemon:
            self.assertEqual(daemon.cli("restore", self.file, "--force")[0], 1)  # it runs
            daemon.stop()
            before = open(os.path.join(daemon.home, "config.toml")).read()
            code, _, err = daemon.cli("restore", self.file)
            self.assertEqual(code, 1)
            self.assertIn("--force", err)
            code, out, err = daemon.cli("restore", self.file, "--force")
            self.assertEqual(code, 0, err)
            aside = [name for name in os.listdir(daemon.home) if name.startswith("before-restore-")]
            self.assertEqual(len(aside), 1)
            with open(os.path.join(daemon.home, aside[0], "config.toml")) as file:
                self.assertEqual(file.read(), before)

    def test_paths_into_the_old_home_lead_into_the_new_one(self):
        with self.make() as daemon:
            root = os.path.join(daemon.home, "inside")
            os.makedirs(os.path.join(root, ".kaged"))
            with open(os.path.join(root, ".kaged", "project.yaml"), "w") as file:
                file.write("version: 1\nname: inside\nprimary: { prompt: Hi. }\n")
            os.symlink(os.path.join(daemon.home, "config.toml"), os.path.join(root, "link"))
            self.assertEqual(daemon.cli("project", "load", root)[0], 0)
            daemon.write_local(USES + f'pin = 5 # {daemon.home}/state and {daemon.home}-not\n')
            self.assertEqual(daemon.cli("backup", self.file)[0], 0)
            old = daemon.home
        self.assertEqual(kaged(self.new, "restore", self.file)[0], 0)
        with open(os.path.join(self.new, "local.toml")) as file:
            text = file.read()
        self.assertIn(f"# {self.new}/state and {old}-not", text)
        self.assertEqual(os.readlink(os.path.join(self.new, "inside", "link")),
                         os.path.join(self.new, "config.toml"))
        database = sqlite3.connect(os.path.join(self.new, "state", "kaged.db"))
        roots = [row[0] for row in database.execute("SELECT root FROM project")]
        database.close()
        self.assertEqual(roots, [os.path.join(self.new, "inside")])

    def test_a_users_folders_become_one_home_and_another_users(self):
        key = self.backed_up()
        xdg = {**os.environ, "HOME": self.base, "XDG_CONFIG_HOME": self.base + "/c",
               "XDG_DATA_HOME": self.base + "/d", "XDG_STATE_HOME": self.base + "/s",
               "XDG_RUNTIME_DIR": self.base + "/r"}
        xdg.pop("KAGED_HOME", None)
        if os.getuid() != 0:
            self.skipTest("needs root, to become another user")
        os.chmod(self.base, 0o755)
        for name in "cdsr":
            os.mkdir(os.path.join(self.base, name))
            os.chown(os.path.join(self.base, name), 65534, 65534)
        for path in (self.file, key):
            os.chown(path, 65534, 65534)

        def become():
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        done = subprocess.run([KAGED, "restore", self.file, "--key", key], env=xdg, text=True,
                              capture_output=True, preexec_fn=become, cwd="/", timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        for path in ("c/kaged/config.toml", "d/kaged/plugins/stores/kaged-plugin.yaml",
                     "s/kaged/kaged.db", "s/kaged/secrets.key"):
            self.assertEqual(os.stat(os.path.join(self.base, path)).st_uid, 65534, path)


if __name__ == "__main__":
    main()
