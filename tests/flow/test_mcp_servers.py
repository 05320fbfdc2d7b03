"""Servers that people run, from npm, in cages: all that server-everything has, asked for by a client of
the gateway that answers what it is asked, and servers of both generations of the SDK."""
import json
import os
import shutil
import unittest

from harness import FlowTest, main
from mcp_client import Client
from registry import MODULES, Registry
from test_npm import Home

ANSWERS = {
    "elicitation/create": {"action": "accept", "content": {"name": "Ann", "check": True}},
    "sampling/createMessage": {"role": "assistant", "model": "m",
                               "content": {"type": "text", "text": "Forty-two."}},
    "roots/list": {"roots": [{"uri": "file:///srv/shop", "name": "shop"}]},
}
DECLARED = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
ARGUMENTS = {
    "echo": {"message": "hi there"}, "get-sum": {"a": 4, "b": 38},
    "get-annotated-message": {"messageType": "error", "includeImage": True},
    "get-resource-links": {"count": 2},
    "get-resource-reference": {"resourceType": "Text", "resourceId": 1},
    "get-structured-content": {"location": "New York"},
    "gzip-file-as-resource": {"name": "a.gz", "data": "data:text/plain;base64,aGk=",
                              "outputType": "resource"},
    "trigger-long-running-operation": {"duration": 1, "steps": 4},
    "trigger-sampling-request": {"prompt": "How many?", "maxTokens": 10},
    "trigger-url-elicitation": {"url": "https://example.org/login", "message": "Log in"},
    "simulate-research-query": {"topic": "fruit"},
}
# What is in the answer of each; of the others that there is one.
EXPECTED = {
    "echo": "hi there", "get-sum": "42", "get-annotated-message": '"image"',
    "get-resource-links": "resource_link", "get-resource-reference": '"resource"',
    "get-structured-content": "structuredContent", "get-tiny-image": "image/png",
    "gzip-file-as-resource": "application/gzip", "trigger-elicitation-request": "Ann",
    "trigger-sampling-request": "Forty-two.", "get-roots-list": "/srv/shop",
    "trigger-long-running-operation": "4",
}
# Its result is a task, which is an extension that clients of kaged are not offered.
TASKS = {"simulate-research-query"}

# A server as the second generation of the SDK makes it; how it is served says which era it speaks.
SECOND = """\
import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio, StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import * as z from "zod";

function make() {
    const server = new McpServer({ name: "second", version: "1.0.0" });
    server.registerTool("add", { inputSchema: z.object({ a: z.number(), b: z.number() }),
                                 outputSchema: z.object({ sum: z.number() }) },
                        async ({ a, b }) => ({ content: [{ type: "text", text: String(a + b) }],
                                               structuredContent: { sum: a + b } }));
    server.registerResource("note", "test://note", { mimeType: "text/plain" },
                            async uri => ({ contents: [{ uri: uri.href, text: "buy milk" }] }));
    server.registerPrompt("greet", { argsSchema: z.object({ whom: z.string() }) },
                          ({ whom }) => ({ messages: [{ role: "user", content: {
                              type: "text", text: `Greet ${whom}.` } }] }));
    return server;
}
"""
SERVED = {"modern": 'serveStdio(make, { legacy: "reject" });\n', "both": "serveStdio(make);\n",
          "legacy": "await make().connect(new StdioServerTransport());\n"}


@unittest.skipUnless(shutil.which("npm"), "npm is not here")
@unittest.skipUnless(os.path.isdir(MODULES + "/@modelcontextprotocol"),
                     "the packages of tests/package.json are not here: scripts/npm tests")
