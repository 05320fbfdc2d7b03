"""Small things that the documents say of the host, each shown once."""
import json
import os
import shutil
import tempfile

from harness import Daemon, FlowTest, main, wait_for
from test_projects import Projects, plugin
from test_sessions import GOOD, Tea

NOTIFY = """
import sys
sys.stdout.write('{"jsonrpc":"2.0","method":%s,"params":{}}\\n')
sys.stdout.flush()
result = 1
"""


class Notifications(FlowTest):
    plugins = ["does-as-told"]

    def send(self, method):
        answer = self.daemon.call("does-as-told", "told.run", {"code": NOTIFY % json.dumps(method)})
        self.assertEqual(answer, {"result": 1})

    def test_one_that_is_not_declared_is_audited_and_not_forwarded(self):
        for type in ("told.secret", "Not A Name", "kaged.storage.get"):
            self.send(type)
            event = self.daemon.wait_audit("plugin.notification_refused")[-1]
            self.assertEqual((event["name"], event["notification_type"]), ("does-as-told", type))
        self.send("told.news")
        told = wait_for(lambda: self.daemon.audit("plugin.notification"), "the one that is declared")
        self.assertEqual([event["notification_type"] for event in told], ["told.news"])


class Hooks(FlowTest):
    def test_the_error_code_of_a_failed_hook_is_that_of_json_rpc(self):
        with Tea() as daemon:
            daemon.load()
            daemon.answer("on_session_start", "error = {'code': -32042, 'message': 'no tea'}")
            daemon.say(daemon.new(), "hello")
            event = daemon.wait_audit("plugin.hook.failed")[0]
            self.assertEqual(event["error_code"], -32042)
            self.assertIn("no tea", event["error_message"])


class Compactions(FlowTest):
    def test_the_summary_of_a_compactor_is_in_the_log_and_in_the_session(self):
        with Tea("delegate, delegate: { plugin: ears }") as daemon:
            daemon.load()
            daemon.answer("pre_compact", GOOD + "result['summary'] = 'It was about tea.'")
            session = daemon.new()
            for turn in range(3):
                daemon.say(session, f"question {turn}")
                daemon.say(session, f"answer {turn}", role="assistant")
            daemon.act(session, "compact")
            event = daemon.wait_audit("compaction.completed")[0]
            self.assertEqual((event["strategy"], event["summary"]), ("delegate", "It was about tea."))
            code, out, said = daemon.cli("session", "show", session)
            self.assertEqual(code, 0, said)
            self.assertRegex(out, "compacted by delegate: .*: It was about tea.")


class Roles(FlowTest):
    def test_a_role_violation_names_plugins_and_project(self):
        with Projects("compacts", "compacts as squeezes") as daemon:
            daemon.write("music", {"first": {"package": "compacts"},
                                   "second": {"package": "squeezes"}})
            daemon.try_load("music")
            event = daemon.wait_audit("plugin.role_violation")[0]
            self.assertEqual((event["first"], event["second"], event["agent_path"],
                              event["project_id"]), ("compacts", "squeezes", "primary", "music"))


class Exits(FlowTest):
    def test_an_exit_without_an_error_has_the_last_lines_too(self):
        with Daemon(["does-as-told"]) as daemon:
            daemon.try_call("does-as-told", "told.run", {
                "code": "import os, sys\nsys.stderr.write('good bye\\n')\n"
                        "sys.stderr.flush()\nos._exit(0)"})
            event = daemon.wait_audit("plugin.exited")[0]
            self.assertEqual((event["exit_code"], event["last_stderr"]), (0, "good bye\n"))


