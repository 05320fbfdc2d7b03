"""Projects in a running daemon: consents, processes of their own, configurations, reloads."""
# also on PostgreSQL
import json
import os
import shutil

from harness import PLUGINS, Daemon, FlowTest, at_once, main, wait_for

TOLD = "does-as-told"
CONFIG = "takes-config"
AGENT = "agents-as-told"


class Projects(Daemon):
    """A daemon, and projects in folders beside its home."""

    def __init__(self, *plugins, **options):
        config = {"sandbox.root_writable": ["/tmp"], **options.pop("config", {})}
        super().__init__(plugins, config=config, **options)

    def write(self, name, plugins, more="", folder=None):
        """The project's file; plugins: of the primary, as JSON is."""
        return self.write_project(folder or name, f"version: 1\nname: {name}\nprimary:\n"
                                  f"  plugins: {json.dumps(plugins)}\n" + more)

    def not_for_everybody(self, plugin):
        """The operator takes back that every project may use it."""
        path = os.path.join(self.home, "local.toml")
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(text.replace("local = true", "local = false"))
        self.approved = False

    def try_load(self, name, watch=False):
        return self.api("POST", "/projects", {"path": self.project_root(name), "watch": watch})

    def load(self, name, watch=False, yes=True):
        """With a yes to plugins that are there and were never enabled."""
        status, project = self.try_load(name, watch)
        assert status == 200, project
        wanted = [consent["id"] for consent in project["consents"] if yes and
                  consent["kind"] == "activate"]
        for consent in wanted:
            code, _, err = self.cli("project", "consent", "approve", "--yes", consent)
            assert code == 0, err
        return self.wait_project(name, "active") if wanted else project

    def project(self, name):
        return self.api("GET", f"/projects/{name}")[1]

    def wait_project(self, name, state):
        return wait_for(lambda: (lambda p: p.get("state") == state and p)(self.project(name)),
                        f"project {name} is {state}")

    def session(self, project):
        """The id of a session that has begun."""
        status, session = self.api("POST", f"/projects/{project}/sessions", {})
        assert status == 201, session
        status, answer = self.api("POST", f"/sessions/{session['id']}/messages",
                                  {"messages": [{"role": "user", "content": "hello"}]})
        assert status == 200, answer
        return session["id"]

    def tool(self, session, tool, arguments, agent="primary"):
        status, answer = self.api("POST", f"/sessions/{session}/tools/{tool}?agent={agent}",
                                  arguments)
        assert status == 200, answer
        return answer

    def configs(self, process):
        return [params["config"] for params in self.call(process, "config.get")]

    def tell(self, process, code):
        answer = self.call(process, "told.run", {"code": code})
        return answer["result"] if "result" in answer else answer["error"]


def plugin(name, **config):
    return {name: {"package": name, "config": config}}