class Everything(FlowTest):
    @classmethod
    def setUpClass(cls):
        cls.registry = cls.enterClassContext(Registry(with_installed=True))
        cls.share(Home(cls.registry))
        code, out, err = cls.daemon.install("npm:@modelcontextprotocol/server-everything",
                                            "--grant", "kaged:ask", "--grant", "kaged:sample")
        assert code == 0, out + err

    def client(self):
        client = Client(self.daemon, "/mcp/server-everything")
        client.initialize(capabilities=DECLARED)
        self.addCleanup(client.leave)
        return client

    def use(self, client, method, params):
        """(the answer, the notifications before it); whatever is asked meanwhile is answered."""
        news = []
        with client.stream(method, params) as stream:
            if not stream.response.headers["Content-Type"].startswith("text/event-stream"):
                return json.loads(stream.response.read()), news
            while True:
                message = stream.message()
                if "id" not in message:
                    news.append(message)
                elif "method" not in message:
                    return message, news
                else:
                    client.post({"jsonrpc": "2.0", "id": message["id"],
                                 "result": ANSWERS[message["method"]]})

    def test_every_tool_answers_and_what_it_asks_is_answered(self):
        client = self.client()
        tools = client.tools()
        self.assertLessEqual(set(EXPECTED), set(tools))
        for name in sorted(set(tools) - TASKS):
            answer, _ = self.use(client, "tools/call",
                                 {"name": name, "arguments": ARGUMENTS.get(name, {})})
            words = json.dumps(answer)
            with self.subTest(name):
                self.assertIn("result", answer)
                self.assertFalse(answer["result"].get("isError"), words)
                self.assertIn(EXPECTED.get(name, "content"), words)
        print(f"# {len(tools)} tools")

    def test_progress_is_told_step_by_step(self):
        _, news = self.use(self.client(), "tools/call", {
            "name": "trigger-long-running-operation", "arguments": {"duration": 1, "steps": 4},
            "_meta": {"progressToken": "mine"}})
        told = [message["params"] for message in news
                if message["method"] == "notifications/progress"]
        self.assertEqual({params["progressToken"] for params in told}, {"mine"})
        self.assertEqual([params["progress"] for params in told], [1, 2, 3, 4])

    def test_every_resource_and_template_is_read(self):
        client = self.client()
        resources = client.request("resources/list")["resources"]
        self.assertGreater(len(resources), 3)
        for resource in resources:
            with self.subTest(resource["uri"]):
                contents = client.request("resources/read", {"uri": resource["uri"]})["contents"]
                self.assertTrue(contents[0].get("text") or contents[0].get("blob"))
        templates = client.request("resources/templates/list")["resourceTemplates"]
        self.assertEqual(len(templates), 2)
        for template in templates:
            uri = template["uriTemplate"].replace("{resourceId}", "7")
            contents = client.request("resources/read", {"uri": uri})["contents"]
            self.assertEqual(contents[0]["uri"], uri)

    def test_every_prompt_is_got_and_its_arguments_completed(self):
        client = self.client()
        prompts = client.request("prompts/list")["prompts"]
        given = {"city": "Paris", "state": "Texas", "resourceType": "Text", "resourceId": "1",
                 "department": "Engineering", "name": "Alice"}
        self.assertGreater(len(prompts), 3)
        for prompt in prompts:
            arguments = {one["name"]: given[one["name"]] for one in prompt.get("arguments", [])}
            with self.subTest(prompt["name"]):
                got = client.request("prompts/get", {"name": prompt["name"], "arguments": arguments})
                self.assertTrue(got["messages"])
        done = client.request("completion/complete", {
            "ref": {"type": "ref/prompt", "name": "completable-prompt"},
            "argument": {"name": "department", "value": "E"}})
        self.assertIn("Engineering", done["completion"]["values"])


@unittest.skipUnless(shutil.which("npm"), "npm is not here")
@unittest.skipUnless(os.path.isdir(MODULES + "/@modelcontextprotocol/server"),
                     "the packages of tests/package.json are not here: scripts/npm tests")
class SecondGeneration(FlowTest):
    def test_servers_of_the_second_sdk_are_used_in_each_era(self):
        with open(MODULES + "/@modelcontextprotocol/server/package.json") as file:
            version = json.load(file)["version"]
        about = {"type": "module", "bin": "server.js",
                 "dependencies": {"@modelcontextprotocol/server": version, "zod": "^4.0.0"}}
        with Registry({era + "-one": {"1.0.0": {"package.json": json.dumps(about),
                                                "server.js": SECOND + served}}
                       for era, served in SERVED.items()}, with_installed=True) as registry, \
                Home(registry) as daemon:
            for era in SERVED:
                with self.subTest(era):
                    self.check(daemon, era + "-one")

    def check(self, daemon, name):
        code, out, err = daemon.install("npm:" + name)
        self.assertEqual(code, 0, out + err)
        self.assertIn("Approved 1 tool", out)
        client = Client(daemon, "/mcp/" + name)
        client.initialize()
        self.assertEqual(client.call("add", {"a": 2, "b": 3})["structuredContent"], {"sum": 5})
        self.assertTrue(client.call("add", {"a": "two"})["isError"])
        read = client.request("resources/read", {"uri": "test://note"})
        self.assertEqual(read["contents"][0]["text"], "buy milk")
        got = client.request("prompts/get", {"name": "greet", "arguments": {"whom": "Ann"}})
        self.assertEqual(got["messages"][0]["content"]["text"], "Greet Ann.")


if __name__ == "__main__":
    main()
