"""System plugins: which files are loaded, what they hear and may do, and that none holds the daemon up."""
import contextlib
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import unittest

from browser import Browser, skip_reason
from harness import BUILD, KAGED, PATIENCE, PLUGINS, ROOT, Daemon, FlowTest, main, wait_for
from models import Provider, plain

BUILT = os.path.join(BUILD, "tests/native")
WEBHOOK = os.path.join(BUILD, "system-plugins/webhook-notify.so")
MANUAL = os.path.join(ROOT, "docs/kaged-system-plugin.3.in")
HOOKS = [match.group(1) for match in re.finditer(
    r'^NATIVE_HOOK\(\w+, \w+, "([^"]+)"', open(os.path.join(ROOT, "src/native/hooks.def")).read(), re.M)]
PAGE = os.path.isdir(os.path.join(ROOT, "build/web/files"))
SHUTDOWN = -108  # -ESHUTDOWN


def digest(path):
    with open(path, "rb") as file:
        return "sha256:" + hashlib.sha256(file.read()).hexdigest()


def put(daemon, path, mode=0o755):
    """A copy that belongs to the daemon's user, below its home; where it is."""
    folder = os.path.join(os.path.realpath(daemon.base), "so")
    os.makedirs(folder, mode=0o755, exist_ok=True)
    copy = os.path.join(folder, os.path.basename(path))
    shutil.copyfile(path, copy)
    os.chmod(copy, mode)
    return copy


def table(name, path, hooks=(), config="", hash=None, more=""):
    """The text of its table in local.toml."""
    hash = digest(path) if hash is None else hash
    return (f'[system_plugins.{name}]\npath = "{path}"\n' + (f'hash = "{hash}"\n' if hash else "") +
            f"hooks = {json.dumps(list(hooks))}\n{more}\n[system_plugins.{name}.config]\n{config}\n")


def daemon_with(act="", hooks=(), more="", extra="", plugins=(), **options):
    daemon = Daemon(plugins, **options)
    path = put(daemon, os.path.join(BUILT, "acts.so"))
    file = os.path.join(daemon.base, "file")
    daemon.write_local(table("acts", path, hooks, f'act = "{act}"\nfile = "{file}"\n' + extra, more=more))
    daemon.file = file
    return daemon


def shown(daemon, name="acts"):
    status, answer = daemon.api("GET", f"/system-plugins/{name}")
    assert status == 200, answer
    return answer


def wait_shown(daemon, state, name="acts"):
    return wait_for(lambda: (lambda seen: seen if seen["state"] == state else None)(shown(daemon, name)),
                    f"{name} is {state}")


def told(daemon, what):
    return [event for event in daemon.audit("system_plugin.event") if event["what"] == what]


def wait_told(daemon, what):
    return wait_for(lambda: told(daemon, what), f"the event {what}")


def failed_start(daemon):
    """What a daemon says that does not start."""
    done = subprocess.run([KAGED, "--home", daemon.home, "start", "--foreground"],
                          env=daemon.environment(), capture_output=True, text=True, timeout=PATIENCE * 3)
    return done.returncode, done.stderr