class Consents(FlowTest):
    def test_a_project_has_its_agents_from_the_first_request_after_a_restart(self):
        # Until it was read again it had none, and a session that went on got 404.
        with Projects() as daemon:
            for number in range(20):
                daemon.write(f"p{number}", {})
                daemon.load(f"p{number}")
            session = daemon.session("p19")
            for _ in range(3):
                daemon.stop()
                daemon.start()
                status, answer = daemon.api("POST", f"/sessions/{session}/messages", {
                    "messages": [{"role": "user", "content": "are you there?"}]})
                self.assertEqual(status, 200, answer)

    def test_a_plugin_that_is_not_installed_is_asked_for_and_then_used(self):
        with Projects() as daemon:
            root = daemon.write("music", {"told": {"package": TOLD, "source": "./plugins/told"}})
            shutil.copytree(os.path.join(PLUGINS, TOLD), os.path.join(root, "plugins/told"))
            project = daemon.load("music")
            self.assertEqual(project["state"], "pending")
            self.assertIn(f"{TOLD} is to be installed", project["reason"])
            self.assertIn("kaged project consent", project["reason"])
            consent = project["consents"][0]
            self.assertEqual((consent["plugin"], consent["state"]), (TOLD, "wanted"))
            code, _, err = daemon.cli("project", "consent", "approve", "--yes", consent["id"])
            self.assertEqual((code, err), (0, ""))
            daemon.wait_project("music", "active")
            self.assertEqual(daemon.project("music")["consents"], [])
            events = [event["event"] for event in daemon.audit()
                      if event["event"].startswith("project.")]
            self.assertEqual(events[:2], ["project.loaded", "project.pending"])
            self.assertEqual(events.count("project.activated"), 1)

    def test_an_approval_that_fails_never_hides_why(self):
        with Projects() as daemon:
            daemon.write("music", {"told": {"package": TOLD, "source": "./nowhere"}})
            consent = daemon.load("music")["consents"][0]["id"]
            other = os.path.join(PLUGINS, "good-bash")
            code, _, err = daemon.cli("project", "consent", "approve", "--yes", consent, other)
            self.assertEqual(code, 1, err)
            self.assertIn(f"is plugin good-bash, not {TOLD}", err)
            self.assertNotIn("somebody else", err)

    def test_a_range_of_versions_can_be_approved_and_is_kept_to(self):
        with Projects() as daemon:
            wish = {"package": TOLD, "source": "./plugins/told", "version": "^2.0"}
            root = daemon.write("music", {"told": wish})
            shutil.copytree(os.path.join(PLUGINS, TOLD), os.path.join(root, "plugins/told"))
            consent = daemon.load("music")["consents"][0]["id"]
            code, _, err = daemon.cli("project", "consent", "approve", "--yes", consent)
            self.assertNotEqual(code, 0)
            self.assertIn(f"is version 1.0.0 of plugin {TOLD}, not ^2.0", err)
            daemon.write("music", {"told": {**wish, "version": ">=1 <2 || 3.x"}})
            consent = daemon.api("POST", "/projects/music/reload")[1]["consents"][0]["id"]
            code, _, err = daemon.cli("project", "consent", "approve", "--yes", consent)
            self.assertEqual((code, err), (0, ""))
            daemon.wait_project("music", "active")

    def test_what_is_installed_for_another_project_needs_a_yes_that_a_no_outlives(self):
        daemon = Projects(TOLD, enabled=[])
        daemon.approve()
        daemon.not_for_everybody(TOLD)
        with daemon:
            daemon.write("music", plugin(TOLD))
            project = daemon.load("music", yes=False)
            self.assertIn(f"{TOLD} is not enabled, and is to be allowed", project["reason"])
            consent = project["consents"][0]["id"]
            self.assertEqual(daemon.cli("project", "consent", "decline", consent)[0], 0)
            wait_for(lambda: "declined" in daemon.project("music")["reason"], "the no")
            daemon.stop()
            daemon.start()
            wait_for(lambda: "declined" in daemon.project("music")["reason"], "the no")
            project = daemon.api("POST", "/projects/music/reload")[1]
            self.assertEqual(project["consents"][0]["state"], "wanted")
            self.assertEqual(daemon.cli("project", "consent", "approve", "--yes", consent)[0], 0)
            daemon.wait_project("music", "active")
            self.assertEqual(daemon.api("DELETE", "/projects/music")[0], 200)
            self.assertEqual(daemon.load("music")["state"], "active")
            self.assertEqual(daemon.api("DELETE", "/projects/music")[0], 200)
            daemon.write("music", plugin(TOLD), folder="stranger")
            self.assertEqual(daemon.load("stranger", yes=False)["state"], "pending")

    def test_what_was_never_enabled_does_not_start_because_a_project_declares_it(self):
        with Projects(AGENT, enabled=[]) as daemon:
            daemon.write("music", plugin(AGENT))
            project = daemon.load("music", yes=False)
            self.assertEqual(project["state"], "pending")
            self.assertIn(f"{AGENT} is not enabled, and is to be allowed", project["reason"])
            self.assertNotIn(daemon.api("POST", "/projects/music/sessions", {})[0], (200, 201))
            self.assertEqual(daemon.status(AGENT)["starts"], 0)
            daemon.load("music")
            daemon.session("music")
            self.assertEqual(daemon.status(AGENT)["state"], "running")
            daemon.stop()
            daemon.start()
            daemon.wait_project("music", "active")  # the yes was given before

    def test_a_project_does_not_wait_for_what_was_enabled(self):
        with Projects(AGENT, enabled=[]) as daemon:
            daemon.write("music", plugin(AGENT))
            self.assertEqual(daemon.load("music", yes=False)["state"], "pending")
            daemon.act(AGENT, "enable")
            daemon.wait_project("music", "active")

    def test_enabling_a_plugin_of_projects_does_not_fail_and_says_which_want_it(self):
        daemon = Projects(TOLD, enabled=[])
        daemon.declare(TOLD, "read:fs:project:/")
        with daemon:
            code, out, err = daemon.cli("plugin", "enable", TOLD)
            self.assertEqual((code, err), (0, ""))
            self.assertIn("for the projects that want it", out)
            for name in ("music", "books"):
                daemon.write(name, plugin(TOLD))
                self.assertEqual(daemon.load(name, yes=False)["state"], "active")
            code, out, err = daemon.cli("plugin", "enable", TOLD)
            self.assertEqual((code, err), (0, ""))
            self.assertIn("wanted by books, music", out)

    def test_what_a_project_no_longer_declares_is_no_longer_asked_for(self):
        with Projects() as daemon:
            daemon.write("music", plugin("gone"))
            self.assertEqual(len(daemon.load("music")["consents"]), 1)
            daemon.write("music", {})
            project = daemon.api("POST", "/projects/music/reload")[1]
            self.assertEqual((project["state"], project["consents"]), ("active", []))


