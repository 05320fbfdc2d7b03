"""Calls: one door, its context, its deadlines and its bounds."""
import getpass
import json
import os
import re
import signal
import socket
import time

from harness import PATIENCE, ROOT, FlowTest, UnixConnection, at_once, main, wait_for


class Calls(FlowTest):
    plugins = ["good-c", "context-echo", "answers-late", "error-reply"]

    def test_happy_path(self):
        status, body = self.daemon.raw("POST", "/api/v1/plugins/good-c/call/good.echo",
                                       '{"text":"hi","n":1.10}')
        self.assertEqual(status, 200)
        self.assertIn(b'"n":1.10', body)  # the bytes that the plugin wrote
        self.assertEqual(json.loads(body)["text"], "hi")

    def test_method_not_found(self):
        status, error = self.daemon.try_call("good-c", "good.missing")
        self.assert_error((status, error), 404, "method_not_found")
        self.assertIn("good.missing", error["message"])
        self.assertEqual(error.get("rpc_code", -32601), -32601)

    def test_plugin_not_found(self):
        status, error = self.daemon.try_call("good-d", "good.echo")
        self.assert_error((status, error), 404, "not_found")
        self.assertIn("good-c", error["message"] + error["hint"])
        self.assertTrue(error["request_id"].startswith("req_"))

    def test_reserved_methods_cannot_be_called(self):
        for method in ("initialize", "ping", "shutdown", "kaged.storage.exec", "system.limits"):
            with self.subTest(method):
                self.assertEqual(self.daemon.try_call("good-c", method)[0], 404)

    def test_context_passing(self):
        params = self.daemon.call("context-echo", "params.echo", {"filter": "web"})
        context = params.pop("_context")
        self.assertEqual(params, {"filter": "web"})
        self.assertEqual(context.pop("operator_id"), getpass.getuser())
        self.assertRegex(context.pop("request_id"), "^req_[0-9A-Z]{26}$")
        self.assertEqual(context, {"project_id": None, "agent_path": None, "session_id": None})

    def test_context_has_its_own_request_id_each_time(self):
        ids = {self.daemon.call("context-echo", "params.echo")["_context"]["request_id"]
               for _ in range(5)}
        self.assertEqual(len(ids), 5)

    def test_context_of_the_caller_is_refused(self):
        for name in ("_context", "_config"):
            with self.subTest(name):
                status, error = self.daemon.try_call("context-echo", "params.echo", {name: {}})
                self.assertIn(status, (400, 422))
                self.assertIn(name, error["message"])

    def test_escaped_context_of_the_caller_is_refused(self):
        status, _ = self.daemon.raw("POST", "/api/v1/plugins/context-echo/call/params.echo",
                                    '{"\\u005fcontext":{"operator_id":"root"}}')
        self.assertIn(status, (400, 422))

    def test_get_call_takes_parameters_from_the_query(self):
        status, params = self.daemon.api(
            "GET", "/plugins/context-echo/call/params.echo?filter=a%20b%26c&n=1")
        self.assertEqual(status, 200)
        self.assertEqual((params["filter"], params["n"]), ("a b&c", "1"))

    def test_call_without_a_body_has_only_its_context(self):
        status, body = self.daemon.raw("POST", "/api/v1/plugins/context-echo/call/params.echo")
        self.assertEqual((status, list(json.loads(body))), (200, ["_context"]))

    def test_newlines_in_params_do_not_cut_the_line(self):
        status, body = self.daemon.raw("POST", "/api/v1/plugins/context-echo/call/params.echo",
                                       '{\n  "a": [\n1,\r\n2],\t"b": "\\n"\n}\n')
        params = json.loads(body)
        self.assertEqual((status, params["a"], params["b"]), (200, [1, 2], "\n"))

    def test_params_that_are_no_object_are_refused(self):
        for body in ("[]", "1", '"x"', "null", "{", '{"a":1} x', "nonsense", '{"a":"\\ud800"}',
                     "[" * 1000):
            with self.subTest(body[:20]):
                status, answer = self.daemon.raw(
                    "POST", "/api/v1/plugins/context-echo/call/params.echo", body)
                self.assertIn(status, (400, 422))
                self.assertTrue(json.loads(answer)["error"]["message"])

    def test_concurrent_calls(self):
        def call(index):
            params = {"after_ms": 200 - 20 * index, "value": index}
            return lambda: self.daemon.call("answers-late", "late.answer", params)

        self.assertEqual(at_once([call(index) for index in range(10)]), list(range(10)))

    def test_error_of_the_plugin_reaches_the_caller(self):
        status, error = self.daemon.try_call(
            "error-reply", "error.give",
            {"error": {"code": -32050, "message": "no such preset", "data": {"preset": "x"}}})
        self.assert_error((status, error), 422, "plugin_error")
        self.assertIn("no such preset", error["message"])
        self.assertEqual((error["rpc_code"], error["data"]), (-32050, {"preset": "x"}))

    def test_internal_error_points_to_the_log(self):
        _, error = self.daemon.try_call("error-reply", "error.give",
                                        {"error": {"code": -32603, "message": "KeyError"}})
        self.assertEqual(error["hint"], "kaged plugin logs error-reply may say more")

    def test_error_codes_of_the_documents_have_their_status(self):
        rows = {-32000: (422, "plugin_error"), -32001: (403, "capability_denied"),
                -32005: (429, "resource_busy"), -32006: (409, "not_applicable"),
                -32602: (422, "invalid_params")}
        for code, (status, name) in rows.items():
            with self.subTest(code):
                answer = self.daemon.try_call("error-reply", "error.give",
                                              {"error": {"code": code, "message": "no"}})
                self.assert_error(answer, status, name)

    def test_each_code_of_the_wire_is_the_first_error_that_has_it(self):
        with open(os.path.join(ROOT, "src/base/errors.def")) as file:
            table = re.findall(r'^KG_ERROR\(\w+, "(\w+)", (-\d+), (\d+)', file.read(), re.M)
        first = {}
        for name, code, status in table:
            first.setdefault(int(code), (int(status), name))
        first[-32099] = first[-32000]  # a code of the plugin's own
        for code, row in first.items():
            with self.subTest(code):
                answer = self.daemon.try_call("error-reply", "error.give",
                                              {"error": {"code": code, "message": "no"}})
                self.assert_error(answer, *row)
                self.assertEqual(answer[1]["rpc_code"], code)

    def with_id(self, request_id):
        """(the id in the answer's header, the one that the plugin was told)"""
        connection = UnixConnection(self.daemon.socket, PATIENCE)
        connection.request("POST", "/api/v1/plugins/context-echo/call/params.echo", "{}",
                           {"X-Request-Id": request_id})
        answer = connection.getresponse()
        told = json.loads(answer.read())["_context"]["request_id"]
        connection.close()
        return answer.getheader("X-Request-Id"), told

    def test_request_id_of_the_caller_is_kept_everywhere(self):
        mine = "trace-1.A_b" + "x" * 53
        self.assertEqual(self.with_id(mine), (mine, mine))
        called = [event for event in self.daemon.audit("plugin.method_called", "context-echo")
                  if event.get("request_id") == mine]
        self.assertEqual(len(called), 1)

    def test_request_id_that_is_too_long_or_has_other_characters_is_replaced(self):
        for bad in ("x" * 65, "a b", "a/b", "a\"b", "{}", "\u00e4", ""):
            with self.subTest(bad):
                sent, told = self.with_id(bad.encode())
                self.assertEqual(sent, told)
                self.assertRegex(sent, "^req_[0-9A-Z]{26}$")

    def test_context_in_the_query_is_refused(self):
        for name in ("_context", "_config", "%5fcontext"):
            status, answer = self.daemon.api(
                "GET", f"/plugins/context-echo/call/params.echo?{name}=1")
            self.assertEqual((status, answer["error"]["code"]), (422, "invalid_params"))

    def test_caller_deadline_does_not_kill(self):
        before = self.daemon.status("answers-late")
        answer = self.daemon.try_call("answers-late", "late.answer", {"after_ms": 2000, "value": 1},
                                      {"Kaged-Timeout-Ms": "100"})
        self.assert_error(answer, 504, "plugin_timeout")
        # The reply that comes late is dropped, and is nobody else's.
        self.assertEqual(self.daemon.call("answers-late", "late.answer",
                                          {"after_ms": 2100, "value": 2}), 2)
        after = self.daemon.status("answers-late")
        self.assertEqual((after["pid"], after["starts"]), (before["pid"], 1))

    def test_caller_that_leaves_gives_up_its_call(self):
        client = socket.socket(socket.AF_UNIX)
        client.connect(self.daemon.socket)
        body = b'{"after_ms":20000}'
        client.sendall(b"POST /api/v1/plugins/answers-late/call/late.answer HTTP/1.1\r\nHost: x\r\n"
                       b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.daemon.wait_status("answers-late", lambda s: s["in_flight"] > 0, "the call")
        client.close()
        wait_for(lambda: [event for event in self.daemon.audit("plugin.method_returned",
                                                               "answers-late")
                          if event["error"] == "cancelled"], "the end of the call in the log")
        self.assertEqual(self.daemon.call("answers-late", "late.answer",
                                          {"after_ms": 300, "value": 3}), 3)
        self.assertEqual(self.daemon.status("answers-late")["starts"], 1)

    def test_calls_are_counted(self):
        before = self.daemon.status("error-reply")
        self.daemon.try_call("error-reply", "error.give",
                             {"error": {"code": -32000, "message": "no"}})
        after = self.daemon.status("error-reply")
        self.assertEqual(after["calls"] - before["calls"], 1)
        self.assertEqual(after["errors"] - before["errors"], 1)
        self.assertEqual(after["in_flight"], 0)


class HostDeadline(FlowTest):
    plugins = ["silent-call", "half-line", "good-c"]
    config = {"limits.call_timeout_ms": 2000}

    def test_timeout(self):
        started = time.monotonic()
        answer = self.daemon.try_call("silent-call", "work.do")
        self.assert_error(answer, 504, "plugin_timeout")
        self.assertGreater(time.monotonic() - started, 1.9)

    def test_host_deadline_kills_and_restarts(self):
        starts = self.daemon.wait_state("silent-call", "running")["starts"]
        self.assertEqual(self.daemon.try_call("silent-call", "work.do")[0], 504)
        report = self.daemon.wait_exit("silent-call", "timeout")
        self.assertIn("work.do took longer than 2000 ms", report["words"])
        self.daemon.wait_restarted("silent-call", starts)

    def test_host_deadline_kills_although_the_caller_left_earlier(self):
        starts = self.daemon.wait_state("silent-call", "running")["starts"]
        answer = self.daemon.try_call("silent-call", "work.do", headers={"Kaged-Timeout-Ms": "50"})
        self.assertEqual(answer[0], 504)
        self.daemon.wait_restarted("silent-call", starts)

    def test_half_a_line_is_no_answer(self):
        answer = self.daemon.try_call("half-line", "half.send", {"bytes": 100})
        self.assert_error(answer, 504, "plugin_timeout")
        self.daemon.wait_restarted("half-line", 1)

    def test_timeout_of_one_plugin_is_not_anothers(self):
        answers = at_once([lambda: self.daemon.try_call("silent-call", "work.do")] * 2 +
                          [lambda: self.daemon.try_call("good-c", "good.echo")] * 5)
        self.assertEqual([answer[0] for answer in answers[2:]], [200] * 5)
        self.assertEqual(self.daemon.status("good-c")["starts"], 1)


class Busy(FlowTest):
    plugins = ["answers-late"]
    config = {"limits.calls_in_flight": 2}

    def test_resource_busy(self):
        def call():
            return self.daemon.try_call("answers-late", "late.answer", {"after_ms": 0})[0]

        def more():
            self.daemon.wait_status("answers-late", lambda s: s["in_flight"] == 2, "two calls")
            statuses = [call() for _ in range(4)]
            os.kill(pid, signal.SIGCONT)
            return statuses

        pid = self.daemon.status("answers-late")["pid"]
        os.kill(pid, signal.SIGSTOP)
        self.assertEqual(at_once([call, call, more]), [200, 200, [429] * 4])
        self.daemon.call("answers-late", "late.answer", {"after_ms": 0})


class Deaf(FlowTest):
    plugins = ["no-read"]
    config = {"limits.write_queue_bytes": 200_000, "limits.call_timeout_ms": 8000}

    def test_plugin_that_does_not_read_is_busy_then_restarted(self):
        big = {"text": "x" * 150_000}
        self.daemon.try_call("no-read", "work.do", headers={"Kaged-Timeout-Ms": "50"})
        answer = self.daemon.try_call("no-read", "work.do", big, {"Kaged-Timeout-Ms": "50"})
        if answer[0] == 504:  # the first of them still fits
            answer = self.daemon.try_call("no-read", "work.do", big, {"Kaged-Timeout-Ms": "50"})
        self.assert_error(answer, 429, "resource_busy")
        self.daemon.wait_restarted("no-read", 1)
        self.assertEqual(self.daemon.status("no-read")["last_exit"]["cause"], "timeout")


class BadRequests(FlowTest):
    plugins = ["good-c"]
    config = {"limits.http_body_bytes": 100_000, "limits.http_header_bytes": 8192,
              "limits.http_idle_ms": 3000}

    def exchange(self, data, close=False):
        """What the daemon answers to raw bytes, until it closes."""
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(60)
        client.connect(self.daemon.socket)
        answer = b""
        try:
            client.sendall(data)
            if close:
                client.shutdown(socket.SHUT_WR)
            while True:
                got = client.recv(65536)
                if not got:
                    break
                answer += got
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            client.close()
        return answer

    def tearDown(self):
        self.assertEqual(self.daemon.call("good-c", "good.echo", {"n": 1})["n"], 1)

    def test_unknown_route(self):
        status, answer = self.daemon.api("GET", "/plugin")
        self.assertEqual((status, answer["error"]["code"]), (404, "not_found"))

    def test_wrong_http_method(self):
        status, answer = self.daemon.api("DELETE", "/status")
        self.assertEqual((status, answer["error"]["code"]), (405, "method_not_allowed"))

    def test_large_body(self):
        answer = self.daemon.try_call("good-c", "good.echo", {"text": "x" * 100_000})
        self.assert_error(answer, 413, "too_large")

    def test_announced_large_body_is_refused_before_it_is_sent(self):
        answer = self.exchange(b"POST /api/v1/plugins/good-c/call/good.echo HTTP/1.1\r\nHost: x\r\n"
                               b"Content-Length: 1073741824\r\n\r\n")
        self.assertIn(b" 413 ", answer.split(b"\r\n")[0])

    def test_large_headers(self):
        answer = self.exchange(b"GET /api/v1/status HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 20_000 +
                               b"\r\n\r\n")
        self.assertRegex(answer, rb"^HTTP/1.1 (431|413|400) ")

    def test_garbage(self):
        for data in (b"\x00\xff\xfe\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
                     b"GET /api/v1/status HTTP/1.1\r\nHost : x\r\n\r\n",
                     b"POST /api/v1/stop HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                     b"POST /api/v1/stop HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                     b"ffffffffffffffffff\r\n"):
            with self.subTest(data[:40]):
                self.assertRegex(self.exchange(data), rb"^HTTP/1.1 4\d\d ")

    def test_slow_request_is_closed(self):
        answer = self.exchange(b"POST /api/v1/plugins/good-c/call/good.echo HTTP/1.1\r\nHost: x\r\n"
                               b"Content-Length: 10\r\n\r\n{")
        self.assertRegex(answer, rb"^HTTP/1.1 408 ")

    def test_cut_request_does_no_harm(self):
        self.exchange(b"POST /api/v1/plugins/good-c/call/good.echo HTTP/1.1\r\nHost: x\r\nCont",
                      close=True)


if __name__ == "__main__":
    main()