class Files(FlowTest):
    """What is loaded, and what is not."""

    def refused(self, daemon, words, **more):
        """It is left out with these words, and all else goes on."""
        with daemon:
            seen = wait_shown(daemon, "failed", **more)
            self.assertIn(words, seen["problem"])
            event = daemon.wait_audit("system_plugin.refused")[0]
            self.assertIn(words, event["reason"])
            code, text, error = daemon.cli("doctor")
            self.assertIn(code, (1, 5))
            self.assertIn(words, text + error)
            return seen

    def other(self, path, **options):
        daemon = Daemon([])
        daemon.write_local(table("acts", put(daemon, path), **options))
        return daemon

    def test_a_file_with_another_hash_is_left_out_and_the_new_one_is_told(self):
        daemon = self.other(os.path.join(BUILT, "acts.so"), hash="sha256:" + "0" * 64)
        new = digest(os.path.join(BUILT, "acts.so"))
        seen = self.refused(daemon, new)
        self.assertIn(f'hash = "{new}"', seen["hint"])

    def test_a_table_without_a_hash_is_told_it(self):
        self.refused(self.other(os.path.join(BUILT, "acts.so"), hash=""), "its table has no hash; the file's is sha256:")

    def test_a_text_file_is_no_plugin(self):
        self.refused(self.other(MANUAL), "not a shared object")

    def test_a_file_for_another_machine_is_no_plugin(self):
        daemon = Daemon([])
        path = put(daemon, os.path.join(BUILT, "acts.so"))
        with open(path, "r+b") as file:
            file.seek(18)  # e_machine
            file.write(b"\xf3\x00")
        daemon.write_local(table("acts", path))
        self.refused(daemon, "another machine")

    def test_a_file_without_a_table_is_no_plugin(self):
        self.refused(self.other(os.path.join(BUILT, "tableless.so")), "it has no table kaged_system_plugin")

    def test_a_newer_table_is_refused_only_if_it_uses_what_is_not_known(self):
        self.refused(self.other(os.path.join(BUILT, "newer.so")), "newer kaged")
        with self.other(os.path.join(BUILT, "newer-empty.so")) as daemon:
            wait_shown(daemon, "running")

    def test_who_else_could_write_the_file_or_a_folder_of_it_keeps_it_out(self):
        daemon = self.other(os.path.join(BUILT, "acts.so"))
        os.chmod(os.path.join(daemon.base, "so/acts.so"), 0o775)
        self.refused(daemon, "can be written by others")
        daemon = self.other(os.path.join(BUILT, "acts.so"))
        os.chmod(os.path.join(daemon.base, "so"), 0o777)
        self.refused(daemon, "/so can be written by others (mode 0777)")

    def test_a_link_is_not_followed(self):
        daemon = Daemon([])
        path = put(daemon, os.path.join(BUILT, "acts.so"))
        os.symlink(path, path + ".link")
        daemon.write_local(table("acts", path + ".link", hash=digest(path)))
        self.refused(daemon, "is a symbolic link")

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a file to somebody else")
    def test_a_file_of_somebody_else_is_left_out(self):
        daemon = self.other(os.path.join(BUILT, "acts.so"))
        os.chown(os.path.join(daemon.base, "so/acts.so"), 12345, 12345)
        self.refused(daemon, "belongs to uid 12345")

    def test_an_error_at_its_start_leaves_it_out_with_its_words(self):
        self.refused(daemon_with("fail"), "it was told to fail")

    def test_a_hook_that_its_table_does_not_name_is_not_had(self):
        seen = self.refused(daemon_with("slow", hooks=["daemon.shutdown"]), "it registers the hook daemon.ready")
        self.assertIn("[system_plugins.acts]", seen["hint"])

    def test_a_hook_that_there_is_not_is_told_with_the_nearest(self):
        seen = self.refused(daemon_with("slow", hooks=["daemon.redy"]), "daemon.redy, which is not a hook")
        self.assertIn("daemon.ready", seen["hint"])

    def test_a_secret_that_is_missing_leaves_out_this_one_alone(self):
        self.refused(daemon_with(extra='key = "${secret:nowhere}"\n'), "nowhere")

    def test_what_is_required_stops_the_start(self):
        daemon = daemon_with("fail", more="required = true")
        try:
            code, error = failed_start(daemon)
            self.assertNotEqual(code, 0)
            self.assertIn("system plugin acts, which is required: it does not start: it was told to fail", error)
        finally:
            daemon.discard()

    def test_tables_that_cannot_be_meant_are_errors_with_their_place(self):
        for text, words in [
                ('[system_plugins.x]\npath = "so"\n', "2:8: path takes an absolute path"),
                ('[system_plugins.x]\nhooks = []\n', "does not say its path"),
                ('[system_plugins.x]\npath = "/x.so"\nhoks = []\n', "3:1: unknown key hoks"),
                ('[system_plugins.x]\npath = "/x.so"\nhash = "abc"\n', "hash takes"),
                ('[system_plugins.x]\npath = "/x.so"\nhooks = "all"\n', "hooks takes a list"),
                ('[system_plugins.x]\npath = "/x.so"\nrequired = 1\n', "required takes true or false"),
                ('[system_plugins."../x"]\npath = "/x.so"\n', "a name in [system_plugins]"),
                ('[system_plugins.".."]\npath = "/x.so"\n', 'cannot begin with "."')]:
            with self.subTest(words):
                daemon = Daemon([])
                try:
                    daemon.write_local(text)
                    code, error = failed_start(daemon)
                    self.assertEqual(code, 6, error)
                    self.assertIn(words, error)
                finally:
                    daemon.discard()


