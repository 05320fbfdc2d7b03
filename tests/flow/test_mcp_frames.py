"""Each frame that kaged sends, to an MCP server or to a client, is valid by the schema of the revision that
is spoken."""
import json
import os
import subprocess
import unittest

from harness import KAGED, FlowTest, main, suite_skip, wait_for
from mcp_client import Client, approve_tools
from models import Provider
from test_questions import ACCEPT, Later, World
from test_turns import says

SCHEMAS = os.path.join(os.environ.get("KAGED_SUITES", ""), "mcp-schema")
MODERN = "2026-07-28"
# What a server asked by a request of its own, by the tool that asked it.
RESULTS = {"ask": "ElicitResult", "sample": "CreateMessageResult"}


WATCHED = "test://watched-resource"
# What a client asked, by its method.
ANSWERS = {
    "initialize": "InitializeResult", "server/discover": "DiscoverResult", "ping": "EmptyResult",
    "logging/setLevel": "EmptyResult", "resources/subscribe": "EmptyResult",
    "resources/unsubscribe": "EmptyResult", "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult", "resources/list": "ListResourcesResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "resources/read": "ReadResourceResult", "prompts/list": "ListPromptsResult",
    "prompts/get": "GetPromptResult", "completion/complete": "CompleteResult",
    "subscriptions/listen": "SubscriptionsListenResult",
}


def schema_of(revision):
    """The name of the member that has its definitions, and these."""
    with open(os.path.join(SCHEMAS, revision + ".json")) as file:
        whole = json.load(file)
    key = "$defs" if "$defs" in whole else "definitions"
    return key, whole[key]


def definitions(revision):
    return schema_of(revision)[1]


def name_of(known, message):
    """The definition of a message of that method; None: there is none."""
    return next((name for name, schema in known.items()
                 if schema.get("properties", {}).get("method", {}).get("const") == message["method"]),
                None)


class SchemaTest(FlowTest):
    def check(self, checks):
        """Each of them is (revision, name of the definition, instance)."""
        known = {revision: schema_of(revision) for revision, _, _ in checks}
        lines = "".join(json.dumps({"schema": {"$ref": f"#/{key}/{name}", key: known[revision][1]},
                                    "instance": instance}) + "\n"
                        for revision, name, instance in checks for key in known[revision][:1])
        done = subprocess.run([KAGED, "schema", "check", "--lines"], input=lines, text=True,
                              capture_output=True)
        verdicts = done.stdout.split()
        self.assertEqual(len(verdicts), len(checks), done.stderr)
        wrong = [check for check, verdict in zip(checks, verdicts) if verdict != "true"]
        self.assertEqual(wrong, [])


@unittest.skipUnless(os.path.isdir(SCHEMAS), suite_skip("mcp-schema"))
class FramesTest(SchemaTest):
    """What servers are sent."""

    def checks_of(self, told, legacy):
        """Discovery is of the modern era, whatever the server's is."""
        checks = []
        for message in told:
            is_modern = not legacy or message.get("method") == "server/discover"
            revision = MODERN if is_modern else legacy
            if "method" not in message:
                checks.append((revision, "JSONRPCResponse", message))
                continue
            name = name_of(definitions(revision), message)
            self.assertIsNotNone(name, message)
            checks.append((revision, name, message))
        return checks

    def speak(self, world):
        """All that kaged has to say to a server."""
        daemon = world.daemon

        def ask(method, rest, body=None):
            status, answer = daemon.api(method, "/plugins/mcp-rich" + rest, body)
            self.assertEqual(status, 200, answer)
            return answer
        for rest in ("/resources", "/resources?templates=true", "/resources?uri=test:one", "/prompts"):
            ask("GET", rest)
        ask("POST", "/prompts", {"name": "greet", "arguments": {"whom": "Anna"}})
        ask("POST", "/completion", {"ref": {"type": "ref/prompt", "name": "greet"},
                                    "argument": {"name": "whom", "value": "a"}})
        status, answer = daemon.try_call("mcp-rich", "resources%2Fread", {"uri": "test:wait"},
                                         headers={"Kaged-Timeout-Ms": "200"})
        self.assertEqual(status, 504, answer)  # a cancel
        client = Client(daemon, "/mcp/mcp-rich?project=shop")
        client.initialize(capabilities={"roots": {}})
        client.request("resources/subscribe", {"uri": "test:one"})
        client.request("resources/unsubscribe", {"uri": "test:one"})
        client.request("logging/setLevel", {"level": "debug"})
        client.leave()
        later = Later(world, "ask")
        world.answer(world.open()[0], ACCEPT)
        asked = [json.loads(call.result()["content"][0]["text"])
                 for call in (later, Later(world, "sample"))]
        told = json.loads(ask("GET", "/resources?uri=test:told")["contents"][0]["text"])
        return told, dict(zip(RESULTS, asked))

    def check_era(self, era, legacy, wanted):
        with Provider(says("Pear.")) as provider, World(
                "mcp-rich", era, providers=[provider.url],
                grant=["kaged:ask", "kaged:sample"]) as world:
            told, asked = self.speak(world)
        self.assertLessEqual(wanted, {message.get("method") for message in told})
        checks = self.checks_of(told, legacy)
        checks += [(legacy or MODERN, RESULTS[tool], answer) for tool, answer in asked.items()]
        self.check(checks)

    def test_what_a_legacy_server_is_sent_is_valid(self):
        self.check_era("legacy", "2025-11-25", {
            "initialize", "notifications/initialized", "tools/list", "tools/call", "resources/list",
            "resources/templates/list", "resources/read", "prompts/list", "prompts/get",
            "completion/complete", "notifications/cancelled", "resources/subscribe",
            "resources/unsubscribe", "logging/setLevel", None})

    def test_what_a_modern_server_is_sent_is_valid(self):
        self.check_era("modern", None, {
            "tools/list", "tools/call", "resources/list", "resources/templates/list",
            "resources/read", "prompts/list", "prompts/get", "completion/complete",
            "subscriptions/listen", "notifications/cancelled"})


