"""The wire: the handshake, lines and their bounds, and what a plugin may and may not write."""
import json

from harness import Daemon, FlowTest, main

MIB = 1 << 20


class Handshake(FlowTest):
    plugins = ["good-c", "good-python", "good-bash", "good-node", "context-echo", "hasty-request",
               "missing-method", "extra-method"]

    def test_handshake_happy_path(self):
        seen = self.daemon.call("context-echo", "messages.seen")
        self.assertEqual([message["method"] for message in seen],
                         ["initialize", "initialized", "messages.seen"])
        initialize, initialized = seen[0], seen[1]
        self.assertEqual((initialize["jsonrpc"], initialize["id"]), ("2.0", 1))
        params = initialize["params"]
        self.assertEqual(params["api_version"], 1)
        self.assertEqual(params["plugin_name"], "context-echo")
        self.assertIsInstance(params["daemon_version"], str)
        self.assertIsInstance(params["storage_available"], bool)
        self.assertEqual(params["projects"], [])
        self.assertEqual(initialized, {"jsonrpc": "2.0", "method": "initialized", "params": {}})

    def test_handshake_is_audited(self):
        spawned, = self.daemon.audit("plugin.spawned", "good-c")
        initialized, = self.daemon.audit("plugin.initialized", "good-c")
        self.assertEqual(spawned["version"], "1.0.0")
        self.assertEqual(spawned["cage_id"], self.daemon.status("good-c")["cage_id"])
        self.assertEqual(initialized["methods_count"], 1)
        self.assertEqual(initialized["capabilities_count"], 0)
        self.assertLess(spawned["id"], initialized["id"])

    def test_plugins_of_four_languages_answer(self):
        for name in ("good-c", "good-python", "good-bash", "good-node"):
            with self.subTest(name):
                result = self.daemon.call(name, "good.echo", {"text": "schön \U0001f600 \"\\\n"})
                self.assertEqual(result["text"], "schön \U0001f600 \"\\\n")

    def test_request_together_with_the_answer_does_no_harm(self):
        code = self.daemon.call("hasty-request", "reply.code")
        self.assertIn(code, (-32002, -32003))  # before it is told, or after: it has no storage

    def test_missing_method_is_marked(self):
        self.assertEqual(self.daemon.status("missing-method")["methods"],
                         [{"name": "work.do", "available": True},
                          {"name": "work.undo", "available": False}])
        event, = self.daemon.audit("plugin.methods_differ", "missing-method")
        self.assertEqual((event["missing"], event["extra"]), (["work.undo"], []))
        self.assert_error(self.daemon.try_call("missing-method", "work.undo"), 404,
                          "method_not_found")

    def test_extra_method_is_ignored(self):
        event, = self.daemon.audit("plugin.methods_differ", "extra-method")
        self.assertEqual((event["missing"], event["extra"]), ([], ["work.secretly"]))
        self.assert_error(self.daemon.try_call("extra-method", "work.secretly"), 404,
                          "method_not_found")


class RefusedHandshake(FlowTest):
    """What an author must fix: killed, failed at once, no restart."""

    plugins = ["wrong-name", "wrong-version", "wrong-api", "overreach", "good-c"]

    def refused(self, plugin, event):
        status = self.daemon.wait_state(plugin, "failed")
        self.assertEqual(status["starts"], 1)
        self.assertIsNone(status["pid"])
        self.assertEqual(status["last_exit"]["cause"], "handshake")
        self.assertIsNone(status["last_exit"]["restart_at"])
        found, = self.daemon.audit(event, plugin)
        self.assertEqual(len(self.daemon.audit("plugin.failed", plugin)), 1)
        return found, status["last_exit"]["words"]

    def test_name_mismatch(self):
        event, words = self.refused("wrong-name", "plugin.name_mismatch")
        self.assertEqual(event["claimed"], "somebody-else")
        self.assertIn("somebody-else", words)

    def test_version_mismatch(self):
        event, words = self.refused("wrong-version", "plugin.version_mismatch")
        self.assertEqual((event["claimed"], event["expected"]), ("2.0.0", "1.0.0"))
        self.assertIn("2.0.0", words)

    def test_api_version_mismatch(self):
        event, words = self.refused("wrong-api", "plugin.api_mismatch")
        self.assertEqual((int(event["plugin_api"]), event["daemon_api"]), (99, 1))
        self.assertIn("99", words)
        self.assertIn("99", self.daemon.log())

    def test_capability_overreach(self):
        event, words = self.refused("overreach", "plugin.capability_overreach")
        self.assertEqual((event["claimed"], event["allowed"]), (["read:fs:/etc"], []))
        self.assertIn("read:fs:/etc", words)

    def test_others_are_not_disturbed(self):
        self.assertEqual(self.daemon.call("good-c", "good.echo", {"n": 1})["n"], 1)

    def test_call_of_a_failed_plugin_says_so(self):
        self.daemon.wait_state("wrong-name", "failed")
        answer = self.daemon.try_call("wrong-name", "work.do")
        self.assert_error(answer, 502, "plugin_down")
        self.assertIn("plugin wrong-name is failed: ", answer[1]["message"])


