"""What is run or believed outside of cages is not written in one, though what is around it is."""
import os
import re
import subprocess

from harness import ROOT, Daemon, FlowTest, main, wait_for

TOLD = "does-as-told"


def guards():
    """{path: (missing, grant)}, as the table has them."""
    with open(os.path.join(ROOT, "src/cage/guards.def")) as file:
        rows = re.findall(r'^GUARD\("([^"]+)", (\w+), (\w+),', file.read(), re.MULTILINE)
    return {path: (missing, grant) for path, missing, grant in rows}


class Guarded(FlowTest):
    def setUp(self):
        super().setUp()
        self.daemon = Daemon([TOLD], enabled=[TOLD], config={"sandbox.root_writable": ["/tmp"]})
        self.work = self.daemon.project_root("work")
        os.makedirs(self.work)
        self.daemon.declare(TOLD, f"write:fs:{self.work}")

    def at(self, *parts):
        return os.path.join(self.work, *parts)

    def make(self, path, text="mine\n"):
        os.makedirs(os.path.dirname(self.at(path)), exist_ok=True)
        with open(self.at(path), "w") as file:
            file.write(text)

    def git(self, *words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True,
                       cwd=self.work, capture_output=True)

    def tell(self, code):
        answer = self.daemon.call(TOLD, "told.run", {"code": "import os\n" + code})
        return answer["result"] if "result" in answer else answer["error"]

    def put(self, path):
        return self.tell(f"open({self.at(path)!r}, 'w').write('x'); result = 'ok'")

    def move(self, path, to):
        return self.tell(f"os.rename({self.at(path)!r}, {self.at(to)!r}); result = 'ok'")

    def test_what_is_there_is_guarded_in_the_root_and_in_work_trees_of_three_levels(self):
        for tree in ("", "a/", "a/b/", "a/b/c/", "a/b/c/d/"):
            for path in guards():
                self.make(f"{tree}{path}/kept")
        with self.daemon:
            for tree in ("", "a/", "a/b/", "a/b/c/"):
                for path in guards():
                    self.assertEqual(self.put(f"{tree}{path}/new"), "EROFS", tree + path)
                    self.assertIn(self.move(tree + path, "moved"), ("EBUSY", "EXDEV"), path)
                self.assertEqual(self.put(f"{tree}.git/index"), "ok")
            self.assertEqual(self.move("a", "moved"), "EBUSY")
            self.assertEqual(self.put("a/b/c/d/.vscode/new"), "ok", "it is deeper")

    def test_missing_ones_are_made_where_the_table_says(self):
        os.makedirs(self.at("tree/.git"))
        os.makedirs(self.at("plain"))
        with self.daemon:
            self.assertEqual(self.put("tree/.git/hooks/pre-commit"), "EROFS")
            self.assertEqual(self.put("tree/.kaged/project.yaml"), "EROFS")
            self.assertEqual(self.put(".kaged/project.yaml"), "EROFS")
            self.assertEqual(os.listdir(self.at("tree/.git")), ["hooks"])
            self.assertEqual(sorted(os.listdir(self.at("tree"))), [".git", ".kaged"])
            self.assertEqual(os.listdir(self.at("plain")), [])
            self.assertEqual(sorted(os.listdir(self.work)), [".kaged", "plain", "tree"])

    def test_a_repository_elsewhere_is_guarded_where_it_is(self):
        self.git("init", "-q", "main")
        self.git("-C", "main", "commit", "-q", "--allow-empty", "-m", "first")
        self.git("-C", "main", "worktree", "add", "-q", "../side")
        with self.daemon:
            self.assertEqual(self.put("side/.git"), "EROFS", "it says where the repository is")
            for path in ("hooks/new", "config", "worktrees/side/commondir"):
                self.assertEqual(self.put(f"main/.git/{path}"), "EROFS", path)
            self.assertEqual(self.put("side/file"), "ok")

    def test_a_folder_of_hooks_and_an_included_config_are_guarded(self):
        self.git("init", "-q")
        self.make("shared.gitconfig", "[user]\n")
        self.git("config", "core.hooksPath", "tools/hooks")
        self.git("config", "include.path", "../shared.gitconfig")
        os.makedirs(self.at("tools"))
        with self.daemon:
            self.assertEqual(self.put("tools/hooks/pre-commit"), "EROFS")
            self.assertEqual(self.put("shared.gitconfig"), "EROFS")
            self.assertEqual(self.move("tools", "moved"), "EBUSY")
            self.assertEqual(self.put("tools/other"), "ok")

    def test_a_link_is_guarded_where_it_leads(self):
        os.makedirs(self.at(".git"))
        self.make("githooks/pre-commit")
        os.symlink("../githooks", self.at(".git/hooks"))
        with self.daemon:
            self.assertEqual(self.put("githooks/pre-commit"), "EROFS")
            self.assertEqual(self.put(".git/hooks/pre-commit"), "EROFS")

    def test_a_grant_in_a_repository_is_no_way_around(self):
        self.git("init", "-q")
        self.daemon.declare(TOLD, f"write:fs:{self.at('.git')}")
        with self.daemon:
            self.assertEqual(self.put(".git/hooks/pre-commit"), "EROFS")
            self.assertEqual(self.put(".git/config"), "EROFS")
            self.assertEqual(self.put(".git/index"), "ok")

    def test_by_its_name_it_is_granted(self):
        self.git("init", "-q")
        self.daemon.declare(TOLD, f"write:fs:{self.work}", f"write:fs:{self.at('.git/hooks')}")
        with self.daemon:
            self.assertEqual(self.put(".git/hooks/pre-commit"), "ok")
            self.assertEqual(self.put(".git/config"), "EROFS")

    def test_what_projects_are_made_of_is_never_granted(self):
        self.make(".kaged/deep/file")
        self.daemon.declare(TOLD, f"write:fs:{self.at('.kaged/deep')}")
        with self.daemon:
            self.assertIn("the project's own file", self.daemon.wait_exit(TOLD, "cage")["words"])

    def test_more_work_trees_than_can_be_guarded_are_refused(self):
        for number in range(65):
            os.makedirs(self.at(f"{number}/.git"))
        with self.daemon:
            self.assertIn("more than 64 git work trees",
                          self.daemon.wait_exit(TOLD, "cage")["words"])
            self.assertFalse(os.path.exists(self.at(".kaged")), "nothing is made for a refused plan")

    def quarantined(self):
        folder = self.at(".kaged/quarantine")
        return sorted(name.split("-", 1)[1] for name in os.listdir(folder)) \
            if os.path.exists(folder) else []

    def wait_quarantined(self, *names):
        wait_for(lambda: self.quarantined() == sorted(names), f"{names} in the quarantine")

    def test_what_appears_is_moved_to_the_quarantine_and_told(self):
        watched = [path for path, (missing, _) in guards().items() if missing == "WATCHED"]
        with self.daemon as daemon:
            for path in watched:
                self.tell(f"os.makedirs({self.at(path)!r})")
            self.wait_quarantined(*map(os.path.basename, watched))
            for path in watched:
                self.assertFalse(os.path.lexists(self.at(path)), path)
            events = daemon.audit("plugin.quarantined", TOLD)
            self.assertEqual({event["path"] for event in events}, set(map(self.at, watched)))
            told = daemon.status(TOLD)["quarantined"]
            self.assertEqual(len(told), 16)
            self.assertIn(events[-1]["to"], told)
            self.assertIn(events[-1]["to"], daemon.cli("plugin", "status", TOLD)[1])
            self.assertIn("appeared, and is guarded", daemon.log())
            self.assertEqual(self.put(events[-1]["to"] + "/x"), "EROFS")

    def test_a_plugin_can_be_ended_while_its_folders_are_looked_at(self):
        for name in (f"a{i}/b{k}" for i in range(60) for k in range(60)):
            os.makedirs(self.at(name))
        self.make("a59/b59/.git/hooks/kept")
        with self.daemon as daemon:
            for _ in range(4):
                for act in "disable", "enable", "restart", "disable":
                    daemon.act(TOLD, act)
                daemon.wait_state(TOLD, "disabled")
            daemon.act(TOLD, "enable")
            daemon.wait_state(TOLD, "running")
            self.assertEqual(self.put("a59/b59/.git/hooks/new"), "EROFS")
            daemon.act(TOLD, "restart")  # and the daemon ends right after

    def test_a_plugin_that_fills_the_quarantine_is_disabled(self):
        with self.daemon as daemon:
            for count in range(1, 33):
                self.tell(f"os.makedirs({self.at('.vscode')!r})")
                wait_for(lambda: len(self.quarantined()) == count, f"{count} in the quarantine")
            daemon.wait_state(TOLD, "disabled")
            self.assertIn("is disabled: guarded files appeared 32 times", daemon.log())
            self.assertEqual(daemon.cli("plugin", "enable", TOLD)[0], 0)
            daemon.wait_state(TOLD, "running")

    def test_a_way_around_that_appears_is_moved_to_the_quarantine(self):
        outside = os.path.join(os.path.dirname(self.work), "outside")
        os.makedirs(os.path.join(outside, "fish"))
        with self.daemon:
            self.tell(f"os.symlink({outside!r}, {self.at('.config')!r})\n"
                      f"open({self.at('.git')!r}, 'w').write('gitdir: evil')")
            self.wait_quarantined(".config", ".git")
            self.assertEqual(os.listdir(outside), ["fish"], "links are not followed")

    def test_a_link_that_is_replaced_is_moved_to_the_quarantine(self):
        os.makedirs(self.at(".git"))
        self.make("githooks/pre-commit")
        os.symlink("../githooks", self.at(".git/hooks"))
        with self.daemon:
            self.tell(f"os.unlink({self.at('.git/hooks')!r}); os.mkdir({self.at('.git/hooks')!r})")
            self.wait_quarantined("hooks")

    def test_what_appeared_is_moved_at_the_end_too(self):
        code = f"import os; os.mkdir({self.at('.vscode')!r}); os.kill(os.getpid(), 9)"
        with self.daemon as daemon:
            starts = daemon.status(TOLD)["starts"]
            daemon.try_call(TOLD, "told.run", {"code": code})
            daemon.wait_restarted(TOLD, starts)
            self.assertEqual(self.quarantined(), [".vscode"], "before it is started again")

    def test_a_file_that_an_editor_replaced_is_guarded_again_after_a_restart(self):
        self.git("init", "-q")
        with self.daemon as daemon:
            self.assertEqual(self.put(".git/config"), "EROFS")
            starts = daemon.status(TOLD)["starts"]
            self.git("config", "core.bare", "false")
            daemon.wait_restarted(TOLD, starts)
            self.assertEqual(daemon.audit("plugin.covered", TOLD)[-1]["path"],
                             self.at(".git/config"))
            self.assertEqual(self.put(".git/config"), "EROFS")
            self.assertEqual(self.quarantined(), [])

    def test_what_kaged_keeps_for_a_plugin_is_its_own(self):
        self.daemon.declare(TOLD, "write:fs:config:/data")
        with self.daemon:
            self.assertEqual(
                self.tell("root = os.environ['KAGED_CONFIG_ROOT'] + '/data/'\n"
                          "os.makedirs(root + '.git/hooks'); result = os.listdir(root)"), [".git"])


if __name__ == "__main__":
    main()