class Hooks(FlowTest):
    def test_each_hears_what_it_may_and_secrets_only_where_they_are_meant(self):
        with daemon_with("tell", hooks=HOOKS, config={"daemon.bind": "127.0.0.1:0"}, plugins=["good-c"]) as daemon:
            seen = wait_shown(daemon, "running")
            self.assertEqual(sorted(seen["hooks"]), sorted(HOOKS))
            with open(os.path.join(ROOT, "schema/api-v1.json")) as file:
                self.assertEqual(sorted(seen), sorted(json.load(file)["SystemPlugin"]["required"]))
            url = wait_told(daemon, "auth.launchUrlReady")[0]["details"]
            with open(os.path.join(daemon.home, "run/launch-url")) as file:
                self.assertEqual(url["url"], file.read().strip())
            token = url["url"].split("token=")[1]
            for what in ("daemon.starting", "daemon.ready", "auth.nonceIssued", "plugin.state",
                         "transport.connected", "transport.request", "transport.closed"):
                details = wait_told(daemon, what)[0]["details"]
                self.assertEqual(details["event"], what)
                self.assertNotIn(token, json.dumps(details))
            self.assertEqual(daemon.api("POST", "/reload")[0], 200)
            wait_told(daemon, "config.updated")
            self.assertNotIn("applies when the daemon starts", daemon.log())
            self.assertEqual(daemon.api("POST", "/plugins", {"source": os.path.join(PLUGINS, "good-bash")})[0], 202)
            self.assertEqual(wait_told(daemon, "consent.raised")[0]["details"]["kind"], "install")
            event = daemon.wait_audit("system_plugin.loaded")[0]
            self.assertEqual((event["name"], event["hash"]), ("acts", seen["hash"]))
            self.assertIn("running", daemon.cli("system-plugin", "list")[1])
            self.assertIn("auth.launchUrlReady", daemon.cli("system-plugin", "status", "acts")[1])
            self.assertEqual(daemon.cli("system-plugin", "status", "nobody")[0], 4)

    def test_failed_logins_and_sessions_are_told(self):
        with daemon_with("tell", hooks=HOOKS, config={"daemon.bind": "127.0.0.1:0"}) as daemon:
            url = wait_told(daemon, "auth.launchUrlReady")[0]["details"]["url"]
            host, port = url.split("/")[2].rsplit(":", 1)

            def get(path):
                with socket.create_connection((host, int(port)), timeout=PATIENCE) as client:
                    client.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
                    return client.recv(65536)

            self.assertIn(b" 401 ", get("/?token=wrong"))
            self.assertEqual(wait_told(daemon, "auth.failed")[0]["details"]["via"], "launch")
            self.assertIn(b" 303 ", get("/" + url.split("/", 3)[3]))
            wait_told(daemon, "auth.cookieIssued")

    def test_a_change_of_their_tables_waits_for_the_next_start(self):
        with daemon_with("tell", hooks=HOOKS) as daemon:
            wait_shown(daemon, "running")
            daemon.write_local("")
            self.assertEqual(daemon.api("POST", "/reload")[0], 200)
            self.assertIn("[system_plugins] of local.toml was changed: that applies when the daemon starts", daemon.log())
            self.assertEqual(shown(daemon)["state"], "running")

    def test_without_a_daemon_doctor_says_whether_they_could_be_loaded(self):
        daemon = daemon_with("tell", hooks=HOOKS)
        try:
            self.assertIn("acts: its file may be loaded", daemon.cli("doctor")[1])
            os.chmod(os.path.join(daemon.base, "so/acts.so"), 0o777)
            code, text, _ = daemon.cli("doctor")
            self.assertIn(code, (1, 5))
            self.assertIn("acts: ", text)
            self.assertIn("can be written by others", text)
        finally:
            daemon.discard()

    def test_other_threads_reach_the_loop_and_timers(self):
        with daemon_with("threads", hooks=["daemon.ready"]) as daemon:
            wait_told(daemon, "loop")
            wait_told(daemon, "timer")

    def test_what_does_not_fit_is_refused_and_bounded(self):
        with daemon_with("badly", hooks=["daemon.ready"]) as daemon:
            details = wait_told(daemon, "refused")[0]["details"]
            self.assertEqual(details, {"http": [-22] * 3, "audit": [-22] * 2, "timers": 64})

    def test_one_that_takes_long_is_named_in_log_and_doctor(self):
        with daemon_with("slow", hooks=["daemon.ready"]) as daemon:
            wait_for(lambda: shown(daemon)["slow"] > 0, "a slow call")
            self.assertIn("system plugin acts: hook daemon.ready took ", daemon.log())
            self.assertIn("hook daemon.ready took", daemon.cli("doctor")[1])

    def test_one_that_blocks_holds_nobody_up_and_its_queue_is_bounded(self):
        with daemon_with("wait", hooks=["transport.request", "daemon.ready"]) as daemon:
            wait_for(lambda: shown(daemon)["busy"] == "hook transport.request", "it blocks")
            for _ in range(200):
                daemon.api("GET", "/system-plugins")
            seen = shown(daemon)
            self.assertEqual(seen["waiting"], 128)
            self.assertGreater(seen["dropped"], 0)
            wait_for(lambda: "it has been in hook transport.request for" in daemon.log(), "the log names it")
            wait_for(lambda: "it has been in" in daemon.cli("doctor")[1], "doctor names it")
            open(daemon.file, "w").close()
            wait_for(lambda: shown(daemon)["waiting"] < 100, "it goes on")

    def test_a_daemon_stops_although_one_does_not_come_back(self):
        with daemon_with("wait", hooks=["transport.request", "daemon.ready"]) as daemon:
            wait_for(lambda: shown(daemon)["busy"] == "hook transport.request", "it blocks")
            daemon.stop()
            self.assertIn("is left behind", daemon.log())
            open(daemon.file, "w").close()
            daemon.start()
            self.assertIsNone(shown(daemon)["left_in"])

    def test_a_start_that_hangs_does_not_hold_the_daemon_up(self):
        with daemon_with("hang") as daemon:
            self.assertEqual(shown(daemon)["state"], "starting")

    def test_it_can_call_when_all_is_over_and_nothing_happens(self):
        with daemon_with("late") as daemon:
            wait_shown(daemon, "running")
            daemon.stop()
            with open(daemon.file) as file:
                self.assertEqual(file.read(), f"{SHUTDOWN} {SHUTDOWN} {SHUTDOWN} {SHUTDOWN}\n")
            os.unlink(daemon.file)
            daemon.start()

    def test_after_a_crash_the_next_start_names_what_it_was_doing(self):
        daemon = daemon_with("die", hooks=["daemon.ready"])
        try:
            process = daemon.popen("start", "--foreground", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.assertEqual(process.wait(PATIENCE * 3), -9)
            daemon.write_local(open(os.path.join(daemon.home, "local.toml")).read().replace('"die"', '"live"'))
            with daemon:
                self.assertEqual(shown(daemon)["left_in"], "hook daemon.ready")
                self.assertEqual(daemon.wait_audit("system_plugin.left")[0]["doing"], "hook daemon.ready")
                self.assertIn("the daemon ended while system plugin acts was in: hook daemon.ready", daemon.log())
                self.assertIn("hook daemon.ready", daemon.cli("doctor")[1])
        finally:
            daemon.discard()


@unittest.skipUnless(PAGE and not skip_reason(), skip_reason() or "the page was built without npm")
class Page(FlowTest):
    def test_the_view_of_the_daemon_has_them_with_what_is_wrong(self):
        with daemon_with("fail", config={"daemon.bind": "127.0.0.1:0"}) as daemon, Browser() as browser:
            wait_shown(daemon, "failed")
            browser.enter(daemon, "daemon")
            browser.wait_text("main", "System plugins")
            browser.wait_text("main", "it was told to fail")


class Webhook(FlowTest):
    def webhook(self, server, config="", events=None, plugins=(), **more):
        daemon = Daemon(plugins, config={"daemon.bind": "127.0.0.1:0", **more})
        hooks = ["auth.launchUrlReady", "plugin.state", "consent.raised", "audit.unavailable"]
        text = f'url = "{server.url}"\n' + (f"events = {json.dumps(events)}\n" if events else "") + config
        daemon.write_local(table("webhook-notify", put(daemon, WEBHOOK), hooks, text))
        return daemon

    def requests(self, server, count):
        return wait_for(lambda: server.requests[:count] if len(server.requests) >= count else None,
                        f"{count} requests")

    def test_the_launch_url_reaches_a_server_with_the_secret_header(self):
        with Provider(plain(200)) as server, \
                self.webhook(server, 'header = "X-Key: sesame"\n') as daemon:
            (head, body), = self.requests(server, 1)
            text = head if isinstance(head, str) else head.decode()
            self.assertIn("x-key: sesame", text.lower())
            with open(os.path.join(daemon.home, "run/launch-url")) as file:
                self.assertEqual(body["url"], file.read().strip())
            self.assertNotIn("sesame", daemon.log())
            wait_for(lambda: [event for event in daemon.audit("system_plugin.connection")
                              if event["outcome"] == "connected"], "the connection is audited")

    def test_the_body_is_a_template_for_what_its_events_name(self):
        with Provider(plain(200)) as server, \
                self.webhook(server, "body = '{\"text\": \"{event}: {message}\"}'\n", events=["plugin.failed"],
                             plugins=["wrong-name"]) as daemon:
            self.assertEqual(wait_shown(daemon, "running", "webhook-notify")["hooks"], ["plugin.state"])
            (_, body), = self.requests(server, 1)
            self.assertRegex(body["text"], "^plugin.failed: plugin wrong-name has failed: ")

    @unittest.skipUnless(os.geteuid() == 0, "only root can make a small disk")
    def test_an_audit_log_that_cannot_be_written_is_told(self):
        # Nobody else may connect then: a connection that cannot be audited is not made.
        with Provider(plain(200)) as server:
            daemon = self.webhook(server, 'body = \'{"text": "{message}"}\'\n', events=["audit.unavailable"])
            disk = os.path.join(daemon.home, "state/audit")
            os.makedirs(disk)
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "none", disk], check=True)
            try:
                daemon.start()
                wait_shown(daemon, "running", "webhook-notify")
                with open(os.path.join(disk, "ballast"), "wb", buffering=0) as ballast:
                    with contextlib.suppress(OSError):
                        while True:
                            ballast.write(b"x" * 4096)
                wait_for(lambda: (daemon.api("POST", "/reload"), daemon.api("GET", "/status"))[1][1]["audit_problem"],
                         "events that find no room")
                (_, body), = self.requests(server, 1)
                self.assertIn("the audit log cannot be written: ", body["text"])
                os.unlink(os.path.join(disk, "ballast"))
                wait_for(lambda: [event for event in daemon.audit("system_plugin.connection")
                                  if event["outcome"] == "connected"], "the connection is audited later")
                daemon.stop()
            finally:
                daemon.kill_if_running()
                subprocess.run(["umount", disk], check=True)
                daemon.discard()

    def test_a_server_that_is_not_well_is_asked_again(self):
        with Provider(plain(503), plain(200)) as server, self.webhook(server) as daemon:
            first, second = self.requests(server, 2)
            self.assertEqual(first[1], second[1])
            self.assertIn("was not taken: status 503", daemon.log())

    def test_a_server_that_is_away_delays_no_start(self):
        with Provider(lambda connection: connection.recv(1)) as server, self.webhook(server) as daemon:
            self.assertEqual(daemon.api("GET", "/status")[0], 200)
            wait_for(lambda: shown(daemon, "webhook-notify")["state"] == "running", "it runs")

    def test_settings_that_cannot_be_meant_leave_it_out_with_a_sentence(self):
        for config, words in [('body = "{nobody}"', "body has a {word}"), ('event = "x"', "another key"),
                              ('events = ["auth.launch"]', "events takes a list"),
                              ('header = "sesame"', "header takes a line")]:
            with self.subTest(words), Provider() as server, self.webhook(server, config + "\n") as daemon:
                self.assertIn(words, wait_shown(daemon, "failed", "webhook-notify")["problem"])


