"""Branches: a session moves between them by undo, redo and rewind, and its id stays."""
# also on PostgreSQL
import json

from harness import FlowTest, main, wait_for
from test_events import Reader
from test_scripts import Scripted
from test_turns import hangs, next_line, says

VETO = """
kage.on("session_before_switch", function(target)
  asked = target
  if forbidden then return { cancel = forbidden } end
end)
kage.register_command{ name = "forbid", description = "", handler = function(raw)
  forbidden = raw ~= "" and raw or nil end }
kage.register_command{ name = "asked", description = "", handler = function() return tostring(asked) end }
"""


def move(shop, act, status=200, session=None, **body):
    got, answer = shop.daemon.api("POST", f"/sessions/{session or shop.session}/{act}", body)
    assert got == status, (got, answer)
    return answer


def words(shop):
    """What the user and the model said, in order."""
    return [content for kind, _, content in shop.entries() if kind == "message"]


def talk(shop, *texts):
    for text in texts:
        shop.run(text)


class Moves(FlowTest):
    def test_undo_twice_redo_twice_and_the_id_stays(self):
        with Scripted({}, *(says(f"a{i}") for i in range(4))) as shop:
            talk(shop, "u0", "u1", "u2")
            first = shop.daemon.api("GET", f"/sessions/{shop.session}")[1]
            self.assertEqual((first["branch"][3:], first["left_by"]), (shop.session[4:], None))
            told = move(shop, "undo", dry_run=True)
            self.assertEqual((told["applied"], told["said"], told["to"], told["from"]),
                             (False, "u2", None, first["branch"]))
            self.assertEqual(words(shop), ["u0", "a0", "u1", "a1", "u2", "a2"])
            undone = move(shop, "undo")
            self.assertEqual(undone["entries_before"] - undone["entries_after"], 2)
            self.assertEqual(words(shop), ["u0", "a0", "u1", "a1"])
            shown = shop.daemon.api("GET", f"/sessions/{shop.session}")[1]
            self.assertEqual((shown["id"], shown["branch"], shown["state"], shown["title"], shown["parent"]),
                             (shop.session, undone["to"], "active", "u0", None))
            self.assertEqual(shown["created_at"], first["created_at"])
            move(shop, "undo")
            self.assertEqual(words(shop), ["u0", "a0"])
            talk(shop, "u3")
            self.assertEqual(words(shop), ["u0", "a0", "u3", "a3"])
            move(shop, "redo")
            self.assertEqual(words(shop), ["u0", "a0", "u1", "a1"])
            self.assertEqual(move(shop, "redo")["to"], first["branch"])
            self.assertEqual(words(shop), ["u0", "a0", "u1", "a1", "u2", "a2"])
            self.assertIn("nothing to redo", move(shop, "redo", 409)["error"]["message"])

    def test_first_exchange_is_undone_and_then_nothing_is_left_to_undo(self):
        with Scripted({}, says("a0"), says("a1")) as shop:
            self.assertIn("nothing to undo", move(shop, "undo", 409)["error"]["message"])
            talk(shop, "u0")
            move(shop, "undo")
            self.assertEqual(words(shop), [])
            self.assertIn("nothing to undo", move(shop, "undo", 409)["error"]["message"])
            talk(shop, "again")
            self.assertEqual(words(shop), ["again", "a1"])

    def test_rewind_goes_to_an_entry_and_says_what_does_not_fit(self):
        with Scripted({}, says("a0"), says("a1"), says("b1")) as shop:
            talk(shop, "u0", "u1")
            entries = shop.daemon.api("GET", f"/sessions/{shop.session}/entries")[1]["entries"]
            answer = [each for each in entries if each["content"] == "a0"][0]
            moved = move(shop, "rewind", entry=answer["id"])
            self.assertEqual((moved["act"], moved["entry"], moved["said"]), ("rewind", answer["id"], "u1"))
            self.assertEqual(words(shop), ["u0", "a0"])
            self.assertIn("already at that entry", move(shop, "rewind", 409, entry=answer["id"])["error"]["message"])
            move(shop, "rewind", 404, entry=entries[-1]["id"])
            move(shop, "rewind", 400)
            talk(shop, "u1b")
            self.assertEqual(words(shop), ["u0", "a0", "u1b", "b1"])
            # What is forked shares nothing with what was left.
            made = shop.daemon.api("POST", f"/sessions/{shop.session}/fork", {})[1]
            self.assertEqual(made["parent"], shop.session)

    def test_branch_that_was_left_is_a_closed_session_that_lists_do_not_show(self):
        with Scripted({}, says("a0"), says("a1"), says("a2")) as shop:
            talk(shop, "u0", "u1")
            move(shop, "undo")
            listed = shop.daemon.api("GET", "/sessions")[1]["sessions"]
            self.assertEqual([each["id"] for each in listed], [shop.session])
            self.assertEqual(shop.daemon.api("GET", "/sessions/@last")[1]["id"], shop.session)
            (left,), = shop.daemon.rows(f"SELECT id FROM session WHERE left_by = '{shop.session}'")
            shown = shop.daemon.api("GET", f"/sessions/{left}")[1]
            self.assertEqual((shown["state"], shown["left_by"], shown["entries"] > 3), ("closed", shop.session, True))
            move(shop, "undo", 409, session=left)
            # Who resumes it has a session of its own, which cannot be returned to.
            self.assertEqual(shop.daemon.api("POST", f"/sessions/{left}/resume", {})[1]["left_by"], None)
            self.assertIn(left, move(shop, "redo", 409)["error"]["hint"])
            self.assertEqual(len(shop.daemon.api("GET", "/sessions")[1]["sessions"]), 2)

    def test_moves_survive_a_restart_and_are_audited_and_told(self):
        with Scripted({}, says("a0"), says("a1")) as shop:
            talk(shop, "u0", "u1")
            reader = Reader(shop.daemon, "?type=branch_moved")
            undone = move(shop, "undo")
            told = reader.until(type="branch_moved")[1]
            self.assertEqual({key: told[key] for key in ("session_id", "from", "to")},
                             {"session_id": shop.session, "from": undone["from"], "to": undone["to"]})
            self.assertIn("at", told)
            shop.daemon.stop()
            shop.daemon.start()
            self.assertEqual(words(shop), ["u0", "a0"])
            move(shop, "redo")
            self.assertEqual(words(shop), ["u0", "a0", "u1", "a1"])
            moves = shop.daemon.audit("session.branch_moved")
            self.assertEqual([(each["act"], each["from"], each["to"]) for each in moves],
                             [("undo", undone["from"], undone["to"]), ("redo", undone["to"], undone["from"])])

    def test_plugins_are_told_the_branch(self):
        with Scripted({}, says("a0")) as shop:
            def branch_told():
                status, answer = shop.daemon.api("POST", f"/sessions/{shop.session}/tools/agents-as-told.act",
                                                 {"acts": {"echo": True}})
                assert status == 200, answer
                return json.loads(answer["result"]["inject"])["_context"]["branch"]
            talk(shop, "u0")
            before = shop.daemon.api("GET", f"/sessions/{shop.session}")[1]["branch"]
            self.assertEqual(branch_told(), before)
            undone = move(shop, "undo")
            self.assertEqual(branch_told(), undone["to"])

    def test_not_while_a_turn_runs_and_not_in_a_closed_session(self):
        with Scripted({}, says("a0"), hangs("wait")) as shop:
            talk(shop, "u0")
            with shop.running("u1") as response:
                next_line(response, "text")
                self.assertIn("a turn of primary is running", move(shop, "undo", 409)["error"]["message"])
                self.assertEqual(move(shop, "undo", dry_run=True)["said"], "u1")
            wait_for(lambda: not shop.daemon.api("GET", f"/sessions/{shop.session}")[1]["running"],
                     "the end of the turn")
            move(shop, "undo")
            self.assertEqual(words(shop), ["u0", "a0"])
            shop.daemon.api("DELETE", f"/sessions/{shop.session}")
            self.assertIn("closed", move(shop, "redo", 409)["error"]["message"])

    def test_script_forbids_a_move_before_anything_is_done(self):
        with Scripted({"keeps": VETO}, says("a0"), says("a1")) as shop:
            talk(shop, "u0", "u1")
            shop.command("forbid", "this one stays")
            error = move(shop, "undo", 403)["error"]
            self.assertIn("keeps", error["message"])
            self.assertIn("this one stays", error["message"])
            self.assertEqual(words(shop), ["u0", "a0", "u1", "a1"])
            shop.command("forbid")
            undone = move(shop, "undo")
            self.assertEqual(shop.text("asked"), undone["entry"])
            shop.command("forbid", "nor this")
            move(shop, "redo", 403)
            self.assertEqual(words(shop), ["u0", "a0"])


