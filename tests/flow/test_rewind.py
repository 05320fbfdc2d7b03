"""Rewind: files go back with the conversation, in a repository of git and in a folder without one."""
import contextlib
import json
import os
import shutil
import sqlite3
import stat
import subprocess

from harness import PATIENCE, ROOT, FlowTest, UnixConnection, main, wait_for
from test_branches import VETO, move, words
from test_scripts import Scripted
from test_turns import says

IGNORED = {".kaged", ".git"}
BOTH = ["session_write", "exec"]
with open(os.path.join(ROOT, "plugins/rewind/rewind.lua")) as source:
    REWIND = source.read()
# What other rewinds do: the entry before the last message of the user, unless that is the first of all.
BY_FORK = """
kage.request_capabilities({ "session_write" })
kage.register_command{ name = "back", description = "", handler = function()
  local entries = kage.session.entries()
  for i = #entries, 1, -1 do
    if entries[i].role == "user" then
      local target = entries[i - 1]
      if target == nil or target.kind == "header" then return "nothing to undo" end
      kage.session.fork_to(target.id)
      return "undone to " .. target.id
    end
  end
  return "nothing to undo"
end }
kage.register_command{ name = "entries", description = "", handler = function()
  return kage.json.encode(kage.session.entries()) end }
kage.register_command{ name = "go", description = "", handler = function(raw) kage.session.switch(raw) end }
"""


def git(root, *arguments, check=True):
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1",
                   **{f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in
                      ("NAME", "EMAIL")}}
    ran = subprocess.run(["git", *arguments], cwd=root, env=environment, capture_output=True, text=True)
    assert not check or ran.returncode == 0, ran.stderr
    return ran.stdout


def files(root):
    """{path: what is in it} of all that people work with."""
    found = {}
    for folder, names, plain in os.walk(root):
        names[:] = [name for name in names if name not in IGNORED]
        for name in plain + [name for name in names if os.path.islink(os.path.join(folder, name))]:
            path = os.path.join(folder, name)
            key = os.path.relpath(path, root)
            if not stat.S_ISREG(os.lstat(path).st_mode) and not os.path.islink(path):
                continue
            if os.path.islink(path):
                found[key] = "-> " + os.readlink(path)
            else:
                with open(path, "rb") as file:
                    found[key] = file.read()
    return found


