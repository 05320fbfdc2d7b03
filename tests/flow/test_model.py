"""kaged-model with providers of all kinds: as they should be, and as they should not."""
import os
import ssl
import tempfile
import threading
import time

import internet as net
from harness import FlowTest, main, wait_for
from models import (END, STREAM, Aimock, Client, Provider, ask_caged, delta, event, plain)

TOOLS = [{"name": "weather__at", "description": "The weather of a place",
          "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}]
QUESTION = {"role": "user", "content": "what is the weather"}
FIXTURES = [
    {"match": {"userMessage": "weather", "hasToolResult": False},
     "response": {"content": "Let me look.",
                  "toolCalls": [{"id": "call_1", "name": "weather__at",
                                 "arguments": {"city": "Oslo"}}]}},
    {"match": {"userMessage": "weather", "hasToolResult": True},
     "response": {"content": "It is sunny in Oslo."}},
    {"match": {"userMessage": "hello"}, "response": {"content": "Hello! How can I help you?"}},
]
KEY = "k3y-of-tests"


def text_of(events):
    return "".join(each.get("delta", "") for each in events)


class Answers(FlowTest):
    """One kaged-model for each test."""

    def setUp(self):
        self.client = Client()
        self.addCleanup(self.client.__exit__, None)

    def check_failure(self, provider, code, words, wanted_text="", **params):
        events, end = self.client.ask(provider.url, **params)
        self.assertEqual(text_of(events), wanted_text)
        self.assertEqual(end["data"]["code"], code, end)
        self.assertIn(words, end["message"])
        return events, end

    # as it should be

    def test_request_carries_key_and_headers(self):
        with Provider(STREAM + delta("Hi") + END) as provider:
            events, end = self.client.ask(provider.url, headers={"X-Team": "blue"})
            self.assertEqual((events, end), ([{"delta": "Hi"}], {"stop_reason": "stop"}))
            head, body = provider.requests[0]
            self.assertTrue(head.startswith("POST /v1/chat/completions HTTP/1.1\r\n"))
            self.assertIn("Authorization: Bearer s3cret-key\r\n", head)
            self.assertIn("X-Team: blue\r\n", head)
            self.assertEqual(body["messages"], [{"role": "user", "content": "hello"}])

    def test_text_is_passed_on_before_the_answer_is_whole(self):
        go_on = threading.Event()

        def answer(connection):
            connection.sendall(STREAM + delta("Hel"))
            go_on.wait()
            connection.sendall(delta("lo") + END)

        with Provider(answer) as provider:
            number = self.client.send(provider.url)
            self.assertEqual(self.client.next(), (number, {"delta": "Hel"}, None))
            go_on.set()
            self.assertEqual(self.client.end(number), ([{"delta": "lo"}], {"stop_reason": "stop"}))

    def test_requests_are_on_their_way_side_by_side(self):
        together = threading.Barrier(8)

        def answer(connection):
            together.wait()
            connection.sendall(STREAM + delta("Hi") + END)

        with Provider(*[answer] * 8) as provider:
            numbers = {self.client.send(provider.url) for _ in range(8)}
            ended = set()
            while ended != numbers:
                number, _, end = self.client.next()
                ended |= {number} if end == {"stop_reason": "stop"} else set()

    def test_connection_that_is_kept_is_used_again(self):
        def answer(connection):
            body = delta("Hi") + END
            whole = STREAM.replace(b"Connection: close", b"Content-Length: %d" % len(body)) + body
            connection.sendall(whole)
            while b'"stream":true' not in connection.recv(65536):
                pass
            connection.sendall(whole)

        with Provider(answer) as provider:
            for _ in range(2):
                self.assertEqual(text_of(self.client.ask(provider.url)[0]), "Hi")

    def test_end_of_the_stream_does_not_wait_for_the_end_of_the_connection(self):
        def answer(connection):
            connection.sendall(STREAM + delta("Hi") + END)
            connection.recv(1)  # until the client leaves

        with Provider(answer) as provider:
            self.assertEqual(self.client.ask(provider.url)[1], {"stop_reason": "stop"})

    # cancelled

    def test_cancelled_request_closes_its_connection_and_leaves_others_alone(self):
        closed, go_on = threading.Event(), threading.Event()

        def hang(connection):
            connection.sendall(STREAM + delta("Hm"))
            if connection.recv(1) == b"":
                closed.set()

        def answer(connection):
            go_on.wait()
            connection.sendall(STREAM + delta("Hi") + END)

        with Provider(hang, answer) as provider:
            first = self.client.send(provider.url)
            self.assertEqual(self.client.next(), (first, {"delta": "Hm"}, None))
            second = self.client.send(provider.url)
            self.client.cancel(first)
            number, _, end = self.client.next()
            self.assertEqual((number, end["data"]["code"]), (first, "cancelled"))
            self.assertTrue(closed.wait(60))
            go_on.set()
            self.assertEqual(text_of(self.client.end(second)[0]), "Hi")

    def test_end_of_stdin_ends_the_process(self):
        with Provider(lambda connection: connection.recv(1)) as provider:
            with Client() as client:
                client.send(provider.url)
                wait_for(lambda: provider.requests, "the request")

    # again

    def test_busy_provider_is_asked_again_when_it_says(self):
        with Provider(plain(429, b'{"error":{"message":"slow"}}', "Retry-After: 1\r\n"),
                      STREAM + delta("Hi") + END) as provider:
            started = time.monotonic()
            events, end = self.client.ask(provider.url, limits={"retries": 1})
            self.assertEqual(events[0]["retry"]["message"], "the provider answered 429: slow")
            self.assertGreaterEqual(events[0]["retry"]["after_ms"], 1000)
            self.assertGreaterEqual(time.monotonic() - started, 1)
            self.assertEqual((text_of(events), end), ("Hi", {"stop_reason": "stop"}))

    def test_retries_are_bounded(self):
        with Provider(*[plain(503)] * 5) as provider:
            events, end = self.client.ask(provider.url, limits={"retries": 2})
            self.assertEqual([list(each) for each in events], [["retry"], ["retry"]])
            self.assertEqual(end["data"]["code"], "overloaded")
            self.assertEqual(len(provider.requests), 3)

    def test_long_wait_is_told_and_not_waited_for(self):
        with Provider(plain(429, b"", "Retry-After: 3600\r\n")) as provider:
            _, end = self.check_failure(provider, "rate_limited", "429", limits={"retries": 5})
            self.assertEqual(end["data"]["retry_after_ms"], 3600_000)

    def test_connection_lost_before_the_answer_is_made_again(self):
        with Provider(lambda connection: None, STREAM, STREAM + delta("Hi") + END) as provider:
            events, end = self.client.ask(provider.url, limits={"retries": 3})
            self.assertEqual((text_of(events), end), ("Hi", {"stop_reason": "stop"}))
            self.assertEqual(len(provider.requests), 3)

    def test_answer_that_began_is_not_asked_for_again(self):
        with Provider(STREAM + delta("Hel")) as provider:
            self.check_failure(provider, "connection_lost", "broke the answer off", "Hel",
                               limits={"retries": 5})
            self.assertEqual(len(provider.requests), 1)

    def test_overload_in_a_stream_is_asked_again(self):
        with Provider(STREAM + event({"type": "error", "error": {"type": "overloaded_error"}}),
                      STREAM + event({"type": "message_stop"})) as provider:
            _, end = self.client.ask(provider.url, kind="anthropic", limits={"retries": 1})
            self.assertEqual(end, {"stop_reason": "other"})
            self.assertTrue(provider.requests[0][0].startswith("POST /v1/messages "))

    # as it should not be

    def test_key_that_comes_back_in_an_error_is_not_shown(self):
        with Provider(plain(401, b'{"error":{"message":"wrong: s3cret-key"}}')) as provider:
            self.check_failure(provider, "unauthorized", "answered 401: wrong: [secret]")

    def test_redirect_is_not_followed(self):
        with Provider() as other, Provider(plain(307, b"", f"Location: {other.url}\r\n"),
                                           plain(301, b"", "Location: /v2\r\n")) as provider:
            self.check_failure(provider, "connection_refused", other.url)
            self.check_failure(provider, "connection_refused", "not followed (status 301)")
            self.assertEqual(other.requests, [])

    def test_page_instead_of_a_stream_is_refused(self):
        page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html>"
        nameless = "it does not say what it is"
        with Provider(page, page.replace(b"Content-Type: text/html\r\n", b""),
                      plain(200)) as provider:
            for words in ("text/html", nameless, nameless):
                self.check_failure(provider, "bad_answer", words)

    def test_garbage_is_refused(self):
        with Provider(STREAM + b"data: {\xff\n\n", STREAM + b"data: []\n\n") as provider:
            for _ in range(2):
                self.check_failure(provider, "bad_answer", "no JSON object")
        with Provider(b"\0\xff garbage\r\n\r\n", STREAM + b"\0" * 4096) as provider:
            for _ in range(2):
                _, end = self.client.ask(provider.url)
                self.assertIn(end["data"]["code"], ("connection_lost", "bad_answer"))

    def test_events_without_an_end_are_refused(self):
        def flood(piece):
            def answer(connection):
                connection.sendall(STREAM)
                while True:  # until the client leaves
                    connection.sendall(piece)
            return answer

        with Provider(flood(b"data: xxxxxxxx" * 1000), flood(b"data: x\n" * 1000),
                      flood(b": ping\n\n" * 1000)) as provider:
            self.check_failure(provider, "answer_too_large", "an event of more than 1048576 bytes")
            self.check_failure(provider, "answer_too_large", "an event of more than 1048576 bytes")
            self.check_failure(provider, "answer_too_large", "more than 300000 bytes",
                               limits={"answer_bytes": 300000})

    def test_headers_without_an_end_are_refused(self):
        def answer(connection):
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while True:
                connection.sendall(b"X-Y: " + b"z" * 1000 + b"\r\n")

        with Provider(answer) as provider:
            self.check_failure(provider, "bad_answer", "bytes of headers")

    def test_silence_is_ended(self):
        def answer(connection):
            connection.sendall(STREAM + delta("Hm"))
            connection.recv(1)

        with Provider(answer, lambda connection: connection.recv(1)) as provider:
            for text in ("Hm", ""):
                self.check_failure(provider, "timeout", "sent nothing for 200 ms", text,
                                   limits={"idle_ms": 200})

    def test_answer_that_only_drips_is_ended(self):
        def answer(connection):
            connection.sendall(STREAM)
            while True:
                connection.sendall(b":")
                time.sleep(0.02)

        with Provider(answer) as provider:
            self.check_failure(provider, "timeout", "longer than 400 ms", limits={"total_ms": 400})

    def test_certificate_of_a_stranger_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            net.make_certificates(folder, ["localhost"])
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(os.path.join(folder, "server.pem"),
                                    os.path.join(folder, "server.key"))
            with Provider(context=context) as provider:
                _, end = self.client.ask(f"https://localhost:{provider.port}/v1",
                                         limits={"retries": 5})
                self.assertEqual(end["data"]["code"], "connection_refused")
                self.assertIn("certificate", end["message"])
                self.assertEqual(provider.requests, [])

    def test_request_that_does_not_fit_is_answered(self):
        self.client.write({"id": 1, "method": "chat", "params": {}})
        self.client.write({"id": 2, "method": "dance", "params": {}})
        self.client.write({"method": "cancel", "params": {"id": 9}})
        for number in (1, 2):
            self.assertEqual(self.client.next()[2]["data"]["code"], "invalid_request", number)


class Mocked(FlowTest):
    """The two APIs as aimock speaks them; through kaged-model alone, and through its cage."""

    @classmethod
    def setUpClass(cls):
        cls.aimock = Aimock(FIXTURES, KEY)

    @classmethod
    def tearDownClass(cls):
        cls.aimock.stop()

    def each_kind(self):
        for kind in ("openai", "anthropic"):
            with self.subTest(kind), Client() as client:
                yield lambda kind=kind, client=client, **params: client.ask(
                    self.aimock.url(kind), kind=kind, **{"key": KEY, **params})

    def test_text(self):
        for ask in self.each_kind():
            events, end = ask()
            self.assertEqual(text_of(events), "Hello! How can I help you?")
            self.assertIn("usage", events[-1])
            self.assertEqual(end, {"stop_reason": "stop"})

    def test_tool_is_called_and_its_result_read(self):
        for ask in self.each_kind():
            events, end = ask(messages=[QUESTION], tools=TOOLS)
            call = next(each["tool_call"] for each in events if "tool_call" in each)
            self.assertEqual(end, {"stop_reason": "tool_calls"})
            self.assertEqual(call, {"id": "call_1", "name": "weather__at",
                                    "arguments": {"city": "Oslo"}})
            said = {"role": "assistant", "content": text_of(events), "tool_calls": [call]}
            result = {"role": "tool", "tool_call_id": call["id"], "content": "sunny"}
            events, end = ask(messages=[QUESTION, said, result], tools=TOOLS)
            self.assertEqual(text_of(events), "It is sunny in Oslo.")

    def test_wrong_key(self):
        for ask in self.each_kind():
            _, end = ask(key="wrong")
            self.assertEqual(end["data"]["code"], "unauthorized")

    def test_whole_way_through_the_cage(self):
        local = "".join(f'[providers.{kind}]\nkind = "{kind}"\napi_key = "{KEY}"\n'
                        f'base_url = "{self.aimock.url(kind)}"\n'
                        f'[models.{kind}]\nprovider = "{kind}"\nmodel = "m"\n'
                        for kind in ("openai", "anthropic"))
        for kind in ("openai", "anthropic"):
            told = ask_caged(local, kind, {"messages": [QUESTION], "tools": TOOLS})
            self.assertIn(["tool_call", "call_1", "weather__at", {"city": "Oslo"}], told)
            self.assertEqual(told[-1], ["end", "tool_calls"])


if __name__ == "__main__":
    main()
