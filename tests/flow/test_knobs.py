"""Knobs: what an operator turns is checked twice, written into the project's file, and told."""
import json
import os
import shutil
import urllib.parse

from harness import Daemon, FlowTest, at_once, main, wait_for

PROJECT = """\
# Music, for everybody.
version: 1
name: music
primary:
  model: deep        # thinks first
  plugins:
    # the only one
    mine:
      package: all-knobs
      config: { turns: 7 }   # seven, not more
  subagents:
    reader:
      plugins:
        k:
          package: all-knobs
          config:
            # quiet, please
            volume: 0.5   # half

            budget: low
    idler:
      model: deep
"""
LOCAL = """\
[providers.p]
kind = "openai"
base_url = "https://models.example"
[models.deep]
provider = "p"
model = "d"
reasoning = true
[models.quick]
provider = "p"
model = "q"
fast = true
"""
READER = "primary.subagents.reader"
# One value for each knob that it may have, and one that it may not, with what is said of that.
TURNS = {"volume": (0.7, 1.5, "max, 1"), "turns": (12, 0, "min, 1"),
         "budget": ("high", "most", "low, mid, high"), "loud": (True, "yes", "true or false"),
         "title": ("A: title #", "1 2", "pattern"),
         "notes": ("one\ntwo: # three\n", "x" * 101, "max_length, 100"),
         "thinker": ("deep", "quick", "filter, reasoning"),
         "store": ("config:/elsewhere", "/etc", "config:, project:"),
         "archive": ("config:/memory", "config:/nowhere", "/nowhere")}