def write(root, path, content, mode=None):
    path = os.path.join(root, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    if mode is not None:
        os.chmod(path, mode)


class Project(Scripted):
    """A shop whose files are kept before each turn."""

    def __init__(self, *answers, scripts=None, repository=True, config=None):
        super().__init__(scripts or {}, *answers,
                         config={"sessions.rewind": ["shop"], **(config or {})})
        write(self.root, "tracked.txt", "v1")
        write(self.root, "deep/er/kept.txt", "kept")
        if repository:
            git(self.root, "init", "-q")
            git(self.root, "add", "-A")
            git(self.root, "commit", "-qm", "first")

    def act(self, change, text):
        """An answer of the model, by which something happens to files."""
        def answer(connection):
            change(self.root)
            connection.sendall(says(text))
        return answer

    def turns(self, *changes):
        """One turn for each change; [(files, words)] before each of them, and at the end."""
        seen = [(files(self.root), words(self))]
        for number, change in enumerate(changes):
            self.provider.answers.append(self.act(change, f"a{number}"))
            self.run(f"u{number}")
            seen.append((files(self.root), words(self)))
        return seen

    def now(self):
        return files(self.root), words(self)


def first_turn(root):
    write(root, "tracked.txt", "v2")
    write(root, "new file.txt", "untracked")


def second_turn(root):
    os.unlink(os.path.join(root, "deep/er/kept.txt"))
    os.rmdir(os.path.join(root, "deep/er"))
    write(root, "run.sh", "#!/bin/sh\n", 0o755)
    os.symlink("tracked.txt", os.path.join(root, "link"))


def third_turn(root):
    write(root, "tracked.txt", b"\x00\xff binary\r\n")
    write(root, "more/of/it.txt", "third")
    os.chmod(os.path.join(root, "run.sh"), 0o644)
    os.unlink(os.path.join(root, "link"))


class Story(FlowTest):
    def story(self, repository):
        with Project(scripts={"keeps": VETO}, repository=repository) as shop:
            before = git(shop.root, "status", "--porcelain") if repository else None
            first, second, third, last = shop.turns(first_turn, second_turn, third_turn)
            self.assertEqual(len({json.dumps([sorted(map(str, state[0].items()))]) for state in
                                  (first, second, third, last)}), 4)
            told = move(shop, "undo", dry_run=True)
            self.assertEqual(shop.now(), last)
            self.assertEqual({(each["path"], each["change"]) for each in told["files"]["changes"]}, {
                ("tracked.txt", "changed"), ("more/of/it.txt", "removed"), ("run.sh", "changed"), ("link", "created")})
            move(shop, "undo")
            self.assertEqual(shop.now(), third)
            self.assertTrue(os.stat(os.path.join(shop.root, "run.sh")).st_mode & stat.S_IXUSR)
            move(shop, "undo")
            self.assertEqual(shop.now(), second)
            shop.command("forbid", "no further")
            move(shop, "undo", 403)
            self.assertEqual(shop.now(), second)
            shop.command("forbid")
            move(shop, "redo")
            self.assertEqual(shop.now(), third)
            move(shop, "redo")
            self.assertEqual(shop.now(), last)
            # A fork leaves files alone, and goes its own way.
            status, made = shop.daemon.api("POST", f"/sessions/{shop.session}/fork", {})
            self.assertEqual((status, shop.now()), (201, last))
            entry = [each["id"] for each in shop.daemon.api("GET", f"/sessions/{shop.session}/entries")[1]["entries"]
                     if each["content"] == "u0"][0]
            move(shop, "rewind", entry=entry)
            self.assertEqual(shop.now(), (first[0], ["u0"]))
            move(shop, "redo")
            self.assertEqual(shop.now(), last)
            if repository:
                move(shop, "rewind", entry=entry)
                self.assertEqual(git(shop.root, "status", "--porcelain"), before)
            return shop

    def test_in_git_files_and_words_go_back_and_forth(self):
        self.story(repository=True)

    def test_the_same_in_a_folder_without_git(self):
        self.story(repository=False)


class Files(FlowTest):
    def test_what_a_redo_leaves_is_kept_after_another_turn(self):
        with Project() as shop:
            shop.turns(first_turn)
            move(shop, "undo")
            self.assertEqual(files(shop.root)["tracked.txt"], b"v1")
            shop.turns(lambda root: write(root, "tracked.txt", "another"))
            move(shop, "redo")
            self.assertEqual(files(shop.root)["tracked.txt"], b"v2")
            self.assertEqual(files(shop.root)["new file.txt"], b"untracked")

    def test_staging_area_head_and_ignored_files_are_not_touched(self):
        with Project() as shop:
            write(shop.root, ".gitignore", "*.log\n")
            write(shop.root, "build.log", "one")
            write(shop.root, "staged.txt", "staged")
            git(shop.root, "add", "staged.txt")
            write(shop.root, "staged.txt", "and changed since")
            before = (git(shop.root, "diff", "--cached"), git(shop.root, "rev-parse", "HEAD"),
                      git(shop.root, "stash", "list"))

            def change(root):
                write(root, "staged.txt", "by the turn")
                write(root, "build.log", "two")
                write(root, "other.log", "three")
            shop.turns(change)
            move(shop, "undo")
            found = files(shop.root)
            self.assertEqual((found["staged.txt"], found["build.log"], found["other.log"]),
                             (b"and changed since", b"two", b"three"))
            self.assertEqual((git(shop.root, "diff", "--cached"), git(shop.root, "rev-parse", "HEAD"),
                              git(shop.root, "stash", "list")), before)
            refs = git(shop.root, "for-each-ref", "--format=%(refname)").split()
            self.assertTrue(all(ref.startswith(("refs/heads/", f"refs/kaged/{shop.session}/")) for ref in refs), refs)
            self.assertEqual(git(shop.root, "fsck", "--no-dangling"), "")
            git(shop.root, "gc", "-q", "--prune=now")
            move(shop, "redo")
            self.assertEqual(files(shop.root)["staged.txt"], b"by the turn")

    def test_guarded_and_large_files_are_left_out_and_named(self):
        with Project(config={"limits.snapshot_file_mb": 1}) as shop:
            def change(root):
                write(root, ".vscode/tasks.json", "{}")
                write(root, "large.bin", b"x" * ((1 << 20) + 1))
                write(root, "small.txt", "x")
                os.mkfifo(os.path.join(root, "fifo"))
            shop.turns(change)
            told = move(shop, "undo")["files"]
            self.assertEqual([each["path"] for each in told["changes"]], ["small.txt"])
            self.assertEqual({each["path"]: each["why"] for each in told["left_out"]}, {
                ".kaged/project.yaml": "it is guarded", ".vscode/tasks.json": "it is guarded",
                "large.bin": "it is too large"})
            self.assertEqual(len(files(shop.root)["large.bin"]), (1 << 20) + 1)
            self.assertTrue(os.path.exists(os.path.join(shop.root, "fifo")))

    def test_folder_past_the_bound_has_no_snapshot_and_turns_go_on(self):
        with Project(config={"limits.snapshot_files": 5}) as shop:
            shop.turns(lambda root: [write(root, f"f{i}", "x") for i in range(9)], lambda root: None)
            self.assertIn("more than 5 files", shop.daemon.log())
            told = move(shop, "undo")
            self.assertEqual((told["files"], words(shop)), (None, ["u0", "a0"]))
            code, out, _ = shop.daemon.cli("session", "redo", shop.session, "--yes")
            self.assertIn("files stay as they are", out)
            self.assertEqual(code, 0)

    def test_project_that_does_not_want_it_has_nothing_of_it(self):
        with Project(config={"sessions.rewind": ["other"]}) as shop:
            shop.turns(first_turn)
            self.assertIsNone(move(shop, "undo")["files"])
            self.assertEqual(files(shop.root)["tracked.txt"], b"v2")
            self.assertEqual(git(shop.root, "for-each-ref", "refs/kaged"), "")
            self.assertFalse(os.path.exists(os.path.join(shop.daemon.home, "state/snapshots")))

    def test_conversation_alone_goes_back_where_that_is_wanted(self):
        with Project() as shop:
            shop.turns(first_turn)
            self.assertIsNone(move(shop, "undo", conversation_only=True)["files"])
            self.assertEqual((files(shop.root)["tracked.txt"], words(shop)), (b"v2", []))

    def test_snapshots_are_bounded_and_their_refs_go(self):
        with Project(config={"limits.snapshots": 3}) as shop:
            shop.turns(*(lambda root, i=i: write(root, "tracked.txt", f"t{i}") for i in range(6)))
            refs = git(shop.root, "for-each-ref", "--format=%(refname)", "refs/kaged").split()
            self.assertLessEqual(len(refs), 3)
            move(shop, "undo")
            self.assertEqual(files(shop.root)["tracked.txt"], b"t4")


class Hostile(FlowTest):
    """Repositories that want something run, or written elsewhere."""

    def test_hooks_filters_and_monitors_of_a_repository_are_not_run(self):
        with Project() as shop:
            mark = os.path.join(shop.root, "ran")
            trap = os.path.join(shop.root, "trap.sh")
            write(shop.root, "trap.sh", f"#!/bin/sh\necho ran >> {mark}\ncat\n", 0o755)
            write(shop.root, ".gitattributes", "*.txt filter=evil text eol=crlf\n")
            for key in ("core.fsmonitor", "core.hooksPath", "filter.evil.clean", "filter.evil.smudge",
                        "filter.evil.process", "core.sshCommand", "core.pager", "diff.external"):
                git(shop.root, "config", key, os.path.dirname(trap) if key == "core.hooksPath" else trap)
            git(shop.root, "config", "filter.evil.required", "true")
            for hook in ("post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc"):
                shutil.copy(trap, os.path.join(shop.root, ".git/hooks", hook))
            write(shop.root, "crlf.txt", b"a\r\nb\n")
            shop.turns(lambda root: write(root, "crlf.txt", b"other\n"))
            move(shop, "undo")
            self.assertFalse(os.path.exists(mark))
            self.assertEqual(files(shop.root)["crlf.txt"], b"a\r\nb\n")

    def test_links_lead_nowhere_else(self):
        with Project() as shop:
            outside = os.path.join(shop.daemon.home, "outside")
            os.mkdir(outside)
            write(outside, "precious.txt", "precious")

            def change(root):
                shutil.rmtree(os.path.join(root, "deep"))
                os.symlink(outside, os.path.join(root, "deep"))
                os.unlink(os.path.join(root, "tracked.txt"))
                os.symlink(os.path.join(outside, "precious.txt"), os.path.join(root, "tracked.txt"))
            before = files(shop.root)
            shop.turns(change)
            move(shop, "undo")
            self.assertEqual(files(shop.root), before)
            self.assertEqual(files(outside), {"precious.txt": b"precious"})
            move(shop, "redo")
            self.assertEqual(os.readlink(os.path.join(shop.root, "deep")), outside)
            self.assertEqual(files(outside), {"precious.txt": b"precious"})

    def test_repositories_inside_are_left_alone_and_named(self):
        with Project() as shop:
            inner = os.path.join(shop.root, "inner")
            os.mkdir(inner)
            git(inner, "init", "-q")
            write(inner, "own.txt", "one")
            shop.turns(lambda root: write(inner, "own.txt", "two"))
            told = move(shop, "undo")["files"]
            self.assertEqual([each["path"] for each in told["left_out"]], [".kaged/project.yaml", "inner/"])
            self.assertEqual(files(shop.root)["inner/own.txt"], b"two")

    def test_names_of_any_bytes_and_a_file_in_place_of_a_folder(self):
        with Project() as shop:
            odd = [b'quo"te.txt', b'"both', b"new\nline", b"back\\slash", b"latin\xff1", b"-n", b" lead"]
            for name in odd:
                with open(os.path.join(shop.root.encode(), name), "wb") as file:
                    file.write(name)

            def change(root):
                for name in odd:
                    os.unlink(os.path.join(root.encode(), name))
                shutil.rmtree(os.path.join(root, "deep"))
                write(root, "deep", "a file now")
            before = files(shop.root)
            shop.turns(change)
            self.assertEqual(files(shop.root)["deep"], b"a file now")
            move(shop, "undo")
            self.assertEqual(files(shop.root), before)

    def test_broken_repository_costs_no_turn(self):
        with Project() as shop:
            write(shop.root, ".git/config", "[core\n")
            shop.turns(first_turn)
            self.assertIsNone(move(shop, "undo")["files"])
            self.assertIn("its files were not saved", shop.daemon.log())


class ByScript(FlowTest):
    """The same by commands of rewind.lua, which keeps files by itself."""

    def project(self, grants, repository=True, **more):
        config = {"sessions.rewind": [], "sandbox.root_writable": ["/tmp"], "plugins.capabilities.rewind": grants}
        return Project(scripts={"rewind": REWIND, "keeps": VETO, **more}, repository=repository, config=config)

    def story(self, repository):
        with self.project(BOTH, repository) as shop:
            first, second, third, last = shop.turns(first_turn, second_turn, third_turn)
            lines = shop.command("undo", "yes")
            self.assertEqual([line["type"] for line in lines], ["moved", "result"])
            self.assertEqual(lines[1]["text"], "undone to " + lines[0]["move"]["entry"][:8])
            self.assertEqual(shop.now(), third)
            shop.command("undo", "yes")
            self.assertEqual(shop.now(), second)
            shop.command("forbid", "no further")
            notice, result = shop.command("undo", "yes")
            self.assertEqual((notice["type"], notice["level"]), ("notice", "error"))
            self.assertIn("no further", notice["text"])
            self.assertEqual(shop.now(), second)
            shop.command("forbid")
            self.assertEqual(shop.text("redo", "yes"), "re-applied")
            self.assertEqual(shop.now(), third)
            self.assertEqual(shop.text("rewind-status"), "rewind: 2 message(s) to undo, redo: yes, files=true")
            shop.command("redo", "yes")
            self.assertEqual(shop.now(), last)
            self.assertEqual(shop.text("redo", "yes"), "nothing to redo")
            self.assertEqual(shop.daemon.api("POST", f"/sessions/{shop.session}/fork", {})[0], 201)
            self.assertEqual(shop.now(), last)
            for _ in range(3):
                shop.command("undo", "yes")
            self.assertEqual(shop.now(), first)
            self.assertEqual(shop.text("undo", "yes"), "nothing to undo")

    def test_story_in_git(self):
        self.story(True)

    def test_story_without_git(self):
        self.story(False)

    def test_point_1_rewind_loads_with_no_one_and_both_grants(self):
        for grants in ([], ["session_write"], BOTH):
            with self.project(grants) as shop:
                commands = shop.daemon.api("GET", f"/sessions/{shop.session}/commands")[1]["commands"]
                names = {each["name"] for each in commands if each["plugin"] == "rewind"}
                self.assertEqual(names, {"undo", "redo", "rewind", "rewind-status"} if grants else set())
                self.assertNotIn(" error ", shop.daemon.log())

    def test_without_exec_words_go_back_and_files_stay(self):
        with self.project(["session_write"]) as shop:
            _, second, last = shop.turns(first_turn, second_turn)
            shop.command("undo", "yes")
            self.assertEqual(shop.now(), (last[0], second[1]))
            self.assertTrue(shop.command("redo")[-1]["is_error"])

    def test_point_4_undo_forks_at_the_answer_before_or_says_that_there_is_nothing(self):
        with Scripted({"b": BY_FORK}, says("A1"), says("A2"), config={"plugins.capabilities.b": ["session_write"]}) as shop:
            self.assertEqual(shop.text("back"), "nothing to undo")
            shop.run("U1")
            self.assertEqual(shop.text("back"), "nothing to undo")
            shop.run("U2")
            entries = json.loads(shop.text("entries"))
            self.assertEqual([(each["kind"], each.get("role")) for each in entries],
                             [("header", None), ("message", "user"), ("message", "assistant"), ("message", "user"),
                              ("message", "assistant")])
            ids = [each["id"] for each in entries]
            self.assertEqual(ids, sorted(ids))
            before = shop.daemon.api("GET", f"/sessions/{shop.session}")[1]["branch"]
            self.assertEqual(shop.text("back"), "undone to " + ids[2])
            self.assertEqual(words(shop), ["U1", "A1"])
            self.assertEqual([each["id"] for each in json.loads(shop.text("entries"))], ids[:3])
            shop.command("go", before)
            self.assertEqual(words(shop), ["U1", "A1", "U2", "A2"])

    def test_point_5_redo_after_another_turn_has_files_and_words_of_before(self):
        with self.project(BOTH) as shop:
            shop.turns(lambda root: write(root, "tracked.txt", "v1.5"), lambda root: [
                write(root, "tracked.txt", "v2"), write(root, "untracked", "new")])
            shop.command("undo", "yes")
            self.assertEqual(files(shop.root)["tracked.txt"], b"v1.5")
            shop.turns(lambda root: write(root, "other.txt", "x"))
            shop.command("redo", "yes")
            found = files(shop.root)
            self.assertEqual((found["tracked.txt"], found["untracked"], "other.txt" in found), (b"v2", b"new", False))

    def test_point_9_another_script_has_none_of_it(self):
        tries = """
        kage.register_command{ name = "try", description = "", handler = function()
          local _, a = pcall(kage.session.entries)
          local _, b = pcall(kage.session.snapshot)
          return tostring(a) .. "|" .. tostring(b) end }
        """
        with self.project(BOTH, other=tries) as shop:
            said = shop.text("try")
            self.assertEqual(said.count('[plugins.capabilities] other = ["session_write"] in config.toml'), 2)

    def test_snapshot_and_restore_of_a_script(self):
        keeps = """
        kage.request_capabilities({ "session_write", "exec" })
        kage.register_command{ name = "keep", description = "", handler = function()
          return kage.session.snapshot().id end }
        kage.register_command{ name = "bring", description = "", handler = function(id)
          return kage.json.encode(kage.session.restore(id)) end }
        kage.register_command{ name = "show", description = "", handler = function(id)
          return kage.json.encode(kage.session.restore(id, { dry_run = true })) end }
        """
        with Project(scripts={"k": keeps}, config={"plugins.capabilities.k": BOTH}) as shop:
            before = files(shop.root)
            kept = shop.text("keep")
            first_turn(shop.root)
            after = files(shop.root)
            self.assertEqual(json.loads(shop.text("show", kept))["change_count"], 2)
            self.assertEqual(files(shop.root), after)
            done = json.loads(shop.text("bring", kept))
            self.assertEqual(files(shop.root), before)
            shop.text("bring", done["before"])
            self.assertEqual(files(shop.root), after)
            self.assertIn("does not exist", shop.command("bring", "snp_0")[-1]["text"])


# A rewind as others write it for kage: all by exec of git, entries and fork_to, its state in locals.
OTHERS = """
local caps = kage.request_capabilities({ "session_write", "exec" })
if not caps.session_write then
  kage.notify("rewind: disabled (grant session_write)")
  return
end
local checkpoints, redo, warned = {}, {}, false

local function git(...)
  local ok, result = pcall(kage.exec, { cmd = "git", args = { ... } })
  if not ok then
    if not warned then
      warned = true
      kage.notify("rewind: git unavailable: " .. tostring(result), "warning")
    end
    return nil
  end
  return result.code == 0 and result.stdout:gsub("%s+$", "") or nil
end

local function snapshot()
  if not caps.exec or git("rev-parse", "--is-inside-work-tree") ~= "true" then return false end
  local sha = git("stash", "create", "kage-rewind checkpoint")
  return sha ~= nil and sha ~= "" and sha or false
end

local function id8(id) return string.sub(id, 1, 8) end

kage.on("turn_end", function(turn)
  local entries = kage.session.entries()
  if type(turn.index) ~= "number" or #entries == 0 then return end
  checkpoints[#checkpoints + 1] = { id = entries[#entries].id, sha = snapshot() }
end)

local function restore(target)
  local best
  for _, point in ipairs(checkpoints) do
    if point.id <= target then best = point end
  end
  if best and best.sha then return git("checkout", best.sha, "--", ".") ~= nil end
  return false
end

local function back_to(target)
  local now = snapshot()
  if now then redo[#redo + 1] = now end
  local restored = restore(target)
  kage.session.fork_to(target)
  kage.notify(restored and "rewind: files restored" or "rewind: conversation only")
end

kage.register_command{ name = "undo", description = "Drop the last exchange", aliases = { "u" },
  handler = function()
    local entries = kage.session.entries()
    for i = #entries, 1, -1 do
      if entries[i].kind == "message" and entries[i].role == "user" then
        local target = entries[i - 1]
        if target == nil or target.kind == "header" then break end
        back_to(target.id)
        return "undone to " .. id8(target.id)
      end
    end
    kage.notify("nothing to undo")
    return "nothing to undo"
  end }

kage.register_command{ name = "rewind", description = "Fork at a message", handler = function()
  local items = {}
  for _, entry in ipairs(kage.session.entries()) do
    if entry.role == "user" then
      items[#items + 1] = { label = string.format("user  %s  %s", entry.ts:sub(12, 19), id8(entry.id)),
                            value = entry.id }
    end
  end
  local target = kage.ui.select("Rewind to", items)
  if target == nil then return "cancelled" end
  if not kage.ui.confirm("Rewind?", "to " .. id8(target)) then return "cancelled" end
  back_to(target)
  return "rewound to " .. id8(target)
end }

kage.register_command{ name = "redo", description = "Files of before the last undo", aliases = { "rewind-redo" },
  handler = function()
    local sha = table.remove(redo)
    if sha == nil then return "nothing to redo" end
    return git("checkout", sha, "--", ".") and "re-applied" or { text = "failed", is_error = true }
  end }

kage.register_command{ name = "rewind-status", description = "Counts", aliases = { "undo-status" },
  handler = function()
    return string.format("rewind: %d checkpoint(s), %d redo, files=%s", #checkpoints, #redo,
                         tostring(caps.exec == true))
  end }
"""


class OfOthers(FlowTest):
    """A rewind that was written for kage runs as it is."""

    def shop(self, grants=BOTH, script=OTHERS, **more):
        config = {"sessions.rewind": [], "sandbox.root_writable": ["/tmp"], "plugins.capabilities.rewind": grants}
        return Project(scripts={"rewind": script}, config=config, **more)

    def test_undo_redo_and_status_in_git(self):
        with self.shop() as shop:
            shop.turns(lambda root: write(root, "tracked.txt", "v1.5"),
                       lambda root: [write(root, "tracked.txt", "v2"), write(root, "untracked", "new")])
            self.assertEqual(shop.text("rewind-status"), "rewind: 2 checkpoint(s), 0 redo, files=true")
            entries = shop.daemon.api("GET", f"/sessions/{shop.session}/entries")[1]["entries"]
            before = [each["id"] for each in entries if each["content"] == "a0"][0]
            self.assertEqual(shop.text("u"), "undone to " + before[:8])
            self.assertEqual((files(shop.root)["tracked.txt"], words(shop)), (b"v1.5", ["u0", "a0"]))
            self.assertEqual(files(shop.root)["untracked"], b"new")
            self.assertEqual(shop.text("undo"), "nothing to undo")
            shop.turns(lambda root: None)
            self.assertEqual(shop.text("redo"), "re-applied")
            self.assertEqual(files(shop.root)["tracked.txt"], b"v2")
            self.assertEqual(shop.text("undo-status"), "rewind: 3 checkpoint(s), 0 redo, files=true")

    def test_rewind_asks_which_and_whether(self):
        with self.shop() as shop:
            shop.turns(first_turn, second_turn)
            entries = shop.daemon.api("GET", f"/sessions/{shop.session}/entries")[1]["entries"]
            target, = [each for each in entries if each["content"] == "u0"]
            label = f"user  {target['created_at'][11:19]}  {target['id'][:8]}"
            cancelled = shop.daemon.cli("session", "command", shop.session, "rewind", "--answer", label,
                                        "--answer", "no")
            self.assertEqual((cancelled[1], words(shop)), ("cancelled\n", ["u0", "a0", "u1", "a1"]), cancelled)
            code, out, errors = shop.daemon.cli("session", "command", shop.session, "rewind", "--answer", label,
                                                "--answer", "yes")
            self.assertEqual((code, words(shop)), (0, ["u0"]), errors)
            self.assertIn("rewound to " + target["id"][:8], out)

    def test_point_1_it_loads_with_no_one_and_both_grants(self):
        for grants in ([], ["session_write"], BOTH):
            with self.subTest(grants), self.shop(grants) as shop:
                commands = shop.daemon.api("GET", f"/sessions/{shop.session}/commands")[1]["commands"]
                self.assertEqual(len(commands), 4 if grants else 0)
                self.assertNotIn(" error ", shop.daemon.log())

    def test_point_6_exec_that_raises_costs_the_files_alone_and_is_one_warning(self):
        raises = "kage.exec = function() error('no git here') end\n"
        script = OTHERS.replace("local checkpoints", raises + "local checkpoints")
        with self.shop(script=script) as shop:
            shop.turns(first_turn, second_turn)
            self.assertTrue(shop.text("undo").startswith("undone to "))
            self.assertEqual(words(shop), ["u0", "a0"])
            self.assertEqual(shop.daemon.log().count("git unavailable"), 1)


class Stopped(FlowTest):
    """The daemon ends while files are being put back."""

    COUNT = 1500

    def many(self, text):
        return lambda root: [write(root, f"many/f{i}", f"{text} {i}") for i in range(self.COUNT)]

    def journal(self, shop):
        with contextlib.closing(sqlite3.connect(f"file:{shop.daemon.home}/state/kaged.db?mode=ro", uri=True,
                                                timeout=PATIENCE)) as database:
            return database.execute("SELECT session FROM session_restore").fetchall()

    def check(self, end, repository=True):
        with Project(repository=repository) as shop:
            _, undone, last = shop.turns(self.many("one"), self.many("two"))
            connection = UnixConnection(shop.daemon.socket, PATIENCE)
            connection.request("POST", f"/api/v1/sessions/{shop.session}/undo", "{}")
            wait_for(lambda: self.journal(shop), "the note")
            end(shop.daemon)
            connection.close()
            noted = self.journal(shop)
            shop.daemon.start()
            wait_for(lambda: not self.journal(shop), "files to be what they were")
            if not noted:  # it was over before the daemon was
                self.assertEqual(shop.now(), undone)
                return
            wait_for(lambda: shop.daemon.audit("session.files_recovered"), "a line of the audit log")
            self.assertEqual(shop.now(), last)
            self.assertIn("they are again what they were before", shop.daemon.log())
            wait_for(lambda: shop.daemon.api("POST", f"/sessions/{shop.session}/undo", {})[0] == 200, "the move")
            self.assertEqual(shop.now(), undone)
            shop.daemon.stop()
            shop.daemon.start()
            self.assertEqual(shop.now(), undone)
            self.assertEqual(len(shop.daemon.audit("session.files_recovered")), 1)

    def test_one_that_is_killed_puts_files_back_at_its_next_start(self):
        self.check(lambda daemon: daemon.kill())

    def test_one_that_stops_leaves_them_to_the_next(self):
        self.check(lambda daemon: daemon.stop(), repository=False)


class Handlers(FlowTest):
    """A session is closed, forked or moved while a handler runs."""

    SLOW = """
    kage.request_capabilities({ "session_write" })
    kage.register_command{ name = "slow", description = "", handler = function()
      kage.notify("begun")
      while kage.store.get("go") == nil do kage.sleep_ms(50) end
      kage.session.fork_to(kage.session.entries()[2].id)
      return "asked"
    end }
    kage.register_command{ name = "release", description = "", handler = function() kage.store.set("go", 1) end }
    """
    IN_TURN = """
    kage.request_capabilities({ "session_write" })
    kage.on("turn_end", function()
      seen = #kage.session.entries()
      if not moved then
        moved = true
        kage.session.fork_to(kage.session.entries()[3].id)
      end
    end)
    kage.register_command{ name = "seen", description = "", handler = function() return tostring(seen) end }
    """

    def slow(self, shop, meanwhile):
        """Runs the command, and `meanwhile` when it has begun."""
        connection = UnixConnection(shop.daemon.socket, PATIENCE * 3)
        connection.request("POST", f"/api/v1/sessions/{shop.session}/commands/slow", "{}")
        with contextlib.closing(connection), connection.getresponse() as response:
            self.assertEqual(json.loads(response.readline())["text"], "begun")
            meanwhile()
            session, shop.session = shop.session, shop.new_session()
            shop.command("release")
            shop.session = session
            return [json.loads(line) for line in response]

    def shop(self):
        return Scripted({"s": self.SLOW}, says("a0"), says("a1"),
                        config={"plugins.capabilities.s": ["session_write"]})

    def test_session_that_is_closed_while_a_handler_runs_is_not_moved(self):
        with self.shop() as shop:
            shop.run("u0")
            shop.run("u1")
            self.slow(shop, lambda: shop.daemon.api("DELETE", f"/sessions/{shop.session}"))
            self.assertEqual(words(shop), ["u0", "a0", "u1", "a1"])
            self.assertEqual(shop.daemon.api("GET", f"/sessions/{shop.session}")[1]["state"], "closed")

    def test_session_that_is_moved_while_a_handler_runs_is_moved_from_there(self):
        with self.shop() as shop:
            shop.run("u0")
            shop.run("u1")
            self.slow(shop, lambda: move(shop, "undo"))
            self.assertEqual(words(shop), ["u0"])

    def test_session_that_is_forked_while_a_handler_runs_leaves_the_fork_alone(self):
        with self.shop() as shop:
            shop.run("u0")
            shop.run("u1")
            made = []
            self.slow(shop, lambda: made.append(shop.daemon.api("POST", f"/sessions/{shop.session}/fork", {})[1]))
            self.assertEqual(words(shop), ["u0"])
            shop.session = made[0]["id"]
            self.assertEqual(words(shop), ["u0", "a0", "u1", "a1"])

    def test_request_in_a_turn_does_not_wait_for_it_and_the_move_comes_after(self):
        with Scripted({"t": self.IN_TURN}, says("a0"), says("a1"),
                      config={"plugins.capabilities.t": ["session_write"]}) as shop:
            shop.run("u0")
            wait_for(lambda: shop.daemon.audit("session.branch_moved"), "the move")
            self.assertEqual(words(shop), ["u0", "a0"])
            shop.run("u1")
            self.assertEqual(words(shop), ["u0", "a0", "u1", "a1"])
            self.assertEqual(shop.text("seen"), "5")


if __name__ == "__main__":
    main()
