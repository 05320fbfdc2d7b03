"""kaged doctor and what the daemon says of its cages, with bwrap and without; who may speak to it;
and a daemon that gives up root."""
import json
import os
import re
import pwd
import subprocess
import tempfile
import unittest

from harness import KAGED, PATIENCE, Daemon, FlowTest, descendants, main, process_name

IS_ROOT = os.getuid() == 0

# Runs commands, one a line of stdin, as the shell sees them; for each a line of JSON tells the rest.
RECORDER = r"""
import json, subprocess, sys
for line in sys.stdin:
    done = subprocess.run(json.loads(line), capture_output=True, text=True, stdin=subprocess.DEVNULL)
    print(json.dumps([done.returncode, done.stdout, done.stderr]), flush=True)
"""


def without_bwrap(daemon, *commands):
    """[(exit code, stdout, stderr)] of kaged's commands where bwrap is not: in a mount namespace of
    their own, and for ordinary users in a user namespace around it."""
    hide = 'mount --bind /dev/null /usr/bin/bwrap && exec "$@"'
    prefix = ["unshare", "--mount"] if IS_ROOT else ["unshare", "--user", "--map-root-user", "--mount"]
    lines = [json.dumps([KAGED, "--home", daemon.home, *command]) for command in commands]
    done = subprocess.run(prefix + ["sh", "-c", hide, "sh", "python3", "-c", RECORDER], text=True,
                          input="\n".join(lines) + "\n", capture_output=True, timeout=PATIENCE * 3,
                          env=daemon.environment())
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


class Doctor(FlowTest):
    def setUp(self):
        self.home = Daemon(["good-c"])  # not started

    def tearDown(self):
        self.home.check_sanitizers()
        self.home.discard()

    def examine(self):
        code, out, err = self.home.cli("doctor", "--json")
        self.assertEqual(err, "")
        return code, json.loads(out)

    def test_verdict_follows_from_the_rows_and_a_real_cage(self):
        code, answer = self.examine()
        states = {check["name"]: check["status"] for check in answer["checks"]}
        self.assertEqual(states["trial"], "ok", answer)
        self.assertNotIn("missing", states.values())
        degraded = "degraded" in states.values()
        self.assertEqual(code, 1 if degraded else 0)
        self.assertEqual(answer["verdict"], "degraded" if degraded else "full")
        for check in answer["checks"]:
            self.assertEqual(check["status"] == "ok", check["means"] == "", check)
            self.assertTrue(check["status"] == "ok" or check["remedy"], check)

    def test_one_line_a_check_and_no_colours_in_a_pipe(self):
        code, out, err = self.home.cli("doctor")
        self.assertIn(code, (0, 1))
        self.assertRegex(out, r"(?m)^ok    bwrap            /")
        self.assertRegex(out, r"(?m)^ok    trial            a program ran in a full cage")
        self.assertRegex(out.splitlines()[-1], "^Plugins run (fully )?caged")
        self.assertNotIn("\033", out)

    def test_kernel_log_can_be_read_if_why_says_that_it_is(self):
        # The doctor once asked only for the right to read it, and it was off.
        rows = {check["name"]: check["detail"] for check in self.examine()[1]["checks"]}
        with Daemon(["good-c"]) as daemon:
            knowledge = daemon.api("GET", "/plugins/good-c/why")[1]["knowledge"]
        self.assertEqual("can be read" in rows["kernel-log"], "are not reported" not in knowledge)

    def test_it_makes_nothing(self):
        before = sorted(os.listdir(self.home.home))
        self.examine()
        self.assertEqual(sorted(os.listdir(self.home.home)), before)

    def test_running_daemon_is_asked_and_not_disturbed(self):
        with Daemon(["good-c"]) as daemon:
            code, out, _ = daemon.cli("doctor", "--json")
            rows = {check["name"]: check for check in json.loads(out)["checks"]}
            self.assertIn(code, (0, 1))
            self.assertIn("cages: " + daemon.api("GET", "/status")[1]["cages"],
                          rows["daemon"]["detail"])
            self.assertEqual(daemon.call("good-c", "good.echo", {"n": 1})["n"], 1)
        self.assertEqual({check["name"]: check for check in self.examine()[1]["checks"]}
                         ["daemon"]["detail"], "not running")

    def test_daemon_and_doctor_say_the_same(self):
        code, answer = self.examine()
        with Daemon(["good-c"]) as daemon:
            cages = daemon.api("GET", "/status")[1]["cages"]
            lacking = [check["name"] for check in answer["checks"] if check["status"] != "ok"]
            self.assertEqual(cages, "degraded: " + ", ".join(lacking) if lacking else "full")
            self.assertEqual(daemon.status("good-c")["cages"], cages)
            rows = daemon.api("GET", "/doctor")[1]
            self.assertEqual(rows["verdict"], "degraded" if lacking else "full")
            self.assertEqual([check["name"] for check in rows["checks"] if check["status"] != "ok"], lacking)
            self.assertRegex(daemon.cli("status")[1], "cages +" + re.escape(cages))
            for name in lacking:
                self.assertEqual(daemon.log().count(f"cages are degraded: {name}:"), 1)

    def test_kernel_log_is_for_information_and_says_what_it_is(self):
        rows = {check["name"]: check for check in self.examine()[1]["checks"]}
        self.assertEqual(rows["kernel-log"]["status"], "ok")
        self.assertRegex(rows["kernel-log"]["detail"], "audit log (reports|is off|is not readable)")

    def test_relative_plugins_dir_crashes_nothing(self):
        # The folder above "plugins" was looked for behind a slash that is not there.
        for folder in ("plugins", "not/there", "."):
            self.home.write_config(plugins__dir=folder)
            for command in (["doctor"], ["plugin", "install", "/not/there", "--yes"], ["start"],
                            ["stop"]):
                done = subprocess.run([KAGED, "--home", self.home.home, *command], text=True,
                                      cwd=self.home.base, env=self.home.environment(),
                                      capture_output=True, timeout=PATIENCE * 3)
                self.assertIn(done.returncode, range(8), (command, done))
            self.home.check_sanitizers()

    def test_broken_config_is_said_first(self):
        with open(os.path.join(self.home.home, "config.toml"), "w") as file:
            file.write("[limit]\n")
        code, _, err = self.home.cli("doctor")
        self.assertEqual(code, 6)
        self.assertIn("config.toml", err)