class Knobs(FlowTest):
    @classmethod
    def setUpClass(cls):
        daemon = Daemon(["all-knobs", "good-c"], {"sandbox.root_writable": ["/tmp"]})
        daemon.write_local(LOCAL)
        cls.root = daemon.project_root("music")
        cls.file = os.path.join(cls.root, ".kaged/project.yaml")
        cls.share(daemon)

    def setUp(self):
        self.daemon.write_project("music", PROJECT)
        status, answer = self.daemon.api("POST", "/projects", {"path": self.root})
        self.assertEqual((status, answer.get("state")), (200, "active"), answer)
        self.running()

    def text(self):
        with open(self.file, newline="") as file:
            return file.read()

    def running(self):
        return self.daemon.wait_state("all-knobs", "running")

    def path(self, knob, plugin="all-knobs", **query):
        query = {"project": "music", **query}
        return f"/plugins/{plugin}/knobs{knob}?" + urllib.parse.urlencode(query)

    def knob(self, name, **query):
        status, answer = self.daemon.api("GET", self.path("", **query))
        self.assertEqual(status, 200, answer)
        return next(knob for knob in answer["knobs"] if knob["name"] == name)

    def turn(self, name, value, headers=None, **query):
        """(status, the knob or the error)"""
        status, answer = self.daemon.api("PUT", self.path("/" + name, **query), {"value": value},
                                         headers)
        return status, answer if status == 200 else answer["error"]

    def wait_told(self, key, value):
        def is_told():
            told = self.daemon.try_call("all-knobs", "knobs.told")
            return told[0] == 200 and told[1] and told[1][-1].get(key) == value
        wait_for(is_told, f"{key} = {value!r} at the plugin")

    def test_each_type_can_be_turned_and_the_plugin_is_told(self):
        for name, (value, *_) in TURNS.items():
            with self.subTest(name):
                status, knob = self.turn(name, value)
                self.assertEqual((status, knob.get("value"), knob.get("origin")),
                                 (200, value, "agent"), knob)
                self.assertIn(("config", "primary", "mine", name),
                              [(it["kind"], it["agent"], it["plugin"], it["what"])
                               for it in knob["changes"]])
                self.assertEqual(self.knob(name)["value"], value)
                self.wait_told(name, value)

    def test_what_is_out_of_bounds_is_refused_and_nothing_is_written(self):
        for name, (_, value, bound) in TURNS.items():
            with self.subTest(name):
                answer = self.turn(name, value)
                self.assert_error(answer, 422, "invalid_params")
                self.assertIn(f"knob {name}", answer[1]["message"])
                self.assertIn(bound, answer[1]["message"])
        self.assertEqual(self.text(), PROJECT)

    def test_a_value_must_fit_the_schema_of_the_configuration_too(self):
        answer = self.turn("turns", 17)  # within the knob's own bounds
        self.assert_error(answer, 422, "invalid_params")
        self.assertIn("17 does not fit the config_schema of all-knobs: must be at most 15",
                      answer[1]["message"])
        self.assertEqual(self.text(), PROJECT)

    def test_only_the_value_changes_in_the_file(self):
        self.assertEqual(self.turn("turns", 8)[0], 200)
        self.assertEqual(self.text(), PROJECT.replace("turns: 7", "turns: 8"))
        self.assertEqual(self.turn("volume", 0.6, agent=READER)[0], 200)
        self.assertEqual(self.text(), PROJECT.replace("turns: 7", "turns: 8")
                         .replace("volume: 0.5", "volume: 0.6"))

    def test_an_agent_has_values_of_its_own(self):
        self.assertEqual((self.knob("budget", agent=READER)["value"],
                          self.knob("budget")["value"]), ("low", "mid"))
        self.assertEqual(self.knob("budget", agent=READER)["origin"], "agent")
        self.assertEqual(self.knob("budget")["origin"], "schema")
        self.assertEqual(self.knob("notes")["origin"], "knob")

    def test_null_goes_back_to_the_default(self):
        status, knob = self.turn("budget", None, agent=READER)
        self.assertEqual((status, knob["value"], knob["origin"]), (200, "mid", "schema"))
        self.assertEqual(self.text(), PROJECT.replace("            budget: low\n", ""))
        status, knob = self.turn("budget", None, agent=READER)
        self.assertEqual((status, knob["changes"]), (200, []))

    def test_a_new_path_is_in_the_cage_and_the_old_one_is_not(self):
        data = os.path.join(os.path.realpath(self.daemon.home), "plugin-data/all-knobs")

        def touch(folder):
            return self.daemon.call("all-knobs", "knobs.touch",
                                    {"path": os.path.join(data, folder, "file")})
        self.assertEqual(touch("memory"), "written")
        starts = self.daemon.status("all-knobs")["starts"]
        self.assertEqual(self.turn("store", "config:/other")[0], 200)
        self.daemon.wait_restarted("all-knobs", starts)
        self.assertEqual(touch("other"), "written")
        self.assertNotEqual(touch("memory"), "written")

    def test_a_path_of_the_project_gives_it_a_process_of_its_own(self):
        memory = os.path.join(self.root, "memory")
        os.makedirs(memory)
        self.addCleanup(shutil.rmtree, memory)
        self.assertEqual(self.turn("store", "project:/memory")[0], 200)
        self.daemon.act("all-knobs@music", "enable")  # no session does it here
        self.daemon.wait_state("all-knobs@music", "running")
        self.assertEqual(self.daemon.call("all-knobs@music", "knobs.touch",
                                          {"path": os.path.join(memory, "file")}), "written")
        self.assertEqual(sorted(os.listdir(memory)), [".kaged", "file"])  # the first is a cover
        self.assertEqual(self.knob("store", plugin="all-knobs@music")["value"], "project:/memory")
        self.assertEqual(self.turn("store", None, plugin="all-knobs@music")[0], 200)
        wait_for(lambda: self.daemon.api("GET", "/plugins/all-knobs@music")[0] == 404, "its end")

    def test_many_at_once_are_all_written(self):
        self.assertEqual(at_once([lambda name=name: self.turn(name, TURNS[name][0])[0]
                                  for name in ("volume", "turns", "budget", "loud", "title")]),
                         [200] * 5)
        self.assertEqual([self.knob(name)["value"] for name in ("volume", "turns", "budget")],
                         [0.7, 12, "high"])

    def test_a_path_of_the_project_must_be_there(self):
        answer = self.turn("store", "project:/nowhere")
        self.assert_error(answer, 422, "invalid_params")
        self.assertIn("music/nowhere", answer[1]["message"])
        os.symlink("/etc", os.path.join(self.root, "link"))
        self.assert_error(self.turn("store", "project:/link"), 422, "invalid_params")
        os.unlink(os.path.join(self.root, "link"))
        self.assertEqual(self.text(), PROJECT)

    def test_a_sensitive_value_is_shown_nowhere(self):
        status, knob = self.turn("pin", "7531")
        self.assertEqual((status, knob["value"], knob["hidden"]), (200, None, True))
        self.wait_told("pin", "7531")
        self.assertEqual(self.turn("pin", "75310")[0], 422)
        shown = [knob, self.turn("pin", "75310"), self.knob("pin"), self.daemon.audit(),
                 self.daemon.api("GET", "/projects/music"), self.daemon.cli(
                     "plugin", "knobs", "all-knobs", "--project", "music")]
        self.assertNotIn("7531", json.dumps(shown) + self.daemon.log())

    def test_it_is_audited_with_the_request(self):
        self.turn("loud", True, headers={"X-Request-Id": "turn-1"}, agent=READER)
        event = self.daemon.wait_audit("plugin.knob_write", "all-knobs")[-1]
        self.assertEqual((event["knob"], event["agent_path"], event["request_id"]),
                         ("loud", READER, "turn-1"))

    def test_what_is_not_there_is_said(self):
        for name, query, hint in (("turn", {}, "turns"),
                                  ("turns", {"agent": "primary.subagents.reeder"}, READER),
                                  ("turns", {"agent": "primary.subagents.idler"}, READER),
                                  ("turns", {"project": "musik"}, ""),
                                  ("turns", {"plugin": "all-knob"}, "")):
            with self.subTest(f"{name} {query}"):
                answer = self.turn(name, 1, **query)
                self.assert_error(answer, 404, "not_found")
                self.assertIn(hint, answer[1].get("hint", ""))
        answer = self.daemon.api("PUT", "/plugins/all-knobs/knobs/turns", {"value": 1})
        self.assertEqual((answer[0], "project" in answer[1]["error"]["hint"]), (400, True))
        self.assertEqual(self.daemon.api("GET", "/plugins/all-knobs/knobs?agent=primary")[0], 400)
        for body in ({}, {"value": 1, "more": 2}, [1], None):
            answer = self.daemon.api("PUT", self.path("/turns"), body)
            self.assertEqual(answer[0], 400, answer)
        self.assertEqual(self.text(), PROJECT)

    def test_a_file_that_was_broken_meanwhile_is_left_alone(self):
        broken = PROJECT.replace("primary:", "primry:")
        with open(self.file, "w") as file:
            file.write(broken)
        self.assert_error(self.turn("turns", 9), 422, "invalid_project")
        self.assertEqual(self.text(), broken)

    def test_the_commands(self):
        def knobs(*words):
            return self.daemon.cli("plugin", "knobs", *words, "--project", "music")
        code, out, err = knobs("all-knobs")
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"turns +int_range +7 +this agent +5 +Turns")
        self.assertRegex(out, r"store +path +\"config:/memory\" +the plugin's default")
        self.assertEqual(knobs("get", "all-knobs", "turns"), (0, "7\n", ""))
        self.assertEqual(knobs("get", "all-knobs", "budget", "--agent", READER), (0, "low\n", ""))
        self.assertEqual(knobs("set", "all-knobs", "turns", "9"),
                         (0, "turns = 9   [this agent]\n", ""))
        self.assertEqual(knobs("set", "all-knobs", "title", "true"),
                         (0, 'title = "true"   [this agent]\n', ""))
        self.assertEqual(knobs("set", "all-knobs", "turns", "--unset"),
                         (0, "turns = 5   [the plugin's default]\n", ""))
        for words, expected in ((["set", "all-knobs", "turns", "70"], 6),
                                (["set", "all-knobs", "turns", "many"], 6),
                                (["set", "all-knobs", "loud", "1"], 6),
                                (["set", "all-knobs", "turns"], 2),
                                (["get", "all-knobs", "turn"], 4),
                                (["get", "good-c", "turns"], 4)):
            with self.subTest(" ".join(words)):
                self.assertEqual(knobs(*words)[0], expected)
        self.assertEqual(self.daemon.cli("plugin", "knobs", "set", "all-knobs", "turns", "3")[0], 2)


if __name__ == "__main__":
    main()