class Handshake(FlowTest):
    def test_an_answer_to_initialize_that_is_not_json_is_a_violation_at_once(self):
        folder = tempfile.mkdtemp(prefix="kg-", dir="/tmp")
        self.addCleanup(shutil.rmtree, folder)
        with Daemon(enabled=[], config={"limits.initialize_timeout_ms": 600_000,
                                        "limits.restart_failures": 1}) as daemon:
            with open(os.path.join(folder, "kaged-plugin.yaml"), "w") as file:
                file.write("name: chatty\nversion: 1.0.0\nkaged_api: 1\ndescription: Talks.\n"
                           "command: [./run.sh]\ncapabilities: []\nmethods: [chatty.do]\n")
            with open(os.path.join(folder, "run.sh"), "w") as file:
                file.write("#!/bin/sh\nread -r line\necho ready to serve\ncat >/dev/null\n")
            os.chmod(os.path.join(folder, "run.sh"), 0o755)
            self.assertEqual(daemon.cli("plugin", "install", "--yes", folder)[0], 0)
            code, _, said = daemon.cli("plugin", "enable", "chatty")
            self.assertEqual(code, 1, said)
            self.assertIn("ready to serve", said)
            event, = daemon.audit("plugin.protocol_violation")
            self.assertEqual(event["violation_type"], "malformed_response")


class Upgrades(FlowTest):
    def setUp(self):
        self.base = tempfile.mkdtemp(prefix="kg-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.base)

    def folder(self, version, capabilities):
        folder = os.path.join(self.base, "quiet")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "kaged-plugin.yaml"), "w") as file:
            file.write(f"name: quiet\nversion: {version}\nkaged_api: 1\ndescription: Quiet.\n"
                       f"command: [./run.sh]\ncapabilities: {json.dumps(capabilities)}\n"
                       "methods: [quiet.do]\n")
        with open(os.path.join(folder, "run.sh"), "w") as file:
            file.write("#!/bin/sh\ncat >/dev/null\n")
        os.chmod(os.path.join(folder, "run.sh"), 0o755)
        return folder

    def differences(self, daemon, version, capabilities):
        """{capability: how it differs} of an upgrade that --yes may do."""
        folder = self.folder(version, capabilities)
        code, out, said = daemon.cli("--json", "plugin", "install", "--yes", folder)
        self.assertEqual(code, 0, said)
        offer = json.loads(out.splitlines()[-1])["offer"]
        return {each["capability"]: each["difference"] for each in offer["capabilities"]}

    def test_the_difference_knows_that_no_network_was_said_aloud(self):
        with Daemon(enabled=[]) as daemon:
            self.differences(daemon, "1.0.0", [])
            self.assertEqual(self.differences(daemon, "1.1.0", ["net:[]"]), {"net:[]": "new"})
            self.assertEqual(self.differences(daemon, "1.2.0", ["net:[]"]), {"net:[]": "same"})
            self.assertEqual(self.differences(daemon, "1.3.0", []), {"net:[]": "removed"})


class Uninstalled(FlowTest):
    def test_the_event_tells_dropped_storage_from_none(self):
        with Daemon(["stores", "good-c"]) as daemon:
            daemon.call("stores", "store.ask", {"request": {
                "method": "exec", "params": {"sql": "CREATE TABLE t (a)"}}})
            for name in ("stores", "good-c"):
                self.assertEqual(daemon.cli("plugin", "uninstall", "--force", name)[0], 0)
            dropped = {event["name"]: (event["storage"], event["storage_dropped"])
                       for event in daemon.audit("plugin.uninstalled")}
            self.assertEqual(dropped, {"stores": (None, True), "good-c": (None, False)})


class Reloads(FlowTest):
    def test_a_project_that_is_read_again_is_told_again(self):
        daemon = Projects("takes-config")
        daemon.write_local('[plugins.takes-config]\napi_token = "tok-1234"\n')

        def told():
            return daemon.call("takes-config", "messages.seen").count("projects.activated")

        with daemon:
            daemon.write("music", plugin("takes-config"))
            daemon.load("music")
            wait_for(lambda: told() == 1, "the load")
            for count in (2, 3):
                self.assertEqual(daemon.api("POST", "/projects/music/reload")[0], 200)
                wait_for(lambda: told() == count, f"reload {count - 1}")


if __name__ == "__main__":
    main()
