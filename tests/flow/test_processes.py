"""Whom a process serves: all, a project or a conversation; when it starts, and when it ends."""
import json
import os
import re
import shutil

from harness import Daemon, FlowTest, at_once, main, wait_for

NOTES = "keeps-notes"


class Notes(Daemon):
    """A daemon with a plugin that keeps notes and does not look who asks, in two projects."""

    def __init__(self, more="", without="", **options):
        super().__init__([NOTES], **options)
        path = os.path.join(self.home, "plugins", NOTES, "kaged-plugin.yaml")
        with open(path) as file:
            text = file.read().replace(without, "")
        with open(path, "w") as file:
            file.write(text + more)
        for name in ("music", "books"):
            self.write_project(name, f"version: 1\nname: {name}\nprimary:\n"
                               f"  plugins: {{ {NOTES}: {{ package: {NOTES} }} }}\n")

    def __enter__(self):
        super().__enter__()
        for name in ("music", "books"):
            status, project = self.api("POST", "/projects", {"path": self.project_root(name)})
            assert status == 200 and project["state"] == "active", project
        return self

    def session(self, project):
        status, session = self.api("POST", f"/projects/{project}/sessions", {})
        assert status == 201, session
        return session["id"]

    def note(self, session, text):
        status, answer = self.api("POST", f"/sessions/{session}/tools/{NOTES}.add", {"text": text})
        assert status == 200 and "result" in answer, answer
        return answer["result"]

    def close(self, session):
        assert self.api("DELETE", f"/sessions/{session}")[0] == 200

    def shown(self, name):
        return self.cli("plugin", "status", name)[1].splitlines()[0]


def kept(answer):
    return answer["memory"], answer["file"], answer["storage"]