class Folders(FlowTest):
    """Projects without a file."""

    def folder(self, daemon, name="api"):
        root = daemon.project_root(name)
        os.makedirs(root)
        return root

    def test_its_agent_has_all_that_is_enabled_for_every_project(self):
        with Projects(TOLD, AGENT, enabled=[AGENT]) as daemon:
            root = self.folder(daemon)
            project = daemon.load("api")
            self.assertRegex(project["id"], "^api-[0-9a-f]{8}$")
            self.assertEqual((project["source"], project["file"], project["root"]),
                             ("folder", None, root))
            self.assertEqual((project["state"], self.packages(project)), ("active", [AGENT]))
            session = daemon.session(project["id"])
            daemon.tool(session, f"{AGENT}.act", {})
            daemon.act(TOLD, "enable")
            wait_for(lambda: self.packages(daemon.project(project["id"])) == [AGENT, TOLD], "both")
            daemon.act(AGENT, "disable")
            wait_for(lambda: self.packages(daemon.project(project["id"])) == [TOLD], "the other")

    def packages(self, project):
        return sorted(plugin["package"] for plugin in project["agents"][0]["plugins"])

    def test_two_can_have_one_name_and_both_outlive_the_daemon(self):
        with Projects() as daemon:
            for folder in ("a/api", "b/api"):
                self.folder(daemon, folder)
            ids = {daemon.load(folder)["id"] for folder in ("a/api", "b/api")}
            self.assertEqual(len(ids), 2)
            daemon.stop()
            daemon.start()
            for project in ids:
                self.assertEqual(daemon.wait_project(project, "active")["source"], "folder")
                self.assertEqual(daemon.api("POST", f"/projects/{project}/reload")[0], 200)
                self.assertEqual(daemon.api("DELETE", f"/projects/{project}")[0], 200)

    def test_it_stays_one_until_its_file_is_loaded(self):
        with Projects() as daemon:
            self.folder(daemon)
            project = daemon.load("api")["id"]
            daemon.write("music", {}, folder="api")
            again = daemon.api("POST", f"/projects/{project}/reload")[1]
            self.assertEqual((again["id"], again["source"]), (project, "folder"))
            self.assertEqual(daemon.load("api")["id"], "music")

    def test_there_is_nothing_to_watch_and_no_file_to_set_a_knob_in(self):
        with Projects("all-knobs") as daemon:
            root = self.folder(daemon)
            status, answer = daemon.try_load("api", watch=True)
            self.assertEqual((status, answer["error"]["code"]), (400, "usage"))
            self.assertIn("nothing to watch", answer["error"]["message"])
            status, answer = daemon.api("POST", "/projects", {"path": "/"})
            self.assertEqual((status, answer["error"]["code"]), (403, "refused"), answer)
            os.makedirs(os.path.join(root, ".kaged/prompts"))
            status, answer = daemon.try_load("api")
            self.assertEqual((status, answer["error"]["code"]), (404, "not_found"))
            os.rmdir(os.path.join(root, ".kaged/prompts"))  # and what is empty is nothing
            code, out, err = daemon.cli("project", "load", root, "--json")
            self.assertEqual((code, err), (0, ""), out)
            project = json.loads(out)["id"]
            path = f"/plugins/all-knobs/knobs/turns?project={project}&agent=primary"
            status, answer = daemon.api("PUT", path, {"value": 9})
            self.assertEqual((status, answer["error"]["code"]), (409, "conflict"), answer)
            self.assertIn("no file to set it in", answer["error"]["message"])


