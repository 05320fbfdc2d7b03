"""kaged plugin dev: a plugin runs from its author's folder while it changes.

What it may do is agreed to first, and again when that grows; its code is not. The run ends with the
command, and whatever was there before comes back.
"""
import contextlib
import fcntl
import http.client
import json
import os
import shutil
import signal
import struct
import subprocess
import termios
import unittest

from harness import KAGED, PLUGINS, Daemon, FlowTest, main, wait_for
from terminal import CTRL_C, PROMPT, Terminal

PROGRAM = """#!/usr/bin/env python3
import json, os, sys
print("ANSWER starts", file=sys.stderr, flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "shutdown":
        break
    result = {"status": "ok"}
    if message.get("method") == "initialize":
        result = {"name": "good-python", "version": "1.0.0", "api_version": 1,
                  "methods": ["good.echo"], "notifications": [], "capabilities_used": []}
    elif message.get("method") == "good.echo":
        print("asked for ANSWER", file=sys.stderr, flush=True)
        result = {"answer": "ANSWER", "sees": os.path.exists("/opt")}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
MANIFEST = """name: good-python
version: 1.0.0
kaged_api: 1
description: It is being written.
command: [./plugin.py]
capabilities: []
methods: [good.echo]
"""
CONSENT = """\
For development: plugin good-python
  version: 1.0.0
  description: It is being written.
  folder: {folder}