class WithoutBwrap(FlowTest):
    def setUp(self):
        self.home = Daemon(["good-c"])

    def tearDown(self):
        self.home.check_sanitizers()
        self.home.discard()

    def test_doctor_names_the_cause_and_the_remedy_and_exits_5(self):
        (code, out, _), (json_code, answer, _) = without_bwrap(self.home, ["doctor"],
                                                               ["doctor", "--json"])
        self.assertEqual((code, json_code), (5, 5), out)
        self.assertRegex(out, r"(?m)^FAIL  bwrap            bwrap is not installed$")
        self.assertIn("to fix it: install the package bubblewrap", out)
        self.assertIn("Plugins will refuse to start.", out)
        self.assertEqual(json.loads(answer)["verdict"], "none")

    def test_daemon_starts_and_plugins_refuse_with_cause_and_remedy(self):
        started, status, shown, enabled, called, stopped = without_bwrap(
            self.home, ["start"], ["status", "--json"], ["status"], ["plugin", "enable", "good-c"],
            ["plugin", "call", "good-c", "good.echo"], ["stop"])
        self.assertEqual(started[0], 0, started)
        self.assertEqual(json.loads(status[1])["cages"], "none: bwrap is not installed")
        self.assertRegex(shown[1], "cages +none: bwrap is not installed")
        self.assertEqual(enabled[0], 1)
        self.assertIn("good-c: start: cage: bwrap is not installed", enabled[2])
        self.assertIn("hint: install the package bubblewrap", enabled[2])
        self.assertNotEqual(called[0], 0)
        self.assertEqual(stopped[0], 0)
        with open(os.path.join(self.home.home, "state/logs/kaged.log")) as log:
            text = log.read()
        self.assertIn("no plugin can be started: cage: bwrap is not installed; to fix it: "
                      "install the package bubblewrap", text)