class Manual(FlowTest):
    def test_the_plugin_of_the_manual_compiles_and_runs(self):
        with open(MANUAL) as file:
            source = re.search(r"^\.EX\n(/\* launch\\-hook.*?)^\.EE$", file.read(), re.M | re.S).group(1)
        source = re.sub(r"^\\&", "", source, flags=re.M).replace("\\-", "-").replace("\\e", "\\")
        self.assertLessEqual(len(source.splitlines()), 32)
        with Provider(plain(200)) as server:
            daemon = Daemon([], config={"daemon.bind": "127.0.0.1:0"})
            path = os.path.join(daemon.base, "launch-hook.so")
            with open(os.path.join(daemon.base, "launch-hook.c"), "w") as file:
                file.write(source)
            subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-I", os.path.join(ROOT, "include"),
                            "-o", path, os.path.join(daemon.base, "launch-hook.c")], check=True)
            os.chmod(path, 0o755)
            path = put(daemon, path)
            daemon.write_local(table("launch-hook", path, ["auth.launchUrlReady"], f'url = "{server.url}"\n'))
            with daemon:
                body = wait_for(lambda: server.requests[:1], "the launch URL")[0][1]
                self.assertIn("?token=", body["url"])
                wait_for(lambda: "the webhook answered 200" in daemon.log(), "its log")


if __name__ == "__main__":
    main()
