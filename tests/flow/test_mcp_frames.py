"""Each frame that kaged sends to an MCP server is valid by the schema of the revision that is spoken."""
import json
import os
import subprocess
import unittest

from harness import KAGED, FlowTest, main, suite_skip
from models import Provider
from test_questions import ACCEPT, Later, World
from test_turns import says

SCHEMAS = os.path.join(os.environ.get("KAGED_SUITES", ""), "mcp-schema")
MODERN = "2026-07-28"
# What a server asked by a request of its own, by the tool that asked it.
RESULTS = {"ask": "ElicitResult", "sample": "CreateMessageResult"}


def definitions(revision):
    with open(os.path.join(SCHEMAS, revision + ".json")) as file:
        return json.load(file)["$defs"]


def name_of(known, message):
    """The definition of a message of that method; None: there is none."""
    return next((name for name, schema in known.items()
                 if schema.get("properties", {}).get("method", {}).get("const") == message["method"]),
                None)


@unittest.skipUnless(os.path.isdir(SCHEMAS), suite_skip("mcp-schema"))
class FramesTest(FlowTest):
    def check(self, checks):
        """Each of them is (revision, name of the definition, instance)."""
        known = {revision: definitions(revision) for revision, _, _ in checks}
        lines = "".join(json.dumps({"schema": {"$ref": "#/$defs/" + name, "$defs": known[revision]},
                                    "instance": instance}) + "\n"
                        for revision, name, instance in checks)
        done = subprocess.run([KAGED, "schema", "check", "--lines"], input=lines, text=True,
                              capture_output=True)
        verdicts = done.stdout.split()
        self.assertEqual(len(verdicts), len(checks), done.stderr)
        wrong = [check for check, verdict in zip(checks, verdicts) if verdict != "true"]
        self.assertEqual(wrong, [])

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
            "completion/complete", "notifications/cancelled", None})

    def test_what_a_modern_server_is_sent_is_valid(self):
        self.check_era("modern", None, {
            "tools/list", "tools/call", "resources/list", "resources/templates/list",
            "resources/read", "prompts/list", "prompts/get", "completion/complete",
            "subscriptions/listen", "notifications/cancelled"})


if __name__ == "__main__":
    main()