It runs from that folder until this command ends. Its code may change there without
another question; if it asks for more than this, it is stopped until you agree.
"""


class Dev(FlowTest):
    """A daemon with good-python installed, which answers with what it is asked."""
    plugins = ["good-python"]

    def setUp(self):
        self.folder = os.path.join(os.path.realpath(self.daemon.base), "work")
        os.mkdir(self.folder, mode=0o755)
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.addCleanup(self.wait_back)
        self.write_program("one")
        self.write("kaged-plugin.yaml", MANIFEST)

    def wait_back(self):
        """The run is over, and what is installed runs again."""
        self.daemon.wait_status("good-python",
                                lambda status: not status["dev"] and status["state"] == "running",
                                "the installed version")

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.folder, name)
        with open(path + "~", "w") as file:
            file.write(text)
            os.fchmod(file.fileno(), mode)
        os.rename(path + "~", path)  # as editors do

    def write_program(self, answer):
        self.write("plugin.py", PROGRAM.replace("ANSWER", answer), 0o755)

    def dev(self, *flags, **environment):
        terminal = Terminal([KAGED, "--home", self.daemon.home, "plugin", "dev", *flags,
                             self.folder],
                            {**self.daemon.environment(), "NO_COLOR": "1", **environment})
        self.addCleanup(terminal.__exit__)
        return terminal

    def start(self, *flags, **environment):
        terminal = self.dev(*flags, **environment)
        terminal.read_until(PROMPT)
        terminal.type("y\n")
        terminal.read_until("Ctrl-C ends it")
        self.daemon.wait_state("good-python", "running")
        return terminal

    def end(self, terminal):
        terminal.type(CTRL_C)
        code, text = terminal.end()
        self.assertEqual(code, 0, text)
        return text

    def wait_answer(self, answer):
        def ask():
            status, got = self.daemon.try_call("good-python", "good.echo")
            return status == 200 and got.get("answer") == answer
        wait_for(ask, f"the answer {answer}")

    def without_terminal(self, *flags):
        return subprocess.Popen([KAGED, "--home", self.daemon.home, *flags, self.folder],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, start_new_session=True,
                                env=self.daemon.environment())

    # consent

    def test_the_consent_says_what_a_yes_means_and_a_no_changes_nothing(self):
        before = self.daemon.status("good-python")["starts"]
        terminal = self.dev()
        terminal.read_until(PROMPT)
        self.assertFalse(self.daemon.status("good-python")["dev"])
        terminal.type("n\n")
        code, text = terminal.end()
        self.assertEqual(code, 5)
        self.assertTrue(text.startswith(CONSENT.format(folder=self.folder)), text)
        self.assertIn("Version 1.0.0 is installed: it is stopped meanwhile", text)
        self.assertIn("\n  capabilities: none\n\nRun good-python?", text)
        self.assertIn("kaged: declined: nothing was done\n", text)
        self.assertEqual(self.daemon.status("good-python")["starts"], before)

    def test_without_a_terminal_it_needs_yes(self):
        with self.without_terminal("plugin", "dev") as run:
            out, err = run.communicate(timeout=60)
        self.assertEqual((run.returncode, out), (5, ""))
        self.assertIn("--yes", err)

    def test_yes_is_none_to_capabilities_that_come_later(self):
        with self.without_terminal("plugin", "dev", "--yes") as run:
            self.wait_answer("one")
            self.write("kaged-plugin.yaml", MANIFEST.replace("[]", '["read:fs:/opt"]'))
            _, err = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 5)
        self.assertIn("--yes does not allow new capabilities: read:fs:/opt", err)

    def test_later_capabilities_can_be_allowed_beforehand(self):
        with self.without_terminal("plugin", "dev", "--yes", "--allow-new-capabilities") as run:
            self.wait_answer("one")
            self.assertFalse(self.daemon.call("good-python", "good.echo")["sees"])
            self.write("kaged-plugin.yaml", MANIFEST.replace("[]", '["read:fs:/opt"]'))
            wait_for(lambda: self.daemon.try_call("good-python", "good.echo")[1].get("sees"),
                     "the new capability")
            run.send_signal(signal.SIGINT)
            out, err = run.communicate(timeout=60)
        self.assertEqual((run.returncode, err), (0, ""))
        self.assertNotIn("\x1b", out)

    def test_an_interrupt_in_the_middle_of_its_output_breaks_no_line(self):
        # It ended with "write the result: Interrupted system call".
        with self.without_terminal("plugin", "dev", "--yes", "--json") as run:
            self.wait_answer("one")
            fcntl.fcntl(run.stdout, fcntl.F_SETPIPE_SZ, 4096)
            for _ in range(60):  # nobody reads what is said about them: it waits in a write
                self.daemon.call("good-python", "good.echo")
            wait_for(lambda: struct.unpack("i", fcntl.ioctl(run.stdout, termios.FIONREAD, bytes(4)))
                     [0] > 3000, "a full pipe")
            run.send_signal(signal.SIGINT)
            out, err = run.communicate(timeout=60)
        self.assertEqual((run.returncode, err), (0, ""))
        self.assertGreater(len([json.loads(line) for line in out.splitlines()]), 10)

    # running

    def test_an_approved_run_answers_from_its_folder_and_leaves_the_store_alone(self):
        local = os.path.join(self.daemon.home, "local.toml")
        with open(local) as file:
            before = file.read()
        terminal = self.start()
        self.assertEqual(self.daemon.call("good-python", "good.echo")["answer"], "one")
        status = self.daemon.status("good-python")
        self.assertEqual((status["dev"], status["dir"]), (True, self.folder))
        self.assertIn(f"good-python is dev: it runs from {self.folder}\n",
                      self.daemon.cli("plugin", "list")[1])
        self.assertIn(f"run by kaged plugin dev, from {self.folder}\n",
                      self.daemon.cli("plugin", "status", "good-python")[1])
        with open(local) as file:
            self.assertEqual(file.read(), before)
        event = self.daemon.audit("plugin.dev_started")[-1]
        self.assertEqual((event["name"], event["folder"]), ("good-python", self.folder))
        self.end(terminal)
        self.wait_back()
        self.assertEqual(self.daemon.audit("plugin.dev_ended")[-1]["folder"], self.folder)

    def test_a_change_of_the_program_restarts_it(self):
        terminal = self.start()
        self.write_program("two")
        self.wait_answer("two")
        terminal.read_until("*** changed: plugin.py")
        terminal.read_until("is started again")
        self.end(terminal)

    def test_a_failed_one_is_started_again_by_a_change(self):
        terminal = self.start()
        self.write("plugin.py", PROGRAM.replace('"version": "1.0.0"', '"version": "9.9.9"'), 0o755)
        self.daemon.wait_state("good-python", "failed")
        terminal.read_until("it is started again when you change it")
        self.write_program("three")
        self.wait_answer("three")

    def test_a_manifest_that_cannot_be_used_keeps_the_old_one_and_says_where(self):
        terminal = self.start()
        self.write("kaged-plugin.yaml", MANIFEST.replace("methods: [", "methods: {"))
        terminal.read_until(f"{self.folder}/kaged-plugin.yaml:")
        terminal.read_until("stays as it was")
        self.assertEqual(self.daemon.call("good-python", "good.echo")["answer"], "one")
        self.write("kaged-plugin.yaml", MANIFEST.replace("good-python", "other"))
        terminal.read_until("the plugin is called other now, and was good-python")
        self.assertEqual(self.daemon.call("good-python", "good.echo")["answer"], "one")
        self.write("kaged-plugin.yaml", MANIFEST)
        terminal.read_until("is started again")

    def test_a_new_capability_stops_it_until_the_next_yes(self):
        terminal = self.start()
        self.assertFalse(self.daemon.call("good-python", "good.echo")["sees"])
        self.write("kaged-plugin.yaml", MANIFEST.replace("[]", '["read:fs:/opt"]'))
        terminal.read_until("+ read:fs:/opt")
        self.daemon.wait_state("good-python", "disabled")
        self.assert_error(self.daemon.try_call("good-python", "good.echo"), 502, "plugin_down")
        status, answer = self.daemon.api("POST", "/plugins/good-python/restart")
        self.assert_error((status, answer["error"]), 409, "conflict")
        self.assertIn("asks for more than was agreed to", answer["error"]["message"])
        terminal.read_until(PROMPT)
        terminal.type("y\n")
        terminal.read_until("Allow its new capability read:fs:/opt? " + PROMPT)
        terminal.type("y\n")
        terminal.read_until("is started again")
        self.wait_answer("one")
        self.assertTrue(self.daemon.call("good-python", "good.echo")["sees"])
        self.assertIn("read:fs:/opt", self.daemon.status("good-python")["capabilities"])

    def test_a_yes_to_what_was_shown_is_none_to_what_came_meanwhile(self):
        terminal = self.start()
        self.write("kaged-plugin.yaml", MANIFEST.replace("[]", '["read:fs:/opt"]'))
        terminal.read_until(PROMPT)
        self.write("kaged-plugin.yaml", MANIFEST.replace("[]", '["read:fs:/opt", "read:fs:/srv"]'))
        terminal.type("y\n")
        terminal.read_until(PROMPT)
        terminal.type("y\n")
        terminal.read_until("+ read:fs:/srv")
        self.assertNotIn("read:fs:/srv", self.daemon.status("good-python")["capabilities"])

    def test_a_restart_takes_nothing_that_was_not_agreed_to(self):
        terminal = self.start()
        self.write("kaged-plugin.yaml", MANIFEST.replace("[]", '["read:fs:/opt"]'))
        self.daemon.api("POST", "/plugins/good-python/restart")
        terminal.read_until(PROMPT)
        terminal.type("n\n")
        terminal.read_until("it is stopped until its manifest asks for less")
        self.assertEqual(self.daemon.status("good-python")["capabilities"], [])
        self.write("kaged-plugin.yaml", MANIFEST)
        self.wait_answer("one")
        self.assertFalse(self.daemon.call("good-python", "good.echo")["sees"])

    def test_more_hooks_are_asked_for_too(self):
        terminal = self.start()
        self.write("kaged-plugin.yaml", MANIFEST + "hooks: [on_session_start]\n")
        terminal.read_until("hooks: +on_session_start")
        terminal.read_until(PROMPT)
        terminal.type("y\n")
        terminal.read_until("is started again")

    # its end

    def test_a_killed_command_ends_it_and_the_installed_one_returns(self):
        terminal = self.start()
        terminal.process.kill()
        self.wait_back()
        answer = self.daemon.call("good-python", "good.echo", {"a": 1})
        self.assertEqual(answer["a"], 1)

    def test_one_that_is_not_installed_is_gone_afterwards(self):
        self.write("kaged-plugin.yaml", MANIFEST.replace("good-python", "only-here"))
        self.write("plugin.py", PROGRAM.replace("good-python", "only-here"), 0o755)
        for _ in range(2):
            terminal = self.dev()
            terminal.read_until(PROMPT)
            terminal.type("y\n")
            self.daemon_wait("only-here")
            self.assertEqual(self.daemon.call("only-here", "good.echo")["answer"], "ANSWER")
            self.end(terminal)
            wait_for(lambda: self.daemon.api("GET", "/plugins/only-here")[0] == 404, "its end")

    def daemon_wait(self, name):
        wait_for(lambda: self.daemon.api("GET", f"/plugins/{name}")[1].get("state") == "running",
                 f"{name} running")

    def test_a_second_run_of_that_name_is_refused(self):
        self.start()
        code, _, err = self.daemon.cli("plugin", "dev", "--yes", self.folder)
        self.assertEqual(code, 1)
        self.assertIn(f"is already run for development, from {self.folder}", err)

    def test_a_run_that_follows_at_once_waits_for_the_end_of_the_one_before(self):
        self.start().process.kill()
        self.end(self.start())

    def test_the_store_does_not_touch_a_plugin_that_is_run_so(self):
        self.start()
        for words in (["disable"], ["reload"], ["uninstall"], ["enable"]):
            code, _, err = self.daemon.cli("plugin", *words, "good-python")
            self.assertEqual(code, 1, words)
            self.assertIn("is run for development", err)

    def test_a_folder_that_is_removed_ends_the_run(self):
        terminal = self.start()
        shutil.rmtree(self.folder)
        code, text = terminal.end()
        self.assertEqual(code, 4)
        self.assertIn(f"kaged: folder {self.folder}: it does not exist\n", text)

    def test_thousands_of_changes_are_few_restarts(self):
        terminal = self.start()
        before = self.daemon.status("good-python")["starts"]
        inner = os.path.join(self.folder, "gen/deep")
        os.makedirs(inner)
        for index in range(3000):
            with open(os.path.join(inner, f"{index}.txt"), "w") as file:
                file.write("x")
        self.write_program("many")
        self.wait_answer("many")
        self.assertLess(self.daemon.status("good-python")["starts"] - before, 12)
        terminal.read_until("is started again")

    def test_what_tools_keep_for_themselves_is_no_change(self):
        terminal = self.start()
        for name in ("node_modules", ".git", "__pycache__"):
            os.mkdir(os.path.join(self.folder, name))
        self.write("plugin.py.swp", "")
        self.write(".git/index", "")
        self.write_program("after")
        terminal.read_until("*** changed: plugin.py\r\n")
        self.wait_answer("after")
        self.assertEqual(self.end(terminal).count("*** changed"), 1)

    # what is shown

    def test_messages_and_stderr_are_shown_in_order(self):
        terminal = self.start()
        self.daemon.call("good-python", "good.echo", {"text": "x" * 300, "last": "word"})
        terminal.read_until('"answer": "one"')
        text = self.end(terminal)
        self.assertRegex(text, r"(?s)--> initialize #1 .*err one starts.*<-- initialize #1 \d.*"
                               r"--> initialized .*=== spawning -> running.*"
                               r"--> good\.echo #2 \{\"text\": \"xxx.*err asked for one.*"
                               r"<-- good\.echo #2 [\d.]+(us|ms|s) \{\"answer\": \"one\"")
        lines = [line for line in text.split("\n") if "-->" in line or "<--" in line]
        self.assertTrue(all(len(line) <= 100 for line in lines), lines)
        self.assertNotIn("word", text)

    def test_full_shows_messages_whole(self):
        terminal = self.start("--full")
        self.daemon.call("good-python", "good.echo", {"text": "x" * 300, "last": "word"})
        terminal.read_until('"last": "word"')

    def test_colours_on_a_terminal_only_if_they_are_wanted(self):
        self.assertNotIn("\x1b[3", self.end(self.start()))
        coloured = self.start(NO_COLOR="")
        coloured.read_until("\x1b[36m-->\x1b[0m initialize")
        coloured.read_until("\x1b[2mone starts\x1b[0m")

    def test_json_is_what_the_daemon_told(self):
        with self.without_terminal("--json", "plugin", "dev", "--yes") as run:
            self.wait_answer("one")
            lines = [json.loads(run.stdout.readline())]
            while "good.echo" not in lines[-1].get("line", ""):
                lines.append(json.loads(run.stdout.readline()))
            run.kill()
        kinds = [line.get("type") or line["dir"] for line in lines]
        self.assertEqual(kinds[0], "consent")
        for kind in ("started", "state", "to", "from", "stderr"):
            self.assertIn(kind, kinds)
        times = [line["t_us"] for line in lines]
        self.assertEqual(times, sorted(times))


class Folders(FlowTest):
    """What may not be run, with the reason in words."""
    plugins = []
    config = {"daemon.bind": "127.0.0.1:0"}

    def refused(self, path, code, *words):
        done = self.daemon.cli("plugin", "dev", "--yes", path)
        self.assertEqual(done[0], code, done)
        for word in words:
            self.assertIn(word, done[2])

    def folder(self, name):
        path = os.path.join(os.path.realpath(self.daemon.base), name)
        shutil.copytree(os.path.join(PLUGINS, "good-python"), path)
        self.addCleanup(shutil.rmtree, path)
        return path

    def test_folders_of_the_system_and_of_kaged_itself(self):
        self.refused("/etc", 5, "it is the system's own")
        self.refused("/proc/self", 5)
        for path in (self.daemon.home, os.path.join(self.daemon.home, "plugins"),
                     self.daemon.base):
            self.refused(os.path.realpath(path), 5, "belongs to kaged itself")

    def test_what_is_not_there_or_no_plugin(self):
        path = self.folder("no-plugin")
        self.refused(path + "/nowhere", 4, "it does not exist")
        self.refused(path + "/plugin.py", 5, "it is not a folder")
        os.remove(path + "/kaged-plugin.yaml")
        self.refused(path, 6, "there is no kaged-plugin.yaml")
        os.symlink("/etc/passwd", path + "/kaged-plugin.yaml")
        self.refused(path, 1, "kaged-plugin.yaml")
        os.remove(path + "/kaged-plugin.yaml")
        os.mkfifo(path + "/kaged-plugin.yaml")
        self.refused(path, 6, "it is not a file")

    def test_a_broken_manifest_lists_all_that_is_wrong(self):
        path = self.folder("broken")
        with open(path + "/kaged-plugin.yaml", "w") as file:
            file.write("name: X\nversion: 1\n")
        self.refused(path, 6, f"{path}/kaged-plugin.yaml:1:7: error:", "errors")

    def test_a_link_in_the_path(self):
        path = self.folder("real")
        link = path + "-link"
        os.symlink(path, link)
        self.addCleanup(os.remove, link)
        self.refused(link, 5, "contains a symbolic link", f"use the real path, {path}")

    @unittest.skipIf(os.geteuid() != 0, "only root can give folders away")
    def test_a_folder_of_somebody_else_that_everybody_may_write_to(self):
        path = self.folder("open")
        os.chown(path, 12345, 12345)
        os.chmod(path, 0o777)
        self.refused(path, 5, "belongs to user 12345, and everybody may write to it", "chmod o-w")
        inner = os.path.join(path, "inner")
        shutil.copytree(os.path.join(PLUGINS, "good-python"), inner)
        self.refused(inner, 5, "one above it belongs to user 12345")

    def test_a_path_that_is_nobodys(self):
        status, answer = self.daemon.api("POST", "/dev", {"path": "relative"})
        self.assert_error((status, answer["error"]), 400, "usage")

    def test_only_over_the_unix_socket(self):
        status, made = self.daemon.api("POST", "/tokens", {"name": "far", "scopes": ["admin"]})
        self.assertEqual(status, 201, made)
        connection = http.client.HTTPConnection(self.daemon.api("GET", "/status")[1]["tcp"],
                                                timeout=60)
        self.addCleanup(connection.close)
        connection.request("POST", "/api/v1/dev", json.dumps({"path": self.folder("far")}),
                           {"Authorization": "Bearer " + made["token"]})
        answer = connection.getresponse()
        self.assert_error((answer.status, json.load(answer)["error"]), 403, "refused")


LONG_QUERY = """import json
query = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
print(json.dumps({"jsonrpc": "2.0", "id": 7, "method": "kaged.storage.query",
                  "params": {"sql": query}}), flush=True)
