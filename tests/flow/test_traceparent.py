"""W3C trace context: what a request says of its trace reaches the plugin and the audit line; what is none is
as if it had not come."""
import json

from harness import FlowTest, UnixConnection, PATIENCE, main, wait_for
from mcp_client import MODERN, Client, approve_tools

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
MALFORMED = [
    "", "00", TRACE + "-more", TRACE[:-1], TRACE.upper(), TRACE.replace("-", "_"), "ff" + TRACE[2:], "0g" + TRACE[2:],
    "00-" + "0" * 32 + TRACE[35:], TRACE[:36] + "0" * 16 + "-01", TRACE[:-2] + "zz", "cc" + TRACE[2:] + "x",
    TRACE + " " * 3 + "x",
]


class Traces(FlowTest):
    plugins = ["context-echo", "mcp-rich"]

    def ask(self, *values):
        """The plugin's _context of a call with these headers, and the call's lines of the audit log."""
        connection = UnixConnection(self.daemon.socket, PATIENCE)
        try:
            connection.putrequest("POST", "/api/v1/plugins/context-echo/call/params.echo")
            for value in values:
                connection.putheader("traceparent", value)
            connection.putheader("Content-Length", "2")
            connection.endheaders(b"{}")
            context = json.loads(connection.getresponse().read())["_context"]
        finally:
            connection.close()
        def lines():
            found = [line for line in self.daemon.audit("plugin.method_*", "context-echo")
                     if line["request_id"] == context["request_id"]]
            return found if len(found) == 2 else None
        return context, wait_for(lines, "both lines of the call")

    def test_a_trace_reaches_the_plugin_and_both_audit_lines(self):
        context, lines = self.ask(TRACE)
        self.assertEqual(context["traceparent"], TRACE)
        self.assertEqual([line["traceparent"] for line in lines], [TRACE, TRACE])

    def test_what_is_malformed_is_ignored(self):
        for given in MALFORMED:
            with self.subTest(given):
                context, lines = self.ask(given)
                self.assertNotIn("traceparent", context)
                self.assertFalse([line for line in lines if "traceparent" in line])

    def test_two_of_them_are_none(self):
        context, _ = self.ask(TRACE, OTHER)
        self.assertNotIn("traceparent", context)

    def test_a_later_version_is_passed_on_as_ours(self):
        for given, flags in (("cc" + TRACE[2:], "01"), ("01" + TRACE[2:-2] + "09-what-comes-then", "01"),
                             ("01" + TRACE[2:-2] + "08", "00")):
            with self.subTest(given):
                self.assertEqual(self.ask(given)[0]["traceparent"], TRACE[:-2] + flags)

    def test_without_one_nothing_is_said(self):
        context, lines = self.ask()
        self.assertNotIn("traceparent", context)
        self.assertFalse([line for line in lines if "traceparent" in line])

    def told(self, uri):
        """The _meta that the server was sent with the request for this resource."""
        status, answer = self.daemon.try_call("mcp-rich", "resources%2Fread", {"uri": "test:told"})
        self.assertEqual(status, 200, answer)
        sent = [message["params"] for message in json.loads(answer["contents"][0]["text"])
                if message.get("params", {}).get("uri") == uri]
        return sent[-1]["_meta"]

    def test_an_mcp_server_finds_it_in_its_meta(self):
        status, answer = self.daemon.try_call("mcp-rich", "resources%2Fread", {"uri": "test:a"},
                                              {"traceparent": TRACE})
        self.assertEqual(status, 200, answer)
        self.assertEqual(self.told("test:a")["traceparent"], TRACE)
        self.assertNotIn("traceparent", self.told("test:told"))

    def test_a_tool_of_an_mcp_server_is_called_with_it(self):
        approve_tools(self.daemon, "mcp-rich")
        self.daemon.wait_state("mcp-rich", "running")
        client = Client(self.daemon, "/mcp/mcp-rich")
        client.initialize()
        status, answer = client.post(client.make("tools/call", {"name": "update", "arguments": {}}),
                                     {"traceparent": TRACE})
        self.assertEqual(status, 200, answer)
        _, answer = self.daemon.try_call("mcp-rich", "resources%2Fread", {"uri": "test:told"})
        calls = [message["params"] for message in json.loads(answer["contents"][0]["text"])
                 if message.get("method") == "tools/call"]
        self.assertEqual(calls[-1]["_meta"]["traceparent"], TRACE)

    def read_by_client(self, revision, uri, meta, headers=None):
        client = Client(self.daemon, "/mcp/mcp-rich", revision)
        if revision != MODERN:
            client.initialize()
        status, answer = client.post(client.make("resources/read", {"uri": uri, "_meta": meta}), headers)
        self.assertEqual(status, 200, answer)

    def test_a_message_of_an_mcp_client_has_its_own(self):
        for revision in (MODERN, "2025-11-25"):
            with self.subTest(revision):
                self.read_by_client(revision, "test:b", {"traceparent": TRACE}, {"traceparent": OTHER})
                self.assertEqual(self.told("test:b")["traceparent"], TRACE)
                self.read_by_client(revision, "test:c", {"traceparent": 7}, {"traceparent": OTHER})
                self.assertEqual(self.told("test:c")["traceparent"], OTHER)


if __name__ == "__main__":
    main()