class Loading(FlowTest):
    def test_a_file_that_cannot_be_used_is_refused_with_all_that_is_wrong(self):
        with Projects() as daemon:
            daemon.write("music", {}, more="  modle: x\nplugins: {}\n")
            status, answer = daemon.try_load("music")
            self.assertEqual((status, answer["error"]["code"]), (422, "invalid_project"))
            self.assertEqual(len(answer["error"]["problems"]), 2)
            self.assertEqual(daemon.api("GET", "/projects")[1]["projects"], [])

    def test_a_name_belongs_to_one_folder(self):
        with Projects() as daemon:
            daemon.write("music", {})
            daemon.load("music")
            daemon.write("music", {}, folder="other")
            status, answer = daemon.try_load("other")
            self.assertEqual((status, answer["error"]["code"]), (409, "conflict"))
            for folder in ("music", "other"):
                self.assertIn(daemon.project_root(folder), answer["error"]["message"])
            daemon.write("noise", {}, folder="music")
            self.assertEqual(daemon.api("POST", "/projects/music/reload")[0], 409)
            self.assertEqual(daemon.project("music")["name"], "music")

    def test_there_are_no_more_than_the_limit_allows(self):
        with Projects(config={"limits.projects": 1}) as daemon:
            for name in ("one", "two"):
                daemon.write(name, {})
            daemon.load("one")
            self.assertEqual(daemon.try_load("two")[1]["error"]["code"], "resource_busy")
            daemon.write_config(limits__projects=2)
            self.assertEqual(daemon.api("POST", "/reload")[0], 200)
            daemon.load("two")

    def test_a_reload_tells_what_changed_and_a_broken_file_changes_nothing(self):
        with Projects() as daemon:
            daemon.write("music", {}, more="  model: small\n")
            daemon.load("music")
            daemon.write("music", {}, more="  model: large\n")
            status, project = daemon.api("POST", "/projects/music/reload")
            self.assertEqual([(change["kind"], change["before"], change["after"])
                              for change in project["changes"]], [("model", "small", "large")])
            daemon.write("music", {}, more="  model: []\n")
            for _ in range(2):
                self.assertEqual(daemon.api("POST", "/projects/music/reload")[0], 422)
            project = daemon.project("music")
            self.assertEqual(project["agents"][0]["model"], "large")
            self.assertEqual(project["reload_problem"]["code"], "invalid_project")

    def test_a_watched_project_follows_its_files(self):
        with Projects() as daemon:
            root = daemon.write("music", {}, more="  prompt: { file: prompts/p.md }\n")
            os.mkdir(os.path.join(root, "prompts"))

            def prompt(text):
                with open(os.path.join(root, "prompts/p.md"), "w") as file:
                    file.write(text)

            def shown(key):
                return daemon.project("music")["agents"][0][key]

            prompt("one")
            loaded = daemon.load("music", watch=True)["loaded_at"]
            prompt("two")
            wait_for(lambda: shown("prompt") == "two", "the new prompt")
            self.assertGreater(daemon.project("music")["loaded_at"], loaded)
            daemon.write("music", {}, more="  modle: x\n")
            wait_for(lambda: daemon.project("music")["reload_problem"], "the mistake")
            self.assertEqual(shown("prompt"), "two")
            shutil.rmtree(os.path.join(root, ".kaged"))
            wait_for(lambda: "project.yaml" in daemon.project("music")["reload_problem"]["message"],
                     "that it is gone")
            daemon.write("music", {}, more="  model: x\n")
            wait_for(lambda: shown("model") == "x", "the new file")
            self.assertIsNone(daemon.project("music")["reload_problem"])

    def test_a_daemon_that_stops_answers_who_waits_for_a_project(self):
        with Projects() as daemon:
            daemon.write("music", {})
            loads = [lambda: daemon.try_load("music") for _ in range(24)]
            results = at_once(loads + [daemon.stop])
            for result in results[:-1]:
                code = result[1].get("error", {}).get("code") if isinstance(result, tuple) else None
                self.assertIn(code, (None, "resource_busy", "daemon_stopping"), result)

    def test_projects_outlive_the_daemon_and_a_lost_one_stays_listed(self):
        with Projects() as daemon:
            for name in ("kept", "lost"):
                daemon.write(name, {})
                daemon.load(name, watch=name == "kept")
            daemon.stop()
            shutil.rmtree(daemon.project_root("lost"))
            daemon.start()
            self.assertTrue(daemon.wait_project("kept", "active")["watch"])
            wait_for(lambda: "lost" in daemon.project("lost")["reason"], "why it is pending")
            self.assertEqual(daemon.project("lost")["state"], "pending")


class Processes(FlowTest):
    def test_a_process_of_a_project_sees_this_project_only_and_never_writes_its_file(self):
        daemon = Projects(TOLD, enabled=[])
        daemon.declare(TOLD, "write:fs:project:/", "kaged:storage:write", "kaged:storage:read")
        with daemon:
            for name in ("music", "books"):
                daemon.write(name, plugin(TOLD))
                daemon.load(name)
                daemon.act(f"{TOLD}@{name}", "enable")
                daemon.wait_state(f"{TOLD}@{name}", "running")
            music, books = f"{TOLD}@music", f"{TOLD}@books"
            env = ("import os; result = "
                   "[os.environ.get('KAGED_PROJECT_' + key) for key in ('ID', 'ROOT')]")
            self.assertEqual(daemon.tell(music, env), ["music", daemon.project_root("music")])
            look = f"import os; result = sorted(os.listdir({os.path.realpath(daemon.base)!r}))"
            self.assertEqual(daemon.tell(music, look), ["h", "music"])
            self.assertEqual(daemon.tell(books, look), ["books", "h"])
            daemon.tell(music, f"open({daemon.project_root('music')!r} + '/song', 'w').write('la')")
            self.assertTrue(os.path.exists(os.path.join(daemon.project_root("music"), "song")))
            for path in ("project.yaml", "new"):
                write = f"open({daemon.project_root('music')!r} + '/.kaged/{path}', 'w')"
                self.assertEqual(daemon.tell(music, write), "EROFS")
            root = daemon.project_root("music")
            move = f"import os; os.rename({root!r} + '/.kaged', {root!r} + '/x')"
            self.assertEqual(daemon.tell(music, move), "EBUSY")
            starts = daemon.status(music)["starts"]
            folder = os.path.join(daemon.project_root("music"), ".kaged")
            os.rename(folder, folder + "-old")  # and the cover with it
            daemon.write("music", plugin(TOLD))
            daemon.api("POST", "/projects/music/reload")
            daemon.wait_restarted(music, starts)
            self.assertEqual(daemon.tell(music, write), "EROFS")
            self.assertEqual(daemon.status(TOLD)["state"], "disabled")
            daemon.act(TOLD, "disable")
            for process in (music, books):
                daemon.wait_state(process, "disabled")
            daemon.act(TOLD, "enable")
            daemon.wait_state(music, "running")
            self.assertEqual(daemon.api("DELETE", "/projects/music")[0], 200)
            wait_for(lambda: daemon.api("GET", f"/plugins/{music}")[0] == 404, "its end")
            daemon.load("music")
            wait_for(lambda: daemon.api("GET", f"/plugins/{music}")[0] == 200, "its return")
            self.assertEqual(daemon.cli("plugin", "uninstall", music)[0], 2)
            self.assertEqual(daemon.cli("plugin", "uninstall", TOLD)[0], 0)
            wait_for(lambda: daemon.api("GET", f"/plugins/{books}")[0] == 404, "its end")
            daemon.wait_project("books", "pending")

    def test_a_plugin_that_writes_the_projects_own_folder_does_not_start(self):
        daemon = Projects(TOLD, enabled=[])
        daemon.declare(TOLD, "write:fs:project:/.kaged")
        with daemon:
            daemon.write("music", plugin(TOLD))
            daemon.load("music")
            daemon.act(f"{TOLD}@music", "enable")
            self.assertIn("the project's own file is in it",
                          daemon.wait_exit(f"{TOLD}@music", "cage")["words"])