"""


class Leaving(FlowTest):
    """One that is not installed stores something while its run ends, and so goes later."""
    plugins = []

    def setUp(self):
        self.folder = os.path.join(os.path.realpath(self.daemon.base), "work")
        shutil.copytree(os.path.join(PLUGINS, "does-as-told"), self.folder)
        self.addCleanup(shutil.rmtree, self.folder)
        self.addCleanup(wait_for, lambda: self.daemon.api("GET", "/plugins")[1]["plugins"] == [],
                        "its end")
        path = os.path.join(self.folder, "kaged-plugin.yaml")
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(text.replace("[]", '["kaged:storage:write"]'))

    @contextlib.contextmanager
    def started(self):
        with subprocess.Popen([KAGED, "--home", self.daemon.home, "plugin", "dev", "--yes",
                               self.folder], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              env=self.daemon.environment()) as run:
            try:
                wait_for(lambda: self.daemon.try_call("does-as-told", "told.run",
                                                      {"code": "result = 1"})[0] == 200,
                         "its start")
                yield
            finally:
                run.kill()

    def test_a_run_that_follows_at_once_has_its_plugin(self):
        with self.started():
            self.daemon.call("does-as-told", "told.run", {"code": LONG_QUERY})
        wait_for(lambda: self.daemon.audit("plugin.dev_ended"), "the end of the run")
        with self.started():
            pass


class Unanswered(FlowTest):
    """Nobody says yes or no."""
    plugins = []
    config = {"limits.consent_offer_ms": 100}

    def test_a_consent_without_its_run_cannot_be_asked_for_again(self):
        folder = os.path.join(os.path.realpath(self.daemon.base), "work")
        shutil.copytree(os.path.join(PLUGINS, "good-python"), folder)
        _, text = self.daemon.raw("POST", "/api/v1/dev", json.dumps({"path": folder}))
        lines = [json.loads(line) for line in text.splitlines()]
        self.assertEqual([line["type"] for line in lines], ["consent", "end"])
        consent = lines[0]["consent"]["id"]
        status, answer = self.daemon.api("POST", f"/consents/{consent}/approve", {})
        self.assertEqual((status, answer["error"]["code"]), (409, "conflict"))
        self.assertEqual(self.daemon.api("GET", f"/consents/{consent}")[1]["state"], "expired")


class InProjects(FlowTest):
    """A project that declares a plugin may use it while its author runs it."""
    plugins = []

    def told_for_projects(self):
        """A folder with a plugin that works in projects."""
        folder = self.daemon.project_root("told")
        shutil.copytree(os.path.join(PLUGINS, "does-as-told"), folder)
        self.addCleanup(shutil.rmtree, folder)
        manifest = os.path.join(folder, "kaged-plugin.yaml")
        with open(manifest) as file:
            text = file.read()
        with open(manifest, "w") as file:
            file.write(text.replace("[]", '["read:fs:project:/"]'))
        return folder

    def load_project(self):
        root = self.daemon.write_project(
            "music", "version: 1\nname: music\nprimary:\n  plugins:\n"
            "    told: {package: does-as-told}\n")
        return self.daemon.api("POST", "/projects", {"path": root})[1]

    def begin_session(self):
        session = self.daemon.api("POST", "/projects/music/sessions", {})[1]["id"]
        self.daemon.api("POST", f"/sessions/{session}/messages",
                        {"messages": [{"role": "user", "content": "hello"}]})

    def test_a_process_of_a_project_runs_from_the_folder_too(self):
        folder = self.told_for_projects()
        project = self.load_project()
        self.assertEqual(project["state"], "pending", project)
        with Terminal([KAGED, "--home", self.daemon.home, "plugin", "dev", "--yes", folder],
                      {**self.daemon.environment(), "NO_COLOR": "1"}) as terminal:
            terminal.read_until("it works in projects")
            self.wait_project("active")
            self.begin_session()
            status = self.daemon.wait_state("does-as-told@music", "running")
            self.assertEqual((status["dev"], status["dir"]), (True, folder))
            terminal.read_until("does-as-told@music initialize #1")
            with open(os.path.join(folder, "new.txt"), "w"):
                pass
            self.daemon.wait_restarted("does-as-told@music", status["starts"])
            terminal.type(CTRL_C)
            self.assertEqual(terminal.end()[0], 0)
        self.wait_project("pending")
        wait_for(lambda: self.daemon.api("GET", "/plugins")[1]["plugins"] == [], "no plugin")

    def test_a_process_that_went_before_its_run_can_come_back_in_the_next(self):
        folder = self.told_for_projects()
        for _ in range(2):
            with Terminal([KAGED, "--home", self.daemon.home, "plugin", "dev", "--yes", folder],
                          {**self.daemon.environment(), "NO_COLOR": "1"}) as terminal:
                terminal.read_until("it works in projects")
                self.load_project()
                self.wait_project("active")
                self.begin_session()
                terminal.read_until("does-as-told@music initialize #1")
                self.daemon.api("DELETE", "/projects/music?force=true")
                wait_for(lambda: len(self.daemon.api("GET", "/plugins")[1]["plugins"]) == 1,
                         "the end of its process")
                terminal.type(CTRL_C)
                self.assertEqual(terminal.end()[0], 0)
            wait_for(lambda: self.daemon.api("GET", "/plugins")[1]["plugins"] == [], "no plugin")

    def wait_project(self, state):
        wait_for(lambda: self.daemon.api("GET", "/projects/music")[1]["state"] == state, state)


@unittest.skipIf(os.geteuid() != 0, "only root can become another user")
class OtherUser(FlowTest):
    def test_a_daemon_that_may_not_read_the_folder_says_so(self):
        daemon = Daemon([], config={"daemon.user": "nobody"})
        os.chmod(daemon.base, 0o755)
        with daemon:
            path = os.path.join(os.path.realpath(daemon.base), "mine")
            shutil.copytree(os.path.join(PLUGINS, "good-python"), path)
            os.chmod(path, 0o700)
            code, _, err = daemon.cli("plugin", "dev", "--yes", path)
            self.assertEqual(code, 5)
            self.assertIn("kaged runs as user nobody, who may not read it", err)


if __name__ == "__main__":
    main()