class NoUserNamespaces(FlowTest):
    """The machine is made to lack them in several ways; the doctor tells which one it is."""

    # An ordinary user, although the namespace around it had to be made by its root.
    AS_USER = "unshare --user --map-user=1000 --map-group=1000"

    def says(self, prefix, script, cause, remedy):
        home = Daemon()
        try:
            done = subprocess.run([*prefix, "sh", "-c", script, "sh", KAGED, "--home", home.home,
                                   "doctor"], capture_output=True, text=True, timeout=PATIENCE,
                                  env=home.environment())
            self.assertEqual(done.returncode, 5, done.stdout + done.stderr)
            row = done.stdout.partition("FAIL  user-namespaces")[2].splitlines()
            self.assertIn(cause, row[0])
            self.assertIn(remedy, row[2])
            self.assertEqual(done.stdout.count("FAIL"), 1, done.stdout)
            home.check_sanitizers()
        finally:
            home.discard()

    def test_root_of_a_container_that_cannot_become_another_user(self):
        self.says(["unshare", "--user", "--map-root-user"], 'exec "$@"',
                  "root here cannot become uid 65534", "run kaged as an ordinary user")

    def test_limit_of_namespaces_that_is_reached(self):
        self.says(["unshare", "--user", "--map-root-user"],
                  f'echo 1 >/proc/sys/user/max_user_namespaces && exec {self.AS_USER} "$@"',
                  "no more user namespaces", "raise user.max_user_namespaces")

    def test_container_that_covers_parts_of_proc(self):
        if IS_ROOT:
            self.says(["unshare", "--mount"], 'mount --bind /dev/null /proc/version && exec "$@"',
                      "parts of /proc are masked", "systempaths=unconfined")
        else:
            self.says(["unshare", "--user", "--map-root-user", "--mount"],
                      f'mount --bind /dev/null /proc/version && exec {self.AS_USER} "$@"',
                      "parts of /proc are masked", "systempaths=unconfined")


class Peers(FlowTest):
    plugins = ["good-c"]

    def from_another_namespace(self, *arguments):
        """kaged's command, by the same user in a user namespace of its own."""
        return subprocess.run(["unshare", "--user", "--map-current-user", KAGED, "--home",
                               self.daemon.home, *arguments], capture_output=True, text=True,
                              timeout=PATIENCE, env=self.daemon.environment())

    def test_client_in_another_user_namespace_is_refused_and_audited(self):
        self.assertEqual(self.daemon.cli("status")[0], 0)
        done = self.from_another_namespace("status")
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("another user namespace", done.stderr)
        self.assertEqual(done.stdout, "")
        event = self.daemon.wait_audit("auth.peer_refused")[-1]
        self.assertEqual(event["uid"], os.getuid())
        self.assertGreater(event["pid"], 0)
        self.assertIn("another user namespace", event["reason"])
        self.assertIn("client refused", self.daemon.log())
        self.assertEqual(self.daemon.cli("status")[0], 0)

    def test_many_refusals_make_few_events(self):
        before = len(self.daemon.audit("auth.peer_refused"))
        script = ("import socket\nfor _ in range(200):\n s = socket.socket(socket.AF_UNIX)\n"
                  f" s.connect({self.daemon.socket!r})\n s.recv(4096)\n s.close()\n")
        subprocess.run(["unshare", "--user", "--map-current-user", "python3", "-c", script],
                       check=True, timeout=PATIENCE)
        self.assertLess(len(self.daemon.audit("auth.peer_refused")) - before, 100)
        self.assertEqual(self.daemon.cli("status")[0], 0)