class BrokenHandshake(FlowTest):
    """Handshakes that may go better next time: killed and restarted, until the limit."""

    plugins = ["never-answers", "early-message", "malformed-initialize", "cut-initialize",
               "refuses-initialize", "crash-at-start"]
    config = {"limits.initialize_timeout_ms": 1500, "limits.restart_failures": 2}

    def failed(self, plugin):
        status = self.daemon.wait_state(plugin, "failed")
        self.assertEqual(status["starts"], 2)
        return status["last_exit"]

    def test_handshake_timeout(self):
        report = self.failed("never-answers")
        events = self.daemon.audit("plugin.initialize_timeout", "never-answers")
        self.assertEqual([event["timeout_ms"] for event in events], [1500, 1500])
        self.assertEqual(report["cause"], "handshake")
        self.assertIn((report["signal"], report["exit_code"]), [(9, None), (None, 0)],
                      "killed, unless it left first because its stdin was closed")
        self.assertIn("1500 ms", report["words"])

    def violated(self, plugin):
        report = self.failed(plugin)
        events = self.daemon.audit("plugin.protocol_violation", plugin)
        self.assertEqual(len(events), 2)
        return report, events[0]

    def test_message_before_initialize_kills(self):
        report, event = self.violated("early-message")
        self.assertEqual(event["violation_type"], "message_before_initialize")
        self.assertEqual(report["cause"], "protocol_violation")

    def test_malformed_initialize_result_kills(self):
        _, event = self.violated("malformed-initialize")
        self.assertIn("not an object", event["detail"])

    def test_cut_initialize_answer_kills(self):
        _, event = self.violated("cut-initialize")
        self.assertEqual(event["violation_type"], "malformed_response")

    def test_refused_initialize_is_told_in_its_words(self):
        self.assertIn("not today", self.failed("refuses-initialize")["words"])

    def test_exit_before_the_handshake_shows_its_last_words(self):
        report = self.failed("crash-at-start")
        self.assertEqual((report["cause"], report["exit_code"]), ("exited", 3))
        self.assertEqual(report["last_stderr"], ["cannot find my configuration"])


