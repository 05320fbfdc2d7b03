"""Only files that the operator approved are started, in a whole daemon."""
import os
import shutil

from harness import Daemon, FlowTest, install, main, wait_for


def program(daemon, name="good-bash"):
    return os.path.join(daemon.home, "plugins", name, "plugin.sh")


def change(daemon, name="good-bash"):
    with open(program(daemon, name), "a") as file:
        file.write("# changed\n")


class Copied(FlowTest):
    """A folder that somebody put into the store by hand."""

    def test_it_does_not_start_and_says_why_until_it_is_approved(self):
        with Daemon(["good-bash"], approved=False) as daemon:
            status = daemon.status("good-bash")
            self.assertEqual((status["state"], status["problem_code"]), ("disabled", "not_approved"))
            self.assertIn("never approved", status["problem"])
            self.assertEqual(status["problem_hint"], "kaged plugin approve good-bash")
            event, = daemon.audit("plugin.drifted")
            self.assertEqual(event["reason"], status["problem"])
            out = daemon.cli("plugin", "list")[1]
            self.assertRegex(out, r"good-bash +1\.0\.0 +unapproved")
            self.assertIn("good-bash is disabled (not approved): ", out)
            code, _, err = daemon.cli("plugin", "enable", "good-bash")
            self.assertEqual(code, 5, err)
            self.assertIn(f"kaged --home {daemon.home} plugin approve good-bash", err)
            daemon.approve("good-bash")
            self.assertEqual(daemon.cli("plugin", "enable", "good-bash")[0], 0)
            self.assertEqual(daemon.status("good-bash")["problem"], None)

    def test_a_reload_finds_it_and_does_not_start_it(self):
        with Daemon() as daemon:
            install(daemon.home, "good-bash")
            daemon.write_config(plugins__enabled=["good-bash"])
            self.assertEqual(daemon.api("POST", "/reload")[0], 200)
            self.assertEqual(daemon.status("good-bash")["problem_code"], "not_approved")
            self.assertEqual(daemon.audit("plugin.spawned"), [])

    def test_folders_of_the_store_itself_are_no_plugins(self):
        with Daemon(["good-bash"]) as daemon:
            names = [plugin["name"] for plugin in daemon.api("GET", "/plugins")[1]["plugins"]]
            self.assertEqual(names, ["good-bash"])
            self.assertIn(".store", os.listdir(os.path.join(daemon.home, "plugins")))


class Changed(FlowTest):
    """Files that are others than those that were approved."""

    def test_they_are_not_started_with_the_daemon(self):
        daemon = Daemon(["good-bash"], approved=False)
        daemon.approve()
        change(daemon)
        with daemon:
            status = daemon.status("good-bash")
            self.assertEqual((status["state"], status["problem_code"]), ("disabled", "not_approved"))
            self.assertIn("1 changed (plugin.sh)", status["problem"])
            self.assertEqual(len(daemon.audit("plugin.drifted", "good-bash")), 1)
            self.assertEqual(daemon.audit("plugin.spawned"), [])

    def test_what_runs_goes_on_and_is_not_started_again(self):
        with Daemon(["good-bash"]) as daemon:
            pid = daemon.status("good-bash")["pid"]
            change(daemon)
            status, answer = daemon.api("POST", "/plugins/good-bash/restart")
            self.assertEqual((status, answer["error"]["code"]), (409, "not_approved"))
            self.assertEqual(daemon.status("good-bash")["pid"], pid)
            os.kill(pid, 9)
            status = daemon.wait_state("good-bash", "failed")
            self.assertEqual(status["last_exit"]["cause"], "not_approved")
            wait_for(lambda: len(daemon.audit("plugin.drifted")) == 2, "the full look")
            self.assertIn("1 changed (plugin.sh)", daemon.status("good-bash")["problem"])
            daemon.approve("good-bash")
            daemon.act("good-bash", "enable")
            daemon.wait_state("good-bash", "running")

    def test_a_call_is_told_why_it_cannot_be_made(self):
        with Daemon(["good-bash"], approved=False) as daemon:
            status, error = daemon.try_call("good-bash", "good.echo")
            self.assertEqual((status, error["code"]), (502, "plugin_down"))
            self.assertIn("never approved", error["message"])

    def test_a_manifest_that_nobody_approved_is_not_taken(self):
        with Daemon(["good-bash"]) as daemon:
            path = os.path.join(daemon.home, "plugins/good-bash/kaged-plugin.yaml")
            with open(path) as file:
                text = file.read()
            with open(path, "w") as file:
                file.write(text + "# more\n")
            status, answer = daemon.api("POST", "/plugins/good-bash/reload")
            self.assertEqual((status, answer["error"]["code"]), (409, "not_approved"))