def uids(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(line for line in status if line.startswith("Uid:")).split()[1:]


@unittest.skipUnless(IS_ROOT, "only root can become another user")
class GivesUpRoot(FlowTest):
    def home_for(self, user, plugins=("env-dump", "good-c"), enabled=None):
        daemon = Daemon(list(plugins), {"daemon.user": user}, enabled)
        os.chmod(daemon.base, 0o755)
        os.chmod(daemon.home, 0o755)
        os.chmod(os.path.join(daemon.home, "config.toml"), 0o644)
        return daemon

    def test_daemon_is_the_user_and_only_the_spawner_root(self):
        for user in ("daemon", "nobody"):
            uid = str(pwd.getpwnam(user).pw_uid)
            with self.subTest(user=user), self.home_for(user) as daemon:
                self.assertEqual(daemon.call("good-c", "good.echo", {"n": 1})["n"], 1)
                self.assertEqual(daemon.call("env-dump", "world.show")["uid"], 65534)
                self.assertEqual(uids(daemon.pid), [uid] * 4)
                spawners = [pid for pid in descendants(daemon.pid)
                            if process_name(pid) == "kaged-spawner"]
                self.assertEqual([uids(pid) for pid in spawners], [["0"] * 4])
                status = daemon.api("GET", "/status")[1]
                self.assertEqual(status["user"], user)
                self.assertRegex(daemon.cli("status")[1], f"user +{user}")

    def test_it_starts_again_in_the_folders_that_it_was_given(self):
        with self.home_for("daemon") as daemon:
            daemon.stop()
            daemon.start()
            self.assertEqual(daemon.call("good-c", "good.echo", {"n": 1})["n"], 1)
            for folder in ("plugins", "plugin-data", "state", "state/audit", "state/logs",
                           "run"):
                path = os.path.join(daemon.home, folder)
                self.assertEqual(os.stat(path).st_uid, pwd.getpwnam("daemon").pw_uid, folder)
            self.assertEqual(os.stat(daemon.home).st_uid, 0)

    def test_plugin_keeps_files_of_its_own_below_config(self):
        # plugin-data was made by root and stayed root's, so that no folder could be made in it.
        daemon = self.home_for("daemon", ["does-as-told"])
        manifest = os.path.join(daemon.home, "plugins/does-as-told/kaged-plugin.yaml")
        with open(manifest) as file:
            text = file.read()
        with open(manifest, "w") as file:
            file.write(text.replace("capabilities: []", 'capabilities: ["write:fs:config:/kept"]'))
        with daemon:
            told = "import os; open(os.environ['KAGED_CONFIG_ROOT'] + '/kept/a', 'w').write('x')"
            answer = daemon.call("does-as-told", "told.run", {"code": told})
            self.assertIn("result", answer, answer)
            kept = os.stat(os.path.join(daemon.home, "plugin-data/does-as-told/kept/a"))
            self.assertEqual(kept.st_uid, pwd.getpwnam("daemon").pw_uid)

    def test_it_starts_and_stops_in_the_background(self):
        daemon = self.home_for("daemon")
        try:
            self.assertEqual(daemon.cli("start")[0], 0)
            self.assertRegex(daemon.cli("status")[1], "user +daemon")
            self.assertEqual(daemon.cli("stop")[0], 0)
            log = os.stat(os.path.join(daemon.home, "state/logs/kaged.log"))
            self.assertEqual(log.st_uid, pwd.getpwnam("daemon").pw_uid)
        finally:
            daemon.discard()

    def test_folder_that_only_root_may_read_cannot_be_caged(self):
        daemon = self.home_for("daemon", ["good-c", "good-c as secret"], ["good-c"])
        os.chmod(os.path.join(daemon.home, "plugins/secret"), 0o700)
        with daemon:
            self.assertEqual(daemon.call("good-c", "good.echo", {"n": 1})["n"], 1)
            status = daemon.api("GET", "/plugins/secret")[1]
            self.assertNotEqual(status.get("state"), "running")
            self.assertIn("Permission denied", json.dumps(status))

    def told(self, *capabilities):
        """A daemon of another user, whose one plugin has these capabilities."""
        daemon = self.home_for("daemon", ["does-as-told"])
        manifest = os.path.join(daemon.home, "plugins/does-as-told/kaged-plugin.yaml")
        with open(manifest) as file:
            text = file.read()
        with open(manifest, "w") as file:
            file.write(text.replace("[]", json.dumps(capabilities)))
        return daemon

    def test_plugin_writes_below_config_as_that_user(self):
        with self.told("write:fs:config:/x") as daemon:
            code = "import os; open(os.environ['KAGED_CONFIG_ROOT'] + '/x/note', 'w').write('kept')"
            self.assertEqual(daemon.call("does-as-told", "told.run", {"code": code}),
                             {"result": None})
            note = os.path.join(daemon.home, "plugin-data/does-as-told/x/note")
            self.assertEqual(os.stat(note).st_uid, pwd.getpwnam("daemon").pw_uid)
            with open(note) as file:
                self.assertEqual(file.read(), "kept")

    def test_folder_that_the_user_may_not_write_is_no_plugins_to_write(self):
        with tempfile.TemporaryDirectory(prefix="kaged-") as folder:
            os.chmod(folder, 0o755)
            with self.told(f"write:fs:{folder}") as daemon:
                words = daemon.wait_exit("does-as-told", "cage")["words"]
                self.assertRegex(words, f"open {folder} as uid .*Permission denied")
            os.chown(folder, pwd.getpwnam("daemon").pw_uid, -1)
            with self.told(f"write:fs:{folder}") as daemon:
                code = f"open({folder + '/note'!r}, 'w').write('kept')"
                self.assertEqual(daemon.call("does-as-told", "told.run", {"code": code}),
                                 {"result": None})

    def test_validate_plans_the_cage_of_that_user(self):
        """What is root's own is refused to a root daemon's plugins only; here modes decide."""
        with tempfile.TemporaryDirectory(prefix="kaged-") as folder:
            os.chmod(folder, 0o777)
            daemon = self.told(f"write:fs:{folder}")
            try:
                code, out, err = daemon.cli("plugin", "validate", "--cage",
                                            os.path.join(daemon.home, "plugins/does-as-told"))
                self.assertEqual(code, 0, err)
                self.assertIn(f"may read and write {folder}", out)
            finally:
                daemon.discard()

    def test_home_that_the_user_cannot_reach_is_explained(self):
        daemon = self.home_for("daemon")
        try:
            os.chmod(daemon.base, 0o700)
            done = subprocess.run([KAGED, "--home", daemon.home, "start", "--foreground"],
                                  env=daemon.environment(), capture_output=True, text=True,
                                  timeout=PATIENCE)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr, r"daemon\.user .*Permission denied")
            self.assertIn("chmod o+x", done.stderr)
            code, out, _ = daemon.cli("doctor")
            self.assertEqual(code, 5)
            self.assertRegex(out, r"(?m)^FAIL  folders .*Permission denied")
        finally:
            daemon.discard()

    def test_doctor_says_as_whom_and_tries_a_cage_of_his(self):
        daemon = self.home_for("daemon")
        try:
            code, out, _ = daemon.cli("doctor")
            self.assertIn(code, (0, 1), out)
            self.assertIn("the daemon runs as daemon, kaged-spawner as root, plugins as uid 65534",
                          out)
            self.assertRegex(out, r"(?m)^ok    trial ")
        finally:
            daemon.discard()

    def test_lock_and_log_are_not_written_through_links_of_that_user(self):
        # Whoever owns the folder could make root write to any file of the machine.
        daemon = self.home_for("daemon")
        victim = os.path.join(daemon.base, "victim")
        try:
            with open(victim, "w") as file:
                file.write("untouched")
            os.chmod(victim, 0o600)
            logs = os.path.join(daemon.home, "state/logs")
            os.makedirs(logs)
            os.symlink(victim, os.path.join(logs, "kaged.log"))
            self.assertNotEqual(daemon.cli("start")[0], 0)
            with open(victim) as file:
                self.assertEqual(file.read(), "untouched")
        finally:
            daemon.discard()

    def test_unknown_user_is_explained(self):
        daemon = self.home_for("no-such-user")
        try:
            done = daemon.cli("start")
            self.assertEqual(done[0], 6)
            self.assertIn('daemon.user: there is no user "no-such-user"', done[2])
        finally:
            daemon.discard()


if __name__ == "__main__":
    main()