class Whom(FlowTest):
    def test_a_plugin_that_does_not_look_who_asks_does_not_mix_projects(self):
        with Notes() as daemon:
            sessions = {name: daemon.session(name) for name in ("music", "books")}
            for name, session in sessions.items():
                daemon.note(session, f"one-of-{name}")
            for name, session in sessions.items():
                answer = daemon.note(session, "two")
                self.assertEqual(kept(answer), ([f"one-of-{name}", "two"],) * 3)
                self.assertEqual(answer["project"], name)
                self.assertTrue(answer["path"].endswith(f"plugin-data/{NOTES}@{name}/notes"))
                self.assertTrue(os.path.exists(
                    os.path.join(daemon.home, f"state/storage/{NOTES}@{name}.db")))

    def test_a_reload_of_a_plugin_reaches_its_processes_in_projects(self):
        with Notes() as daemon:
            names = [f"{NOTES}@{project}" for project in ("music", "books")]
            for project in "music", "books":
                daemon.note(daemon.session(project), "one")
            starts = {name: daemon.status(name)["starts"] for name in names}
            path = os.path.join(daemon.home, "plugins", NOTES, "kaged-plugin.yaml")
            with open(path, "a") as file:
                file.write("author: somebody else\n")
            daemon.approve()
            status, answer = daemon.api("POST", f"/plugins/{NOTES}/reload")
            self.assertEqual((status, answer["others"]), (200, {name: "restarted" for name in names}), answer)
            for name in names:
                daemon.wait_restarted(name, starts[name])
            told = [row["name"] for row in daemon.audit("plugin.reloaded")]
            self.assertEqual(sorted(told), sorted([NOTES, *names]))
            status, answer = daemon.api("POST", f"/plugins/{names[0]}/reload")
            self.assertEqual((status, answer["action"], answer["others"]), (200, "nothing", {}), answer)

    def test_the_process_for_no_project_starts_at_its_first_call_and_keeps_its_own(self):
        with Notes() as daemon:
            self.assertEqual(daemon.status(NOTES)["state"], "idle")
            self.assertIn("starts at first use", daemon.shown(NOTES))
            daemon.note(daemon.session("music"), "of-music")
            answers = at_once([lambda: daemon.call(NOTES, "notes.add", {"text": "x"})] * 5)
            self.assertEqual(sorted(len(answer["memory"]) for answer in answers), [1, 2, 3, 4, 5])
            self.assertIsNone(answers[0]["project"])
            self.assertTrue(answers[0]["path"].endswith(f"plugin-data/{NOTES}/notes"))
            self.assertEqual(daemon.status(NOTES)["starts"], 1)
            code, out, _ = daemon.cli("plugin", "storage", NOTES, "SELECT count(*) AS n FROM note")
            self.assertEqual((code, "5" in out), (0, True), out)
            code, out, _ = daemon.cli("plugin", "storage", f"{NOTES}@music",
                                      "SELECT text FROM note")
            self.assertIn("of-music", out)
            for act in ("logs", "status", "restart", "disable", "enable"):
                code, _, err = daemon.cli("plugin", act, NOTES)
                self.assertEqual((code, err), (0, ""), act)
            self.assertEqual(daemon.call(NOTES, "notes.add", {"text": "y"})["file"],
                             ["x"] * 5 + ["y"])

    def test_one_conversation_does_not_see_another(self):
        with Notes("process: session\n") as daemon:
            first, second = daemon.session("music"), daemon.session("music")
            self.assertEqual(daemon.note(first, "a")["memory"], ["a"])
            self.assertEqual(daemon.note(second, "b")["memory"], ["b"])
            self.assertEqual(daemon.note(first, "c")["memory"], ["a", "c"])
            self.assertEqual(daemon.note(first, "d")["project"], "music")
            names = {row["name"] for row in daemon.api("GET", "/plugins")[1]["plugins"]}
            self.assertEqual(names, {NOTES, f"{NOTES}@{first}", f"{NOTES}@{second}"})
            daemon.close(first)
            wait_for(lambda: daemon.api("GET", f"/plugins/{NOTES}@{first}")[0] == 404, "its end")
            self.assertEqual(daemon.note(second, "e")["memory"], ["b", "e"])

    def test_what_was_installed_before_is_shared_until_an_upgrade_says_otherwise(self):
        daemon = Notes()
        daemon.approve()
        daemon.approved = False
        with open(os.path.join(daemon.home, "local.toml")) as file:
            text = file.read()
        self.assertIn('process = "project"', text)
        daemon.write_local(re.sub(r"process = .*\n", "", text))
        with daemon:
            daemon.wait_state(NOTES, "running")
            sessions = [daemon.session(name) for name in ("music", "books")]
            daemon.note(sessions[0], "old")
            answer = daemon.note(sessions[1], "older")
            self.assertEqual(kept(answer), (["old", "older"],) * 3)
            self.assertIsNone(answer["project"])
            source = os.path.join(daemon.base, "new", NOTES)
            shutil.copytree(os.path.join(daemon.home, "plugins", NOTES), source)
            for name in ("kaged-plugin.yaml", "plugin.py"):
                with open(os.path.join(source, name)) as file:
                    text = file.read().replace("1.0.0", "1.1.0")
                with open(os.path.join(source, name), "w") as file:
                    file.write(text)
            code, out, err = daemon.cli("plugin", "install", source, "--yes")
            self.assertEqual((code, err), (0, ""), out)
            self.assertIn("stays with its process for no project", out)
            answer = daemon.note(daemon.session("music"), "new")
            self.assertEqual((kept(answer), answer["project"]), ((["new"],) * 3, "music"))
            answer = daemon.call(NOTES, "notes.add", {"text": "last"})
            self.assertEqual((answer["file"], answer["storage"]), (["old", "older", "last"],) * 2)