class Covers(FlowTest):
    """A plugin that may write folders of several projects, and what is made of them."""

    def setUp(self):
        super().setUp()
        self.daemon = Projects(TOLD, enabled=[TOLD])
        self.work = self.daemon.project_root("work")
        os.makedirs(self.work)
        self.daemon.declare(TOLD, f"write:fs:{self.work}")

    def put(self, path, text="x"):
        """What becomes of it: "ok", or the name of the error."""
        code = f"open({os.path.join(self.work, path)!r}, 'w').write({text!r}); result = 'ok'"
        return self.daemon.tell(TOLD, code)

    def move(self, path, to):
        return self.daemon.tell(TOLD, f"import os; os.rename({os.path.join(self.work, path)!r}, "
                                      f"{os.path.join(self.work, to)!r}); result = 'ok'")

    def loaded(self, name, **options):
        starts = self.daemon.status(TOLD)["starts"]
        project = self.daemon.load(f"work/{name}", **options)
        if project["restarted"]:
            self.daemon.wait_restarted(TOLD, starts)
        return project

    def test_who_could_write_a_project_that_is_loaded_is_restarted_and_cannot_any_more(self):
        with self.daemon as daemon:
            daemon.write("music", {}, folder="work/music")
            self.assertEqual(self.put("music/.kaged/new"), "ok", "it is no project yet")
            self.assertEqual(self.loaded("music")["restarted"], [TOLD])
            self.assertEqual(daemon.audit("plugin.covered", TOLD)[-1]["path"],
                             os.path.join(self.work, "music/.kaged"))
            self.assertEqual(self.put("music/.kaged/new"), "EROFS")
            self.assertEqual(self.put("music/song"), "ok")
            self.assertEqual(self.move("music", "other"), "EBUSY")
            self.assertEqual(self.move("music/song", "song"), "EXDEV")
            self.assertEqual(self.loaded("music")["restarted"], [], "it is covered already")
            starts = daemon.status(TOLD)["starts"]
            daemon.act(TOLD, "restart")
            daemon.wait_restarted(TOLD, starts)
            self.assertEqual(self.put("music/.kaged/new"), "EROFS")
            words = daemon.cli("plugin", "status", "--cage", TOLD)[1]
            self.assertIn("music/.kaged (a project's own, and never written)", words)

    def test_a_folder_that_is_missing_is_made_before_a_plugin_could(self):
        with self.daemon as daemon:
            os.makedirs(os.path.join(self.work, "plain"))
            os.chmod(os.path.join(self.work, "plain"), 0o755)
            self.assertEqual(self.loaded("plain")["restarted"], [TOLD])
            self.assertEqual(os.listdir(os.path.join(self.work, "plain/.kaged")), [])
            self.assertEqual(self.put("plain/.kaged/project.yaml"), "EROFS")
            self.assertEqual(self.loaded("plain")["source"], "folder")

    def test_a_plugin_that_would_write_in_a_projects_own_folder_is_not_started(self):
        daemon = self.daemon
        root = daemon.write("music", {}, folder="work/music")
        daemon.declare(TOLD, f"write:fs:{root}/.kaged")
        with daemon:
            self.assertIn("the project's own file is in it",
                          daemon.wait_exit(TOLD, "cage")["words"])

    def test_what_another_plugin_may_only_read_is_not_moved_from_under_it(self):
        daemon = self.daemon
        folder = os.path.join(daemon.home, "plugins", TOLD)
        shutil.copytree(folder, os.path.join(daemon.home, "plugins/reads"))
        path = os.path.join(daemon.home, "plugins/reads/kaged-plugin.yaml")
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(text.replace(TOLD, "reads"))
        daemon.declare("reads", f"write:fs:{self.work}", f"read:fs:{self.work}/d/inner")
        os.makedirs(os.path.join(self.work, "d/inner"))
        with daemon:
            self.assertEqual(self.move("d", "e"), "EBUSY")
            self.assertEqual(self.move("d/inner", "d/other"), "EBUSY")
            self.assertEqual(self.put("d/inner/new"), "ok", "it may write there itself")

    def test_a_prompt_that_a_plugin_may_have_written_waits_for_a_yes(self):
        with self.daemon as daemon:
            root = daemon.write("music", {}, more="  prompt: {file: prompt.md}\n",
                                folder="work/music")
            prompt = os.path.join(root, "prompt.md")
            with open(prompt, "w") as file:
                file.write("one")
            os.chmod(prompt, 0o666)
            self.loaded("music", watch=True)

            def shown():
                return daemon.project("music")["agents"][0]["prompt"]

            self.assertEqual(self.put("music/prompt.md", "two"), "ok")
            wait_for(lambda: daemon.project("music")["held"], "that it is held")
            project = daemon.project("music")
            self.assertEqual(shown(), "one")
            self.assertEqual([(change["kind"], change["after"]) for change in project["held"]],
                             [("prompt", "two")])
            self.assertIn(f"a change waits for your approval: {TOLD} may have made it",
                          project["reload_problem"]["message"])
            self.assertIn("waits for your approval", daemon.audit("project.reload_failed")[-1]["reason"])
            said = daemon.cli("project", "show", "music")[1]
            self.assertIn("a change waits for your approval", said)
            self.assertIn("prompt", said)
            self.assertEqual(daemon.cli("project", "reload", "music")[0], 0)
            self.assertEqual(shown(), "two")
            self.assertEqual((daemon.project("music")["held"],
                              daemon.project("music")["reload_problem"]), (None, None))

    def test_a_prompt_that_a_plugin_may_have_written_waits_for_a_yes_in_the_next_daemon_too(self):
        with self.daemon as daemon:
            root = daemon.write("music", {}, more="  prompt: {file: prompt.md}\n",
                                folder="work/music")
            prompt = os.path.join(root, "prompt.md")

            def write(text):
                with open(prompt, "w") as file:
                    file.write(text)

            def restart():
                daemon.stop()
                daemon.start()

            write("one")
            os.chmod(prompt, 0o666)
            self.loaded("music", watch=True)
            self.assertEqual(self.put("music/prompt.md", "two"), "ok")
            wait_for(lambda: daemon.project("music")["held"], "that it is held")
            restart()
            for text in "two", "three":  # what waited, and what came when nobody looked
                wait_for(lambda: (daemon.project("music")["reload_problem"] or {"message": ""})["message"]
                         .startswith("a change waits for your approval: prompt.md"), "that it is held")
                project = daemon.project("music")
                self.assertEqual((project["state"], project["agents"]), ("pending", []), project)
                self.assertEqual(daemon.cli("project", "reload", "music")[0], 0)
                self.assertEqual(daemon.project("music")["agents"][0]["prompt"], text)
                restart()
                wait_for(lambda: daemon.project("music")["agents"], "that it is read")
                self.assertEqual(daemon.project("music")["agents"][0]["prompt"], text)
                daemon.stop()
                write("three")
                daemon.start()