class Lines(FlowTest):
    plugins = ["batch", "long-line", "exact-line", "noise", "bad-utf8", "deep-nesting",
               "huge-numbers", "unknown-id", "duplicate-id", "both-result-and-error",
               "escaped-keys", "second-initialize", "slow-writer", "big-result",
               "forks-and-leaves"]

    def killed_for(self, plugin, violation):
        """The plugin is gone for that violation, and comes back."""
        event = self.daemon.wait_audit("plugin.protocol_violation", plugin)[-1]
        self.assertEqual(event["violation_type"], violation)
        self.daemon.wait_exit(plugin, "protocol_violation")
        self.daemon.wait_state(plugin, "running")
        return event

    def still_runs(self, plugin):
        status = self.daemon.status(plugin)
        self.assertEqual((status["state"], status["starts"]), ("running", 1))

    def test_batched_request_rejection(self):
        request = {"jsonrpc": "2.0", "id": 1, "method": "kaged.storage.schema"}
        for batch in ([], [request], [request] * 1000, [1, None, {}]):
            with self.subTest(len(batch)):
                answer = self.daemon.call("batch", "batch.send", {"batch": batch})
                self.assertEqual((answer["id"], answer["error"]["code"]), (None, -32600))
        event = self.daemon.wait_audit("plugin.protocol_violation", "batch")[0]
        self.assertEqual(event["violation_type"], "batch")
        self.still_runs("batch")

    def test_oversize_message(self):
        self.assert_error(self.daemon.try_call("long-line", "work.do"), 502, "plugin_down")
        self.killed_for("long-line", "oversize_message")

    def test_line_of_the_bound_passes_and_one_byte_more_kills(self):
        for size in (4 * MIB - 1, 4 * MIB):
            result = self.daemon.call("exact-line", "line.send", {"bytes": size})
            self.assertGreater(len(result), size - 64)
        self.still_runs("exact-line")
        answer = self.daemon.try_call("exact-line", "line.send", {"bytes": 4 * MIB + 1})
        self.assert_error(answer, 502, "plugin_down")
        self.killed_for("exact-line", "oversize_message")

    def test_results_pass_whole(self):
        for size in (0, 1, 65535, 65536, 3 * MIB):
            result = self.daemon.call("big-result", "bytes.give", {"bytes": size})
            self.assertEqual(len(result), size)

    def test_noise_on_stdout_is_audited_and_harmless(self):
        self.assertEqual(self.daemon.call("noise", "work.do"), "done")
        lines = [event["line"] for event in self.daemon.audit("plugin.stdout_noise", "noise")]
        self.assertIn("noise 1.0.0 (c) 2026", lines)
        self.assertIn("working: 100%", lines)
        self.still_runs("noise")

    def test_bad_utf8_is_noise(self):
        self.assertEqual(self.daemon.call("bad-utf8", "work.do"), "still here")
        event, = self.daemon.audit("plugin.stdout_noise", "bad-utf8")
        self.assertIn("bad.text", event["line"])
        self.still_runs("bad-utf8")

    def test_deep_nesting_is_noise(self):
        for depth in (300, 10_000, 200_000):
            result = self.daemon.call("deep-nesting", "nest.send", {"depth": depth})
            self.assertEqual(result, "still here")
        for event in self.daemon.wait_audit("plugin.stdout_noise", "deep-nesting"):
            self.assertLessEqual(len(event["line"]), 200)
        self.still_runs("deep-nesting")

    def test_huge_numbers_pass_as_they_came(self):
        for digits in (20, 1_000_000):
            status, body = self.daemon.raw(
                "POST", "/api/v1/plugins/huge-numbers/call/numbers.huge",
                json.dumps({"digits": digits}))
            self.assertEqual(status, 200)
            self.assertEqual(body.strip(), b"[" + b"7" * digits + b",1e400,-0,0.1]")

    def test_answer_to_an_id_that_was_never_asked_kills(self):
        self.assert_error(self.daemon.try_call("unknown-id", "id.answer", {"id": "999"}), 502,
                          "plugin_down")
        self.killed_for("unknown-id", "unknown_id")

    def test_answer_with_an_id_that_is_none_kills(self):
        for id in ("-1", "1.5", '"1"', "{}", "1" + "0" * 30):
            with self.subTest(id):
                starts = self.daemon.wait_state("unknown-id", "running")["starts"]
                answer = self.daemon.try_call("unknown-id", "id.answer", {"id": id})
                self.assert_error(answer, 502, "plugin_down")
                self.daemon.wait_restarted("unknown-id", starts)

    def test_second_answer_is_dropped(self):
        for _ in range(3):
            self.assertEqual(self.daemon.call("duplicate-id", "work.do"), "done")
        self.still_runs("duplicate-id")

    def test_result_and_error_at_once_kills(self):
        self.assert_error(self.daemon.try_call("both-result-and-error", "work.do"), 502,
                          "plugin_down")
        self.killed_for("both-result-and-error", "malformed_response")

    def test_keys_are_compared_decoded(self):
        self.assertEqual(self.daemon.call("escaped-keys", "work.do"), "done")

    def test_second_initialize_changes_nothing(self):
        self.assertEqual(self.daemon.call("second-initialize", "reply.code"), -32601)
        self.assertEqual(self.daemon.status("second-initialize")["name"], "second-initialize")
        self.still_runs("second-initialize")

    def test_answer_one_byte_at_a_time_arrives(self):
        self.assertEqual(self.daemon.call("slow-writer", "work.do"), "done")

    def test_grandchild_that_keeps_stdout_open_goes_too(self):
        # Its answer, given just before it left, still counts.
        self.daemon.remember()
        self.assertEqual(self.daemon.call("forks-and-leaves", "work.do"), "left")
        self.daemon.wait_restarted("forks-and-leaves", 1)
        self.assertEqual(self.daemon.audit("plugin.exited", "forks-and-leaves")[0]["exit_code"], 0)


class LineBound(FlowTest):
    plugins = ["big-result", "good-c"]
    config = {"limits.line_max_bytes": 10_000}

    def test_configured_bound_of_a_line_holds_in_both_directions(self):
        self.assertEqual(len(self.daemon.call("big-result", "bytes.give", {"bytes": 9000})), 9000)
        self.assert_error(self.daemon.try_call("big-result", "bytes.give", {"bytes": 10_000}), 502,
                          "plugin_down")
        self.assert_error(self.daemon.try_call("good-c", "good.echo", {"text": "x" * 10_000}), 413,
                          "too_large")
        self.assertEqual(self.daemon.status("good-c")["starts"], 1)


class LateHandshake(FlowTest):
    def test_plugin_that_has_not_answered_yet_is_given_time_and_can_be_disabled(self):
        with Daemon(["never-answers"], wait_running=False) as daemon:
            status = daemon.wait_state("never-answers", "spawning")
            self.assertEqual(status["failures"], 0)
            daemon.act("never-answers", "disable")
            daemon.wait_state("never-answers", "disabled")
            self.assertEqual(daemon.audit("plugin.initialize_timeout"), [])


if __name__ == "__main__":
    main()