class Recorder(Client):
    """A client that keeps what it is sent: (what it asked, the message)."""

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.got = []

    def ask(self, method, params=None, answer=None):
        """Until its answer; what it is asked meanwhile is answered by that."""
        with self.stream(method, params) as stream:
            if not stream.response.headers["Content-Type"].startswith("text/event-stream"):
                self.got.append((method, json.loads(stream.response.read())))
                return self.got[-1][1]
            while True:
                message = stream.message()
                self.got.append((method, message))
                if "method" not in message:
                    return message
                if "id" in message:
                    self.post({"jsonrpc": "2.0", "id": message["id"], "result": answer})

    def initialize(self, capabilities=None, revision=None):
        message = self.make("initialize", {
            "protocolVersion": self.revision, "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"}})
        _, headers, body = self.raw("POST", json.dumps(message), self.headers(message))
        self.session = headers["Mcp-Session-Id"]
        self.got.append(("initialize", json.loads(body)))
        self.notify("notifications/initialized")


@unittest.skipUnless(os.path.isdir(SCHEMAS), suite_skip("mcp-schema"))
class ClientFramesTest(SchemaTest):
    """What clients of the gateway are sent."""
    plugins = ["mcp-reference"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        approve_tools(cls.daemon)

    def ask_all(self, client):
        for tool in ("test_simple_text", "test_image_content", "test_embedded_resource",
                     "test_error_handling", "test_tool_with_logging"):
            client.ask("tools/call", {"name": tool})
        client.ask("tools/call", {"name": "test_tool_with_progress", "_meta": {"progressToken": "p"}})
        client.ask("tools/call", {"name": "no_such_tool"})
        client.ask("tools/list")
        client.ask("resources/list")
        client.ask("resources/templates/list")
        client.ask("resources/read", {"uri": "test://static-text"})
        client.ask("resources/read", {"uri": "test://static-binary"})
        client.ask("prompts/list")
        client.ask("prompts/get", {"name": "test_simple_prompt"})
        client.ask("completion/complete", {
            "ref": {"type": "ref/prompt", "name": "test_prompt_with_arguments"},
            "argument": {"name": "arg1", "value": "par"}})
        client.ask("no/such/method")

    def touch(self, client):
        wait_for(lambda: "1 subscribed" in json.dumps(client.ask(
            "tools/call", {"name": "touch", "arguments": {"uri": WATCHED}})), "a subscription")

    def all_valid(self, client):
        known = definitions(client.revision)
        error = "JSONRPCErrorResponse" if "JSONRPCErrorResponse" in known else "JSONRPCError"
        checks = []
        for method, message in client.got:
            if "method" in message:
                checks.append((client.revision, name_of(known, message), message))
            elif "error" in message:
                checks.append((client.revision, error, message))
            else:
                result = message["result"]
                asks = result.get("resultType") == "input_required"
                checks.append((client.revision, "JSONRPCResponse", message))
                checks.append((client.revision, "InputRequiredResult" if asks else ANSWERS[method],
                               result))
        self.assertNotIn(None, [name for _, name, _ in checks])
        self.check(checks)
        return {name for _, name, _ in checks}

    def test_what_a_legacy_client_is_sent_is_valid(self):
        for revision in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"):
            with self.subTest(revision):
                client = Recorder(self.daemon, "/mcp/mcp-reference", revision=revision)
                client.initialize(capabilities={"elicitation": {}, "sampling": {}, "roots": {}})
                client.ask("ping")
                client.ask("logging/setLevel", {"level": "info"})
                client.ask("resources/subscribe", {"uri": WATCHED})
                self.ask_all(client)
                if revision >= "2025-06-18":
                    client.ask("tools/call", {"name": "test_elicitation", "arguments": {"message": "?"}},
                               {"action": "decline"})
                client.ask("tools/call", {"name": "test_sampling", "arguments": {"prompt": "?"}},
                           {"role": "assistant", "model": "m", "content": {"type": "text", "text": "!"}})
                client.ask("tools/call", {"name": "folders"}, {"roots": []})
                with client.listen() as stream:
                    self.touch(client)
                    client.got.append((None, stream.message()))
                client.ask("resources/unsubscribe", {"uri": WATCHED})
                names = self.all_valid(client)
                self.assertLessEqual({"ProgressNotification", "LoggingMessageNotification",
                                      "ResourceUpdatedNotification", "CreateMessageRequest",
                                      "ListRootsRequest"}, names)

    def test_what_a_modern_client_is_sent_is_valid(self):
        client = Recorder(self.daemon, "/mcp/mcp-reference", revision=MODERN)
        client.ask("server/discover")
        self.ask_all(client)
        client.ask("tools/call", {"name": "test_elicitation", "arguments": {"message": "?"}, "_meta": {
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}})
        with client.stream("subscriptions/listen", {"notifications": {
                "toolsListChanged": True, "resourceSubscriptions": [WATCHED]}}) as stream:
            client.got.append((None, stream.message()))
            self.touch(client)
            client.got.append((None, stream.message()))
        names = self.all_valid(client)
        self.assertLessEqual({"InputRequiredResult", "ProgressNotification", "DiscoverResult",
                              "SubscriptionsAcknowledgedNotification",
                              "ResourceUpdatedNotification"}, names)


if __name__ == "__main__":
    main()