class Sessions(FlowTest):
    def test_plugins_run_from_the_first_session_until_the_project_is_unloaded(self):
        with Projects(AGENT, TOLD, enabled=[]) as daemon:
            for name in ("music", "books"):
                daemon.write(name, {**plugin(AGENT), **plugin(TOLD)})
                daemon.load(name)
            daemon.act(TOLD, "disable")
            self.assertEqual(daemon.status(AGENT)["state"], "disabled")
            session = daemon.session("music")
            self.assertEqual(daemon.status(AGENT)["state"], "running")
            self.assertEqual(daemon.status(TOLD)["state"], "disabled", "the operator said no")
            self.assertEqual(daemon.project("music")["sessions"], 1)
            self.assertEqual(daemon.api("POST", "/reload")[0], 200)
            self.assertEqual(daemon.status(AGENT)["state"], "running")
            code, _, err = daemon.cli("plugin", "uninstall", AGENT)
            self.assertEqual(code, 5)
            self.assertIn("1 session", err)
            self.assertEqual(daemon.api("DELETE", "/projects/music")[0], 409)
            other = daemon.session("books")
            self.assertEqual(daemon.api("DELETE", "/projects/music?force=true")[0], 200)
            self.assertEqual(daemon.status(AGENT)["state"], "running")
            self.assertEqual(daemon.api("DELETE", f"/sessions/{other}")[0], 200)
            self.assertEqual(daemon.api("DELETE", "/projects/books")[0], 200)
            daemon.wait_state(AGENT, "disabled")
            self.assertNotEqual(session, other)

    def test_a_pending_project_takes_no_session(self):
        with Projects() as daemon:
            daemon.write("music", plugin("gone"))
            daemon.load("music")
            status, answer = daemon.api("POST", "/projects/music/sessions", {})
            self.assertNotIn(status, (200, 201), answer)
            self.assertIn("gone is to be installed", answer["error"]["message"])

    def test_projects_that_share_a_process_each_have_their_configuration(self):
        with Projects(AGENT, enabled=[]) as daemon:
            for name in ("music", "books"):
                daemon.write(name, plugin(AGENT, tag=name), more=f"""\
  subagents:
    reader:
      plugins: {{ {AGENT}: {{ package: {AGENT}, config: {{ tag: quiet-{name} }} }} }}
""")
                daemon.load(name)
            sessions = {name: daemon.session(name) for name in ("music", "books")}
            wait_for(lambda: len(daemon.audit("plugin.initialized")) == 1, "one process")

            def config(name, agent):
                answer = daemon.tool(sessions[name], f"{AGENT}.act", {"acts": {"echo": True}},
                                     agent)
                return json.loads(answer["result"]["inject"]).get("_config")

            for name in sessions:  # config.update could tell that of neither
                self.assertEqual(config(name, "primary"), {"tag": name})
                self.assertEqual(config(name, "primary.subagents.reader"),
                                 {"tag": f"quiet-{name}"})

    def test_an_upgrade_replaces_the_processes_of_projects_too(self):
        daemon = Projects(TOLD, enabled=[])
        daemon.declare(TOLD, "read:fs:project:/")
        with daemon:
            daemon.write("music", plugin(TOLD))
            daemon.load("music")
            daemon.session("music")
            process = f"{TOLD}@music"
            self.assertEqual(daemon.status(process)["state"], "running")
            source = os.path.join(daemon.base, "new", TOLD)
            shutil.copytree(os.path.join(daemon.home, "plugins", TOLD), source)
            for file in ("kaged-plugin.yaml", "plugin.py"):
                path = os.path.join(source, file)
                with open(path) as old:
                    text = old.read()
                with open(path, "w") as new:
                    new.write(text.replace("1.0.0", "1.1.0"))
            code, out, err = daemon.cli("plugin", "install", source, "--yes")
            self.assertEqual((code, err), (0, ""), out)
            self.assertEqual(daemon.status(process)["state"], "running")
            self.assertEqual(daemon.status(process)["version"], "1.1.0")
            self.assertEqual(daemon.status(process)["starts"], 2)