class Terminal(FlowTest):
    def test_commands_show_what_goes_and_want_a_yes(self):
        with Scripted({}, says("a0"), says("a1")) as shop:
            talk(shop, "u0", "what next")
            code, out, _ = shop.daemon.cli("session", "undo", shop.session, "--dry-run")
            self.assertEqual((code, out), (0, "2 entries go, from here on: what next\n"
                                              "files stay as they are: they have no snapshot from then\n"
                                              "nothing was changed\n"))
            code, out, errors = shop.daemon.cli("session", "undo", shop.session)
            self.assertEqual((code, out), (5, ""))
            self.assertIn("--yes", errors)
            self.assertEqual(len(words(shop)), 4)
            code, out, _ = shop.daemon.cli("session", "undo", "--last", "--yes")
            self.assertEqual(code, 0)
            self.assertIn(f"session redo {shop.session} takes it back", out)
            self.assertEqual(words(shop), ["u0", "a0"])
            code, out, _ = shop.daemon.cli("--json", "session", "redo", "--last", "--yes")
            self.assertEqual((code, json.loads(out)["act"]), (0, "redo"))
            code, out, _ = shop.daemon.cli("session", "rewind", "--last", "2", "--yes")
            self.assertEqual((code, words(shop)), (0, ["u0"]))


if __name__ == "__main__":
    main()