class Versions(FlowTest):
    """What runs is what was approved, whatever is written into a folder meanwhile."""

    def put(self, daemon, text):
        with open(os.path.join(daemon.home, "plugins/does-as-told/data"), "w") as file:
            file.write(text)

    def read(self, daemon):
        code = "import os; result = [os.getcwd(), open('data').read()]"
        return daemon.call("does-as-told", "told.run", {"code": code})["result"]

    def versions(self, daemon):
        return os.listdir(os.path.join(daemon.home, "plugins/.store/versions"))

    def test_a_running_process_never_sees_changed_files_of_its_folder(self):
        daemon = Daemon(["does-as-told"])
        self.put(daemon, "before")
        with daemon:
            own = os.path.realpath(os.path.join(daemon.home, "plugins/does-as-told"))
            self.assertEqual(self.read(daemon), [own, "before"])
            self.put(daemon, "after")
            self.assertEqual(self.read(daemon), [own, "before"])
            daemon.approve("does-as-told")  # which is no reason either
            self.assertEqual(self.read(daemon), [own, "before"])
            self.assertEqual(len(self.versions(daemon)), 2)
            daemon.act("does-as-told", "restart")
            daemon.wait_restarted("does-as-told", 1)
            self.assertEqual(self.read(daemon), [own, "after"])
            wait_for(lambda: len(self.versions(daemon)) == 1, "the old version to go")

    def test_a_crash_after_an_approval_leads_to_what_was_approved(self):
        daemon = Daemon(["does-as-told"])
        self.put(daemon, "before")
        with daemon:
            self.put(daemon, "after")
            for name in ("kaged-plugin.yaml", "plugin.py"):
                path = os.path.join(daemon.home, "plugins/does-as-told", name)
                with open(path) as file:
                    text = file.read()
                with open(path, "w") as file:
                    file.write(text.replace("1.0.0", "2.0.0"))
            daemon.approve("does-as-told")
            self.assertEqual(daemon.status("does-as-told")["version"], "1.0.0")
            os.kill(daemon.status("does-as-told")["pid"], 9)
            wait_for(lambda: daemon.status("does-as-told")["version"] == "2.0.0", "the new manifest")
            daemon.wait_state("does-as-told", "running")
            self.assertEqual(self.read(daemon)[1], "after")

    def test_a_manifest_that_was_not_checked_is_not_shown(self):
        with Daemon(["good-bash"]) as daemon:
            path = os.path.join(daemon.home, "plugins/good-bash/kaged-plugin.yaml")
            with open(path, "a") as file:
                file.write("author: somebody\n")
            self.assertEqual(daemon.api("POST", "/reload")[0], 200)
            daemon.act("good-bash", "disable")
            self.assertEqual(daemon.api("POST", "/plugins/good-bash/enable")[0], 409)
            manifest = os.path.join(daemon.status("good-bash")["dir"], "kaged-plugin.yaml")
            with open(manifest) as file:
                self.assertNotIn("somebody", file.read())


class Unchanged(FlowTest):
    """No false alarm."""

    def test_files_that_were_only_touched_start_after_a_full_look(self):
        daemon = Daemon(["good-bash"], approved=False)
        daemon.approve()
        folder = os.path.join(daemon.home, "plugins/good-bash")
        shutil.copytree(folder, folder + "-copy")
        shutil.rmtree(folder)
        os.rename(folder + "-copy", folder)
        with daemon:
            self.assertEqual(daemon.status("good-bash")["state"], "running")

    def test_a_touched_plugin_that_crashes_comes_back(self):
        with Daemon(["good-bash"]) as daemon:
            os.utime(program(daemon))
            os.kill(daemon.status("good-bash")["pid"], 9)
            daemon.wait_restarted("good-bash", 1)
            self.assertEqual(daemon.audit("plugin.drifted"), [])

    def test_edits_of_local_toml_by_hand_are_none_of_the_files(self):
        with Daemon(["good-bash"]) as daemon:
            with open(os.path.join(daemon.home, "local.toml"), "a") as file:
                file.write("# mine\n")
            daemon.act("good-bash", "restart")
            daemon.wait_restarted("good-bash", 1)

    def test_a_plugin_elsewhere_follows_the_same_rule(self):
        daemon = Daemon(approved=False)
        elsewhere = os.path.join(daemon.base, "elsewhere")
        os.rename(os.path.join(daemon.home, "plugins"), elsewhere)
        os.mkdir(os.path.join(daemon.home, "plugins"))
        install(daemon.home, "good-bash")
        os.rename(os.path.join(daemon.home, "plugins/good-bash"), elsewhere + "/good-bash")
        daemon.write_config(plugins__dir=elsewhere, plugins__enabled=["good-bash"])
        with daemon:
            self.assertEqual(daemon.status("good-bash")["problem_code"], "not_approved")
            daemon.approve("good-bash")
            self.assertEqual(daemon.cli("plugin", "enable", "good-bash")[0], 0)


if __name__ == "__main__":
    main()