class Configurations(FlowTest):
    def test_the_only_project_gives_the_configuration_and_a_second_one_takes_it_back(self):
        daemon = Projects(CONFIG)
        daemon.approve()
        daemon.approved = False
        path = os.path.join(daemon.home, "local.toml")
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(text.replace("local = true", 'local = true\napi_token = "tok-1234"'))
        with daemon:
            operators = {"url": "https://api.example.com", "budget": "mid", "api_token": "tok-1234",
                         "region": "eu"}
            music = {**operators, "budget": "low"}
            self.assertEqual(daemon.configs(CONFIG), [operators])
            daemon.write("music", plugin(CONFIG, budget="low"))
            daemon.load("music")
            wait_for(lambda: daemon.configs(CONFIG) == [operators, music], "the project's")
            daemon.write("music", plugin(CONFIG, budget="high"))
            daemon.api("POST", "/projects/music/reload")
            wait_for(lambda: daemon.configs(CONFIG)[2:] == [{**operators, "budget": "high"}], "new")
            daemon.write("books", plugin(CONFIG, budget="low"))
            daemon.load("books")
            wait_for(lambda: daemon.configs(CONFIG)[3:] == [operators], "the operator's")
            self.assertEqual(daemon.api("DELETE", "/projects/music")[0], 200)
            wait_for(lambda: daemon.configs(CONFIG)[4:] == [music], "that of the other one")
            seen = daemon.call(CONFIG, "messages.seen")
            self.assertEqual(seen.count("projects.activated"), 3)
            self.assertEqual(seen.count("projects.deactivated"), 1)


    def test_a_setting_that_points_into_the_project_moves_the_plugin_there(self):
        with Projects("all-knobs", enabled=[]) as daemon:
            root = daemon.write("music", plugin("all-knobs"))
            for folder in ("notes", "other"):
                os.mkdir(os.path.join(root, folder))
            daemon.load("music")
            daemon.session("music")
            self.assertEqual(daemon.status("all-knobs")["state"], "running")
            daemon.write("music", plugin("all-knobs", store="project:/notes"))
            daemon.api("POST", "/projects/music/reload")
            daemon.wait_state("all-knobs@music", "running")
            daemon.wait_state("all-knobs", "disabled")
            starts = daemon.status("all-knobs@music")["starts"]
            daemon.write("music", plugin("all-knobs", store="project:/other"))
            daemon.api("POST", "/projects/music/reload")
            daemon.wait_restarted("all-knobs@music", starts)
            daemon.write("music", plugin("all-knobs"))
            daemon.api("POST", "/projects/music/reload")
            daemon.wait_state("all-knobs", "running")
            wait_for(lambda: daemon.api("GET", "/plugins/all-knobs@music")[0] == 404, "its end")

    def test_a_plugin_that_does_not_like_a_project_is_audited_and_goes_on(self):
        daemon = Projects(TOLD)
        path = os.path.join(daemon.home, "plugins", TOLD, "plugin.py")
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(text.replace("""    if "id" in message:
""", """    if method.startswith("projects."):
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"],
                          "error": {"code": -32000, "message": "not that one"}}), flush=True)
    elif "id" in message:
"""))
        with daemon:
            daemon.write("music", plugin(TOLD))
            daemon.load("music")
            event = daemon.wait_audit("plugin.project_refused")[0]
            self.assertEqual((event["name"], event["project_id"], event["error_message"]),
                             (TOLD, "music", "not that one"))
            self.assertEqual(daemon.tell(TOLD, "result = 1"), 1)