class Life(FlowTest):
    def test_no_process_of_a_project_outlives_its_use(self):
        with Notes(config={"limits.idle_after_ms": 300}) as daemon:
            name, session = f"{NOTES}@music", daemon.session("music")
            first = daemon.note(session, "a")
            daemon.close(session)
            status = daemon.wait_state(name, "idle")
            self.assertIsNone(status["pid"])
            self.assertIsNotNone(status["idle_since"])
            self.assertEqual(status["last_exit"]["cause"], "idle")
            self.assertIn("idle since", daemon.shown(name))
            self.assertIn("idle", daemon.cli("plugin", "list")[1])
            self.assertEqual(daemon.wait_audit("plugin.idle", name)[0]["name"], name)
            again = daemon.note(daemon.session("music"), "b")
            self.assertEqual((again["memory"], again["file"]), (["b"], ["a", "b"]))
            self.assertEqual(first["project"], again["project"])

    def test_a_session_that_is_awake_keeps_the_process_of_its_project(self):
        with Notes(config={"limits.idle_after_ms": 100, "sessions.idle_after_sec": 5}) as daemon:
            name, session = f"{NOTES}@music", daemon.session("music")
            daemon.note(session, "a")
            status = daemon.wait_state(name, "idle")  # the session is idle by then
            self.assertEqual(status["starts"], 1)
            ended = daemon.wait_audit("plugin.idle", name)[0]
            self.assertLess(daemon.audit("session.idle")[0]["ts"], ended["ts"])
            self.assertEqual(daemon.note(session, "b")["memory"], ["b"])

    def test_a_plugin_with_tools_alone_does_not_run_before_its_first_use(self):
        with Notes(without="methods: [notes.add]\n", config={"limits.idle_after_ms": 300}) as daemon:
            name = f"{NOTES}@music"
            session = daemon.session("music")
            status, answer = daemon.api("POST", f"/sessions/{session}/messages",
                                        {"messages": [{"role": "user", "content": "hello"}]})
            self.assertEqual(status, 200, answer)
            self.assertEqual(daemon.status(name)["starts"], 0)
            self.assertIn("starts at first use", daemon.shown(name))
            tools = daemon.api("GET", f"/plugins/{NOTES}/tools")[1]
            self.assertIn("add", json.dumps(tools))
            self.assertEqual(daemon.note(session, "a")["memory"], ["a"])
            daemon.wait_state(name, "idle")  # though the session is awake
            self.assertEqual(daemon.note(session, "b")["memory"], ["b"])

    def test_a_shared_plugin_that_starts_at_first_use_is_not_started_with_the_daemon(self):
        with Notes("process: shared\nstart: first-use\nidle_after: 1\n") as daemon:
            self.assertEqual(daemon.status(NOTES)["starts"], 0)
            self.assertEqual(daemon.call(NOTES, "notes.add", {"text": "a"})["memory"], ["a"])
            daemon.wait_state(NOTES, "idle")
            self.assertEqual(daemon.call(NOTES, "notes.add", {"text": "b"})["file"], ["a", "b"])

    def test_a_call_does_not_wait_for_a_plugin_that_does_not_start(self):
        daemon = Notes("start: first-use\n", config={"limits.restart_failures": 1})
        with open(os.path.join(daemon.home, "plugins", NOTES, "plugin.py"), "w") as file:
            file.write("#!/bin/sh\nexit 3\n")
        with daemon:
            status, error = daemon.try_call(NOTES, "notes.add", {"text": "a"})
            self.assertEqual((status, error["code"]), (502, "plugin_down"), error)
            self.assertIn("exited with code 3", error["message"])

    def test_a_method_that_there_is_not_starts_nothing(self):
        with Notes("start: first-use\n") as daemon:
            status, error = daemon.try_call(NOTES, "notes.no", {})
            self.assertEqual((status, error["code"]), (404, "method_not_found"), error)
            self.assertEqual(daemon.status(NOTES)["starts"], 0)

    def test_a_caller_that_leaves_before_the_start_is_forgotten(self):
        daemon = Notes("start: first-use\n")
        path = os.path.join(daemon.home, "plugins", NOTES, "plugin.py")
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(text.replace("notes, unread", "import time\ntime.sleep(1)\nnotes, unread"))
        with daemon:
            status, error = daemon.try_call(NOTES, "notes.add", {"text": "a"},
                                            headers={"Kaged-Timeout-Ms": "50"})
            self.assertEqual(status, 504, error)
            daemon.wait_state(NOTES, "running")
            self.assertEqual(daemon.call(NOTES, "notes.add", {"text": "b"})["memory"], ["b"])


if __name__ == "__main__":
    main()