class Refused(FlowTest):
    KNOB = """\
knobs:
  budget: { type: enum, label: Budget, values: [low, mid, high], default: mid,
            binds_to: config.budget }
"""

    def refuses(self, code):
        """A daemon whose plugin takes two configurations and refuses the third."""
        daemon = Projects(CONFIG)
        path = os.path.join(daemon.home, "plugins", CONFIG, "kaged-plugin.yaml")
        with open(path) as file:
            text = file.read().replace("MODE: accept", f'MODE: "ok ok {code}"')
        with open(path, "w") as file:
            file.write(text + self.KNOB)
        daemon.write_local(f'[plugins.{CONFIG}]\napi_token = "tok-12345678"\n')
        return daemon

    def test_a_knob_that_its_plugin_does_not_take_is_not_set(self):
        for code, words in ((-32004, "I do not like the field"), (-32601, "takes no configuration")):
            with self.subTest(code), self.refuses(code) as daemon:
                root = daemon.write("music", plugin(CONFIG, budget="low"))
                daemon.load("music")
                wait_for(lambda: len(daemon.configs(CONFIG)) == 2, "the project's configuration")
                code, _, err = daemon.cli("plugin", "knobs", "set", CONFIG, "budget", "high",
                                          "--project", "music")
                self.assertEqual(code, 6, err)
                self.assertIn(words, err)
                with open(os.path.join(root, ".kaged/project.yaml")) as file:
                    self.assertIn('"budget": "low"', file.read())
                self.assertEqual(daemon.cli("plugin", "knobs", "get", CONFIG, "budget",
                                            "--project", "music")[1], "low\n")
                self.assertIn(words, daemon.status(CONFIG)["config_refused"])
                self.assertIn(words, daemon.cli("plugin", "status", CONFIG)[1])
                self.assertIn(words, daemon.audit("plugin.config_refused")[0]["reason"])
                code, _, err = daemon.cli("plugin", "knobs", "set", CONFIG, "budget", "mid",
                                          "--project", "music")
                self.assertEqual((code, err), (0, ""))
                self.assertIsNone(daemon.status(CONFIG)["config_refused"])

    def test_a_table_of_local_toml_that_does_not_fit_is_not_said_to_hold(self):
        with self.refuses("ok") as daemon:
            with open(os.path.join(daemon.home, "local.toml")) as file:
                good = file.read()
            daemon.write_local(good.replace("tok-12345678", "nonsense"))
            code, out, err = daemon.cli("reload")
            self.assertEqual(code, 0, err)
            self.assertNotIn("local.toml is in effect", out)
            self.assertIn(CONFIG, out)
            self.assertIn("api_token", daemon.status(CONFIG)["problem"])
            self.assertEqual(daemon.status(CONFIG)["state"], "running")
            daemon.write_local(good)
            code, out, err = daemon.cli("reload")
            self.assertEqual(code, 0, err)
            self.assertIsNone(daemon.status(CONFIG)["problem"])
            self.assertIn("local.toml is in effect", out)


class Audited(FlowTest):
    def test_faults_and_tools_of_agents(self):
        with Projects("declares-all") as daemon:
            daemon.write("music", {"all": {"package": "declares-all"}}, more="""\
  subagents:
    reader:
      plugins:
        all: { package: declares-all, hooks: [on_session_start], config: { turns: 70 } }
""")
            daemon.load("music")
            events = {event["event"]: event for event in daemon.audit()}
            self.assertEqual(events["plugin.tool_registered"]["agent_path"], "primary")
            illegal = events["plugin.hook.illegal"]
            self.assertEqual((illegal["name"], illegal["hook"], illegal["agent_path"]),
                             ("declares-all", "on_session_start", "primary.subagents.reader"))
            failed = events["plugin.config_validation_failed"]
            self.assertEqual((failed["name"], failed["side"]), ("declares-all", "project"))
            self.assertIn("turns", failed["errors"][0])
            count = len(daemon.audit("plugin.tool_registered"))
            daemon.api("POST", "/projects/music/reload")
            self.assertEqual(len(daemon.audit("plugin.tool_registered")), count)


if __name__ == "__main__":
    main()
