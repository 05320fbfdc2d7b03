"""kaged as an MCP server over HTTP, to clients of both eras, with plugins of two tiers behind."""
import http.client
import json

from harness import PATIENCE, Daemon, FlowTest, main, wait_for
from mcp_client import LATEST, MODERN, Client, approve_tools

PROJECT = """version: 1
name: shop
primary:
  model: m0
  prompt: You sell fruit.
  plugins:
    notes: { package: hears-hooks }
  tools:
    hears-hooks.die: { enabled: false }
"""


class GatewayTest(FlowTest):
    plugins = ["mcp-reference", "hears-hooks"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        approve_tools(cls.daemon)

    def client(self, path="/mcp", **more):
        client = Client(self.daemon, path, **more)
        client.initialize()
        return client


class Tools(GatewayTest):
    def test_tools_of_all_plugins_have_the_name_of_theirs_before_their_own(self):
        tools = self.client().tools()
        self.assertIn("mcp-reference__test_simple_text", tools)
        self.assertTrue(any(name.startswith("hears-hooks__") for name in tools), list(tools))
        schema = tools["mcp-reference__json_schema_2020_12_tool"]["inputSchema"]
        self.assertIn("$anchor", schema["$defs"]["address"])
        self.assertEqual(tools["mcp-reference__hang"]["annotations"], {"destructiveHint": True})

    def test_tools_of_one_plugin_have_their_own_names(self):
        client = self.client("/mcp/mcp-reference")
        self.assertIn("test_simple_text", client.tools())
        self.assertEqual(client.text("test_simple_text"),
                         "This is a simple text response for testing.")

    def test_a_plugin_that_is_not_there_is_not_found(self):
        status, answer = Client(self.daemon, "/mcp/nobody").post({"jsonrpc": "2.0"})
        self.assertEqual((status, answer["error"]["code"]), (404, "not_found"))

    def test_a_call_reaches_plugins_of_both_tiers(self):
        client = self.client()
        self.assertIn("simple text", client.text("mcp-reference__test_simple_text"))
        content = client.call("mcp-reference__test_multiple_content_types")["content"]
        self.assertEqual([block["type"] for block in content], ["text", "image", "resource"])
        self.assertEqual(json.loads(client.text("hears-hooks__echo", {"text": "hi"}))["text"], "hi")

    def test_a_modern_client_needs_no_session(self):
        client = Client(self.daemon, revision=MODERN)
        found = client.request("server/discover")
        self.assertIn(MODERN, found["supportedVersions"])
        self.assertEqual(found["resultType"], "complete")
        self.assertIn("mcp-reference__sleep", client.tools())
        result = client.call("mcp-reference__test_simple_text")
        self.assertEqual(result["resultType"], "complete")

    def test_an_older_client_is_answered_in_its_revision(self):
        for revision in ("2024-11-05", "2025-03-26", "2025-06-18", LATEST):
            client = Client(self.daemon)
            self.assertEqual(client.initialize(revision=revision)["protocolVersion"], revision)
            self.assertIn("mcp-reference__sleep", client.tools())
        self.assertEqual(Client(self.daemon).initialize(revision="1999-01-01")["protocolVersion"],
                         LATEST)

    def test_what_goes_wrong_with_a_tool_is_a_result_that_says_so(self):
        client = self.client("/mcp/mcp-reference")
        result = client.call("test_error_handling")
        self.assertTrue(result["isError"])
        self.assertIn("intentionally", result["content"][0]["text"])
        result = client.call("sleep", {"ms": "long"})
        self.assertTrue(result["isError"])
        self.assertIn("ms", result["content"][0]["text"])

    def test_an_unknown_tool_is_an_error_of_the_request(self):
        client = self.client()
        for name in ("nothing__here", "test_simple_text", "mcp-reference__", "x" * 129, "", 7, None):
            status, answer = client.post(client.make("tools/call", {"name": name}))
            self.assertEqual((status, answer["error"]["code"]), (200, -32602), name)

    def test_a_plugin_that_is_down_stays_listed_and_a_call_says_what_helps(self):
        with Daemon(["hears-hooks"], {"limits.restart_failures": 1}) as daemon:
            client = Client(daemon)
            client.initialize()
            before = client.tools()
            result = client.call("hears-hooks__die")
            self.assertTrue(result["isError"])
            self.assertIn("kaged plugin status hears-hooks", result["content"][0]["text"])
            daemon.wait_state("hears-hooks", "failed")
            self.assertEqual(client.tools(), before)
            words = client.text("hears-hooks__echo", {"text": "hi"})
            self.assertIn("plugin hears-hooks is failed", words)
            self.assertIn("kaged plugin enable hears-hooks", words)

    def test_a_project_has_what_its_primary_agent_has_on(self):
        root = self.daemon.write_project("shop", PROJECT)
        status, answer = self.daemon.api("POST", "/projects", {"path": root})
        self.assertEqual(status, 200, answer)
        client = Client(self.daemon, "/mcp?project=shop")
        client.initialize()
        self.assertEqual(set(client.tools()), {"hears-hooks__echo", "hears-hooks__fails"})
        self.assertIn("hi", client.text("hears-hooks__echo", {"text": "hi"}))
        called = [event for event in self.daemon.audit("plugin.method_called", "hears-hooks")
                  if event.get("project_id") == "shop"]
        self.assertTrue(called)
        status, answer = client.post(client.make("tools/call", {"name": "hears-hooks__die"}))
        self.assertEqual(answer["error"]["code"], -32602, answer)
        modern = Client(self.daemon, "/mcp?project=shop", revision=MODERN)
        self.assertIn("hi", modern.text("hears-hooks__echo", {"text": "hi"}))
        status, _ = Client(self.daemon, "/mcp?project=nowhere").post({})
        self.assertEqual(status, 404)


class Offers(GatewayTest):
    def test_one_server_offers_all_that_it_has_as_it_is(self):
        client = self.client("/mcp/mcp-reference")
        uris = [item["uri"] for item in client.request("resources/list")["resources"]]
        self.assertIn("test://static-text", uris)
        read = client.request("resources/read", {"uri": "test://static-text"})
        self.assertEqual(read["contents"][0]["uri"], "test://static-text")
        self.assertEqual(len(client.request("resources/templates/list")["resourceTemplates"]), 1)
        names = [prompt["name"] for prompt in client.request("prompts/list")["prompts"]]
        self.assertIn("test_simple_prompt", names)
        prompt = client.request("prompts/get", {"name": "test_prompt_with_arguments",
                                                "arguments": {"arg1": "a", "arg2": "b"}})
        self.assertIn("arg1='a'", prompt["messages"][0]["content"]["text"])
        completed = client.request("completion/complete", {
            "ref": {"type": "ref/prompt", "name": "test_prompt_with_arguments"},
            "argument": {"name": "arg1", "value": "par"}})
        self.assertEqual(completed["completion"]["values"], ["paris", "park"])
        status, answer = client.post(client.make("resources/read", {"uri": "test://nowhere"}))
        self.assertEqual((status, answer["error"]["code"]), (200, -32002))
        self.assertEqual(answer["error"]["data"], {"uri": "test://nowhere"})

    def test_a_modern_client_gets_results_of_its_era(self):
        client = Client(self.daemon, "/mcp/mcp-reference", revision=MODERN)
        for method in ("resources/list", "resources/templates/list", "prompts/list"):
            result = client.request(method)
            self.assertEqual((result["resultType"], result["ttlMs"], result["cacheScope"]),
                             ("complete", 0, "private"))
        read = client.request("resources/read", {"uri": "test://static-text"})
        self.assertEqual((read["resultType"], read["ttlMs"]), ("complete", 0))
        _, answer = client.post(client.make("resources/read", {"uri": "test://nowhere"}))
        self.assertEqual(answer["error"]["code"], -32602)

    def test_at_the_door_of_all_names_tell_whose_they_are(self):
        client = self.client()
        client.call("mcp-reference__test_simple_text")  # lists are those of servers that run
        resources = {item["uri"] for item in client.request("resources/list")["resources"]}
        self.assertIn("mcp-reference+test://static-text", resources)
        read = client.request("resources/read", {"uri": "mcp-reference+test://static-text"})
        self.assertEqual(read["contents"][0]["uri"], "mcp-reference+test://static-text")
        prompts = {item["name"] for item in client.request("prompts/list")["prompts"]}
        self.assertIn("mcp-reference__test_simple_prompt", prompts)
        prompt = client.request("prompts/get", {"name": "mcp-reference__test_simple_prompt"})
        self.assertIn("simple", prompt["messages"][0]["content"]["text"])
        completed = client.request("completion/complete", {
            "ref": {"type": "ref/prompt", "name": "mcp-reference__test_prompt_with_arguments"},
            "argument": {"name": "arg1", "value": "par"}})
        self.assertEqual(completed["completion"]["total"], 2)
        for method, params in (("resources/read", {"uri": "test://static-text"}),
                               ("resources/read", {"uri": "nobody+test://static-text"}),
                               ("prompts/get", {"name": "test_simple_prompt"})):
            _, answer = client.post(client.make(method, params))
            self.assertIn(answer["error"]["code"], (-32602, -32601), (method, params))

    def test_a_plugin_that_is_no_server_has_tools_alone(self):
        client = Client(self.daemon, "/mcp/hears-hooks")
        self.assertNotIn("resources", client.initialize()["capabilities"])
        _, answer = client.post(client.make("resources/list"))
        self.assertEqual(answer["error"]["code"], -32601)

    def test_a_profile_without_all_of_a_server_has_none_of_its_resources(self):
        self.daemon.cli("mcp", "profile", "set", "part", "mcp-reference.test_*")
        client = self.client("/mcp/mcp-reference?profile=part")
        _, answer = client.post(client.make("resources/read", {"uri": "test://static-text"}))
        self.assertEqual(answer["error"]["code"], -32601)

    def test_who_subscribed_hears_of_a_resource_and_nobody_else(self):
        client, other = self.client("/mcp/mcp-reference"), self.client("/mcp/mcp-reference")
        modern = Client(self.daemon, revision=MODERN)
        uri = "test://watched-resource"
        client.request("resources/subscribe", {"uri": uri})
        with client.listen() as stream, other.listen() as silent, \
                modern.stream("subscriptions/listen", {"notifications": {
                    "resourceSubscriptions": ["mcp-reference+" + uri, "nobody+" + uri]}}) as second:
            acknowledged = second.message()["params"]["notifications"]
            self.assertEqual(acknowledged, {"resourceSubscriptions": ["mcp-reference+" + uri]})
            wait_for(lambda: client.text("touch", {"uri": uri}) == "1 subscribed", "a subscription")
            self.assertEqual(stream.message(), {"jsonrpc": "2.0", "params": {"uri": uri},
                                                "method": "notifications/resources/updated"})
            told = second.message()["params"]
            self.assertEqual(told["uri"], "mcp-reference+" + uri)
            self.assertEqual(told["_meta"]["io.modelcontextprotocol/subscriptionId"],
                             modern.last_id)
            client.request("resources/unsubscribe", {"uri": uri})
            self.daemon.act("hears-hooks", "disable")
            self.daemon.act("hears-hooks", "enable")
            other.leave()
            self.assertIsNone(silent.message())

    def test_logs_go_to_the_one_whose_call_it_is_as_loud_as_it_asked(self):
        client, other = self.client("/mcp/mcp-reference"), self.client("/mcp/mcp-reference")
        other.request("logging/setLevel", {"level": "debug"})
        with client.stream("tools/call", {"name": "test_tool_with_logging"}) as stream:
            messages = stream.rest()
        self.assertEqual([message["params"]["data"] for message in messages[:-1]],
                         ["Tool execution started", "Tool processing data",
                          "Tool execution completed"])
        client.request("logging/setLevel", {"level": "error"})
        status, answer = client.post(client.make("tools/call", {"name": "test_tool_with_logging"}))
        self.assertEqual(answer["result"]["content"][0]["text"], "Logged.")
        modern = Client(self.daemon, "/mcp/mcp-reference", revision=MODERN)
        quiet = modern.make("tools/call", {"name": "test_tool_with_logging"})
        self.assertIn("result", modern.post(quiet)[1])
        with modern.stream("tools/call", {"name": "test_tool_with_logging", "_meta": {
                "io.modelcontextprotocol/logLevel": "info"}}) as stream:
            self.assertEqual(len(stream.rest()), 4)


class Profiles(GatewayTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, tools, read_only in (("some", ["mcp-reference.test_*_content", "hears-hooks"], False),
                                       ("reads", ["*"], True)):
            status, answer = cls.daemon.api("PUT", f"/mcp/profiles/{name}",
                                            {"tools": tools, "read_only": read_only})
            assert status == 200, answer

    def refused(self, client, name):
        status, answer = client.post(client.make("tools/call", {"name": name}))
        self.assertEqual((status, answer["error"]["code"]), (200, -32602), answer)

    def test_a_client_sees_and_calls_what_its_profile_names(self):
        client = self.client("/mcp?profile=some")
        self.assertEqual(set(client.tools()), {
            "mcp-reference__test_image_content", "mcp-reference__test_audio_content",
            "hears-hooks__echo", "hears-hooks__die", "hears-hooks__fails"})
        self.assertIn("content", client.call("mcp-reference__test_image_content"))
        self.refused(client, "mcp-reference__test_simple_text")
        plain = self.client("/mcp/mcp-reference?profile=some")
        self.refused(plain, "test_simple_text")
        self.refused(plain, "hears-hooks__echo")

    def test_read_only_goes_by_annotations_and_by_marks(self):
        only = {"mcp-reference__test_simple_text"}
        for path in ("/mcp?profile=reads", "/mcp?read_only=true"):
            client = self.client(path)
            self.assertEqual(set(client.tools()), only)
            self.refused(client, "hears-hooks__echo")
        self.assertEqual(self.daemon.cli("mcp", "mark", "hears-hooks.echo", "reads")[0], 0)
        self.assertEqual(self.daemon.cli("mcp", "mark", "mcp-reference.test_simple_text",
                                         "writes")[0], 0)
        self.assertEqual(set(client.tools()), {"hears-hooks__echo"})
        self.assertIn("marked as read-only", self.daemon.cli("mcp", "profile", "list")[1])
        for tool in ("hears-hooks.echo", "mcp-reference.test_simple_text"):
            self.assertEqual(self.daemon.cli("mcp", "mark", tool, "unmarked")[0], 0)
        self.assertEqual(set(client.tools()), only)

    def test_a_profile_that_is_removed_leaves_nothing(self):
        code, _, words = self.daemon.cli("mcp", "profile", "set", "brief", "hears-hooks.echo")
        self.assertEqual(code, 0, words)
        client = self.client("/mcp?profile=brief")
        self.assertEqual(set(client.tools()), {"hears-hooks__echo"})
        self.assertEqual(self.daemon.cli("mcp", "profile", "rm", "brief")[0], 0)
        self.assertEqual(client.tools(), {})
        self.refused(client, "hears-hooks__echo")
        self.assertEqual(self.daemon.cli("mcp", "profile", "rm", "brief")[0], 4)

    def test_a_change_of_a_profile_is_told(self):
        client = self.client("/mcp?profile=some")
        client.tools()
        with client.listen() as stream:
            self.daemon.api("PUT", "/mcp/profiles/some", {"tools": ["mcp-reference.test_*_content",
                                                                    "hears-hooks.echo"]})
            self.assertEqual(stream.message()["method"], "notifications/tools/list_changed")
        self.daemon.api("PUT", "/mcp/profiles/some", {"tools": ["mcp-reference.test_*_content",
                                                                "hears-hooks"]})

    def test_patterns_and_names_that_are_none_are_refused(self):
        for name, tools in (("UPPER", ["x"]), ("a b", ["x"]), ("fine", []), ("fine", ["a b"]),
                            ("fine", ["x" * 201])):
            status, _, = self.daemon.api("PUT", "/mcp/profiles/" + name.replace(" ", "%20"),
                                         {"tools": tools})
            self.assertEqual(status, 400, (name, tools))


ALICE = {"action": "accept", "content": {"username": "alice", "email": "a@example.org"}}
SAMPLED = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Apple."}}


class Asks(FlowTest):
    """What plugins want to know of the client whose call they work at."""
    plugins = ["mcp-reference", "asks"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        approve_tools(cls.daemon)

    def client(self, declared, path="/mcp/mcp-reference"):
        client = Client(self.daemon, path)
        client.initialize(capabilities=declared)
        return client

    def ask(self, client, tool, arguments=None):
        """The stream of a call, and the first request on it."""
        stream = client.stream("tools/call", {"name": tool, "arguments": arguments or {}})
        self.addCleanup(stream.close)
        return stream, stream.message()

    def answer(self, client, asked, result):
        status, _ = client.post({"jsonrpc": "2.0", "id": asked["id"], **result})
        self.assertEqual(status, 202)

    def check(self, declared, tool, arguments, answer, expected, path="/mcp/mcp-reference"):
        client = self.client(declared, path)
        stream, asked = self.ask(client, tool, arguments)
        self.answer(client, asked, answer)
        self.assertIn(expected, stream.rest()[-1]["result"]["content"][0]["text"])
        return asked

    def test_a_client_that_declared_elicitation_is_asked(self):
        asked = self.check({"elicitation": {}}, "test_elicitation", {"message": "Who?"},
                           {"result": ALICE}, "alice")
        self.assertEqual((asked["method"], asked["params"]["message"]), ("elicitation/create", "Who?"))
        self.assertEqual(asked["params"]["requestedSchema"]["required"], ["username", "email"])

    def test_so_is_one_of_a_plugin_of_our_own_protocol(self):
        asked = self.check({"elicitation": {}}, "color", {},
                           {"result": {"action": "accept", "content": {"color": "red"}}}, "red",
                           "/mcp/asks")
        self.assertEqual(asked["params"]["requestedSchema"]["type"], "object")

    def test_a_page_is_opened_by_a_client_that_declared_it(self):
        asked = self.check({"elicitation": {"url": {}}}, "open_page", {},
                           {"result": {"action": "accept"}}, "accept")
        self.assertEqual((asked["params"]["mode"], asked["params"]["url"]),
                         ("url", "https://example.org/in"))
        self.assertEqual(self.client({"elicitation": {}}).text("open_page"), "cancel")

    def test_a_client_that_declared_sampling_is_asked_for_words_of_its_model(self):
        asked = self.check({"sampling": {}}, "test_sampling", {"prompt": "Name a fruit."},
                           {"result": SAMPLED}, "LLM response: Apple.")
        self.assertEqual(asked["params"]["maxTokens"], 100)

    def test_a_client_that_declared_roots_is_asked_for_them(self):
        roots = [{"uri": "file:///srv/shop", "name": "shop"}]
        self.check({"roots": {}}, "folders", {}, {"result": {"roots": roots}}, json.dumps(roots))
        self.assertEqual(self.client({}).text("folders"), "[]")

    def test_a_client_that_declared_nothing_is_asked_nothing(self):
        client = self.client({})
        self.assertIn("action=cancel", client.text("test_elicitation", {"message": "Who?"}))
        self.assertTrue(client.call("test_sampling", {"prompt": "Hi"})["isError"])
        modern = Client(self.daemon, "/mcp/mcp-reference", revision=MODERN)
        self.assertIn("action=cancel", modern.text("test_elicitation", {"message": "Who?"}))

    def test_an_answer_that_does_not_fit_or_is_an_error_ends_the_question(self):
        self.check({"elicitation": {}}, "test_elicitation", {"message": "Who?"},
                   {"result": {"action": "accept", "content": {"username": 3}}}, "action=cancel")
        self.check({"sampling": {}}, "test_sampling", {"prompt": "Hi"}, {"result": 7},
                   "does not fit")
        self.check({"sampling": {}}, "test_sampling", {"prompt": "Hi"},
                   {"error": {"code": -1, "message": "User rejected"}}, "User rejected")

    def test_nobody_answers_what_anothers_client_was_asked(self):
        client, other = self.client({"elicitation": {}}), self.client({"elicitation": {}})
        stream, asked = self.ask(client, "test_elicitation", {"message": "Who?"})
        self.answer(other, asked, {"result": {"action": "decline"}})
        self.answer(client, {"id": asked["id"] + 1000}, {"result": {"action": "decline"}})
        self.answer(client, asked, {"result": ALICE})
        self.assertIn("alice", stream.rest()[-1]["result"]["content"][0]["text"])
        self.answer(client, asked, {"result": ALICE})  # once more, to nobody

    def test_with_calls_of_several_clients_nobody_is_asked_and_of_one_he_is(self):
        client, other = self.client({"elicitation": {}}), self.client({"elicitation": {}})
        with client.stream("tools/call", {"name": "hang"}) as hangs:
            self.assertIsNone(hangs.event()[1])  # it is under way
            stream, asked = self.ask(client, "test_elicitation", {"message": "Who?"})
            self.answer(client, asked, {"result": ALICE})
            self.assertIn("alice", stream.rest()[-1]["result"]["content"][0]["text"])
            result = other.call("test_elicitation", {"message": "Who?"})
            self.assertIn("several conversations", result["content"][0]["text"])
        self.assertEqual(client.leave(), 204)

    def test_a_call_that_is_cancelled_takes_its_question_back(self):
        client = self.client({"elicitation": {}})
        message = client.make("tools/call", {"name": "test_elicitation", "arguments": {"message": "?"}})
        with client.stream("tools/call", message=message) as stream:
            asked = stream.message()
            client.notify("notifications/cancelled", {"requestId": message["id"]})
            self.assertEqual([told["params"]["requestId"] for told in stream.rest()], [asked["id"]])

    def test_a_question_that_nobody_answers_in_time_is_cancelled(self):
        with Daemon(["mcp-reference"], {"limits.question_ms": 1000}) as daemon:
            approve_tools(daemon)
            client = Client(daemon, "/mcp/mcp-reference")
            client.initialize(capabilities={"elicitation": {}})
            with client.stream("tools/call", {"name": "test_elicitation",
                                              "arguments": {"message": "?"}}) as stream:
                asked, withdrawn, answer = stream.rest()
            self.assertEqual(withdrawn["params"]["requestId"], asked["id"])
            self.assertIn("action=cancel", answer["result"]["content"][0]["text"])


class AsksModern(FlowTest):
    """A modern client is asked in the answer, and calls again."""
    plugins = ["mcp-reference"]
    wanted = {"name": "test_elicitation", "arguments": {"message": "Who?"}}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        approve_tools(cls.daemon)

    def client(self, declared=None):
        client = Client(self.daemon, "/mcp/mcp-reference", revision=MODERN)
        client.declared = {"elicitation": {}} if declared is None else declared
        return client

    def call(self, client, **more):
        meta = {"io.modelcontextprotocol/clientCapabilities": client.declared}
        return client.post(client.make("tools/call", {**self.wanted, "_meta": meta, **more}))[1]

    def test_a_call_goes_on_when_its_client_brings_the_answer(self):
        client = self.client()
        result = self.call(client)["result"]
        self.assertEqual(result["resultType"], "input_required")
        (key, asked), = result["inputRequests"].items()
        self.assertEqual((asked["method"], asked["params"]["message"]), ("elicitation/create", "Who?"))
        again = self.call(client, requestState=result["requestState"], inputResponses={})["result"]
        self.assertEqual(again["inputRequests"], result["inputRequests"])
        self.assertNotEqual(again["requestState"], result["requestState"])
        wrong = self.call(client, requestState=again["requestState"], inputResponses={key: 3})["result"]
        self.assertEqual(wrong["resultType"], "input_required")
        done = self.call(client, requestState=wrong["requestState"], inputResponses={key: ALICE})
        self.assertEqual(done["result"]["resultType"], "complete")
        self.assertIn("alice", done["result"]["content"][0]["text"])

    def test_a_state_is_good_for_one_call_once(self):
        client = self.client()
        result = self.call(client)["result"]
        key, = result["inputRequests"]
        given = {"requestState": result["requestState"], "inputResponses": {key: ALICE}}
        for wrong in ({"requestState": given["requestState"] + "x"}, {"requestState": ""},
                      {"requestState": 7}, {"inputResponses": None}, {"inputResponses": []},
                      {"arguments": {"message": "Other?"}}):
            answer = self.call(client, **{**given, **wrong})
            self.assertEqual(answer.get("error", {}).get("code"), -32602, (wrong, answer))
        self.assertIn("result", self.call(client, **given))
        self.assertEqual(self.call(client, **given)["error"]["code"], -32602)

    def test_calls_that_wait_for_their_client_are_bounded(self):
        with Daemon(["mcp-reference"], {"limits.mcp_calls": 1, "limits.question_ms": 3000}) as daemon:
            approve_tools(daemon)
            client = Client(daemon, "/mcp/mcp-reference", revision=MODERN)
            client.declared = {"elicitation": {}}
            self.assertEqual(self.call(client)["result"]["resultType"], "input_required")
            text = self.call(client)["result"]["content"][0]["text"]
            self.assertTrue("cancel" in text or "several conversations" in text, text)


class Search(GatewayTest):
    """Three tools in place of all."""

    def found(self, client, words, **more):
        return [tool["name"] for tool in
                json.loads(client.text("find_tools", {"words": words, **more}))]

    def test_three_tools_find_describe_and_call_the_others(self):
        client = self.client("/mcp?search=true")
        self.assertEqual(set(client.tools()), {"find_tools", "describe_tool", "call_tool"})
        self.assertEqual(self.found(client, "image")[0], "mcp-reference__test_image_content")
        name = self.found(client, "json schema address")[0]
        self.assertEqual(name, "mcp-reference__json_schema_2020_12_tool")
        described = json.loads(client.text("describe_tool", {"name": name}))
        self.assertEqual((described["name"], described["inputSchema"]["$defs"]["address"]["type"]),
                         (name, "object"))
        answer = client.text("call_tool", {"name": "hears-hooks__echo", "arguments": {"text": "hi"}})
        self.assertIn("hi", answer)
        self.assertEqual(len(self.found(client, "", limit=4)), 4)
        self.assertEqual(self.found(client, "zzzz"), [])
        modern = Client(self.daemon, "/mcp/mcp-reference?search=true", revision=MODERN)
        self.assertIn("test_image_content", self.found(modern, "images"))
        self.assertIn("simple", modern.text("call_tool", {"name": "test_simple_text"}))

    def test_only_what_the_client_may_use_is_found_described_and_called(self):
        self.daemon.cli("mcp", "profile", "set", "few", "mcp-reference.test_*_content", "--tools",
                        "search")
        client = self.client("/mcp?profile=few")
        self.assertEqual(set(client.tools()), {"find_tools", "describe_tool", "call_tool"})
        self.assertEqual(set(self.found(client, "")), {"mcp-reference__test_image_content",
                                                      "mcp-reference__test_audio_content"})
        for tool in ("describe_tool", "call_tool"):
            _, answer = client.post(client.make("tools/call", {
                "name": tool, "arguments": {"name": "hears-hooks__echo"}}))
            self.assertIn("no tool", json.dumps(answer))
        self.assertIn("all, search", self.daemon.cli("mcp", "profile", "list")[1])

    def test_words_that_mean_something_to_an_index_are_words(self):
        client = self.client("/mcp?search=true")
        for words in ('"', "a OR", "name:x", "image AND (", "*", "^image", "NEAR(image text)", "\u0000",
                      "{name}: image", "-image", "x" * 500):
            self.assertIsInstance(self.found(client, words), list, words)
        for arguments in ({}, {"words": 3}, {"words": "x" * 600}, {"words": "x", "limit": 0},
                          {"words": "x", "limit": "many"}):
            self.assertTrue(client.call("find_tools", arguments)["isError"], arguments)
        for arguments in ({}, {"name": 3}, {"name": "mcp-reference__sleep", "arguments": []}):
            self.assertTrue(client.call("call_tool", arguments)["isError"], arguments)

    def test_the_status_says_what_it_saves(self):
        plain, client = self.client(), self.client("/mcp?search=true")
        for each in (plain, client):
            each.tools()
        rows = [row for row in self.daemon.api("GET", "/mcp/clients")[1]["clients"]
                if row["profile"] is None and row["plugin"] is None and row["era"] == "legacy"]
        all_of_them = max(row["characters"] for row in rows)
        saved = max(row["saved"] for row in rows)
        self.assertGreater(saved, 0)
        self.assertIn(all_of_them - saved, {row["characters"] for row in rows if row["saved"]})
        self.assertIn(str(saved), self.daemon.cli("mcp", "status")[1])
        self.assertEqual(self.daemon.cli("mcp", "serve", "--tools", "few")[0], 2)

    def test_a_tool_that_comes_or_changes_is_found_as_it_is_now(self):
        client = self.client("/mcp?search=true")
        self.assertIn("hears-hooks__echo", self.found(client, "echo"))
        self.daemon.act("hears-hooks", "disable")
        wait_for(lambda: "hears-hooks__echo" not in self.found(client, "echo"), "it to go")
        self.daemon.act("hears-hooks", "enable")
        wait_for(lambda: "hears-hooks__echo" in self.found(client, "echo"), "it to come back")


class Activity(FlowTest):
    plugins = ["mcp-reference", "hears-hooks"]
    config = {"mcp.activity": "full"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        approve_tools(cls.daemon)

    def log(self, query=""):
        status, answer = self.daemon.api("GET", "/mcp/log" + query)
        self.assertEqual(status, 200, answer)
        return answer["calls"]

    def test_calls_are_kept_with_who_made_them_until_they_are_forgotten(self):
        client, modern = Client(self.daemon), Client(self.daemon, revision=MODERN)
        client.initialize()
        client.call("hears-hooks__echo", {"text": "hello there"})
        client.call("mcp-reference__test_error_handling")
        modern.call("mcp-reference__sleep", {"ms": 20})
        slow, failed, echoed = self.log()
        self.assertEqual((echoed["plugin"], echoed["tool"], echoed["outcome"], echoed["client"]),
                         ("hears-hooks", "echo", "done", "test 1"))
        self.assertIn("hello there", echoed["arguments"])
        self.assertIn("hello there", echoed["result"])
        self.assertEqual(failed["outcome"], "failed")
        self.assertGreaterEqual(slow["duration_ms"], 10)
        self.assertEqual(len(self.log("?tool=hears-hooks")), 1)
        self.assertEqual(len(self.log("?tool=mcp-reference.s*&client=test")), 1)
        self.assertEqual(self.log("?client=other"), [])
        self.assertEqual(len(self.log(f"?before={failed['id']}")), 1)
        code, text, words = self.daemon.cli("mcp", "log", "--tool", "hears-hooks.*")
        self.assertEqual(code, 0, words)
        self.assertIn("hears-hooks.echo done", text)
        code, text, _ = self.daemon.cli("mcp", "status")
        self.assertIn("hears-hooks", self.daemon.cli("--json", "mcp", "log")[1])
        status, answer = self.daemon.api("GET", "/mcp/clients")
        self.assertEqual({entry["era"] for entry in answer["clients"]}, {"legacy", "modern"})
        self.assertEqual({entry["last_tool"] for entry in answer["clients"]},
                         {"mcp-reference.test_error_handling", "mcp-reference.sleep"})
        self.assertEqual(self.daemon.cli("mcp", "forget")[0], 0)
        self.assertEqual(self.log(), [])

    def test_calls_that_come_by_the_bunch_are_all_kept_in_their_order(self):
        client = Client(self.daemon)
        client.initialize()
        words = [f"{number} " + 1000 * "x" for number in range(60)]  # of which 16 KiB are written at once
        for text in words:
            client.call("hears-hooks__echo", {"text": text})
        kept = [json.loads(call["arguments"])["text"] for call in self.log("?tool=hears-hooks&limit=60")]
        self.assertEqual(kept, words[::-1])
        self.assertEqual(self.daemon.cli("mcp", "forget")[0], 0)

    def test_without_full_only_sizes_are_kept_and_with_off_nothing(self):
        for activity, expected in (("calls", 1), ("off", 0)):
            with Daemon(["hears-hooks"], {"mcp.activity": activity}) as daemon:
                client = Client(daemon)
                client.initialize()
                client.call("hears-hooks__echo", {"text": "hello there"})
                calls = daemon.api("GET", "/mcp/log")[1]["calls"]
                self.assertEqual(len(calls), expected)
                self.assertTrue(all(call["arguments"] is None for call in calls))


class Tokens(FlowTest):
    plugins = ["hears-hooks"]
    config = {"daemon.bind": "127.0.0.1:0"}

    def client(self, token, path="/mcp"):
        host, _, port = self.daemon.api("GET", "/status")[1]["tcp"].rpartition(":")
        return Client(self.daemon, path, headers={"Authorization": f"Bearer {token}"},
                      connect=lambda: http.client.HTTPConnection(host, int(port),
                                                                 timeout=PATIENCE))

    def token(self, name, *more):
        code, text, words = self.daemon.cli("auth", "token", "create", "--name", name, "--scope",
                                            "plugins:call,plugins:read", *more)
        self.assertEqual(code, 0, words)
        return text.strip()

    def test_a_token_is_confined_to_its_profile_and_to_mcp(self):
        self.daemon.cli("mcp", "profile", "set", "one", "hears-hooks.echo")
        confined, free = self.token("confined", "--profile", "one"), self.token("free")
        client = self.client(confined)
        client.initialize()
        self.assertEqual(set(client.tools()), {"hears-hooks__echo"})
        self.assertIn("hi", client.text("hears-hooks__echo", {"text": "hi"}))
        for path in ("/api/v1/plugins", "/api/v1/mcp/profiles"):
            client.path = path
            self.assertEqual(client.raw("GET")[0], 403)
        wide = self.client(confined, "/mcp?profile=nothing")
        wide.initialize()
        self.assertEqual(wide.tools(), {})
        other = self.client(free)
        other.initialize()
        self.assertEqual(len(other.tools()), 3)
        other.session = client.session
        self.assertEqual(other.post(other.make("tools/list"))[0], 404)

    def test_nobody_comes_in_without_a_token_or_from_another_page(self):
        client = self.client("kgd_wrong")
        self.assertEqual(client.post(client.make("tools/list"))[0], 401)
        client = self.client(self.token("fine"))
        self.assertEqual(client.post(client.make("ping"), {"Origin": "http://evil.example"})[0], 403)
        self.assertEqual(client.post(client.make("ping"), {"Host": "evil.example"})[0], 403)


class Streams(GatewayTest):
    def test_progress_comes_before_the_answer_under_the_token_of_the_client(self):
        client = self.client("/mcp/mcp-reference")
        with client.stream("tools/call", {"name": "test_tool_with_progress",
                                          "_meta": {"progressToken": "mine"}}) as stream:
            messages = stream.rest()
        self.assertEqual([message["params"] for message in messages[:-1]],
                         [{"progressToken": "mine", "progress": value, "total": 100}
                          for value in (0, 50, 100)])
        self.assertEqual(messages[-1]["result"]["content"][0]["text"], "Done.")

    def test_without_a_token_there_is_no_progress_and_no_stream(self):
        client = self.client("/mcp/mcp-reference")
        status, answer = client.post(client.make("tools/call", {"name": "test_tool_with_progress"}))
        self.assertEqual((status, answer["result"]["content"][0]["text"]), (200, "Done."))

    def test_an_answer_that_takes_long_becomes_a_stream_that_can_be_resumed(self):
        client = self.client("/mcp/mcp-reference")
        stream = client.stream("tools/call", {"name": "sleep", "arguments": {"ms": 2500}})
        last_event, message = stream.event()
        self.assertEqual((bool(last_event), message), (True, None))
        stream.close()
        with client.listen(last_event) as again:
            answer = again.rest()[-1]
        self.assertEqual(answer["result"]["content"][0]["text"], "slept")

    def test_an_older_client_gets_no_event_without_a_message(self):
        client = Client(self.daemon, "/mcp/mcp-reference")
        client.initialize(revision="2025-06-18")
        with client.stream("tools/call", {"name": "sleep", "arguments": {"ms": 1500}}) as stream:
            events = [stream.event(), stream.event()]
        self.assertEqual([event[1]["result"]["content"][0]["text"] for event in events if event and
                          event[0]], ["slept"])

    def test_a_client_that_listens_hears_when_tools_come_and_go(self):
        client, modern = self.client(), Client(self.daemon, revision=MODERN)
        client.tools()
        with client.listen() as stream, modern.stream("subscriptions/listen", {
                "notifications": {"toolsListChanged": True, "promptsListChanged": True}}) as second:
            acknowledged = second.message()
            self.assertEqual(acknowledged["params"]["notifications"], {"toolsListChanged": True,
                                                                      "promptsListChanged": True})
            self.daemon.act("hears-hooks", "disable")
            self.addCleanup(self.daemon.act, "hears-hooks", "enable")
            self.assertEqual(stream.message()["method"], "notifications/tools/list_changed")
            told = second.message()
            self.assertEqual(told["method"], "notifications/tools/list_changed")
            self.assertEqual(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
                             modern.last_id)
        self.assertFalse(any(name.startswith("hears-hooks__") for name in client.tools()))

    def cancelled(self, client):
        return int(client.text("cancelled"))

    def test_a_cancelled_call_ends_at_once_and_the_server_is_told(self):
        client = self.client("/mcp/mcp-reference")
        before = self.cancelled(client)
        message = client.make("tools/call", {"name": "hang"})
        with client.stream("tools/call", message=message) as stream:
            self.assertIsNone(stream.event()[1])
            client.notify("notifications/cancelled", {"requestId": message["id"]})
            self.assertEqual(stream.rest(), [])
        wait_for(lambda: self.cancelled(client) == before + 1, "the server to hear of it")

    def test_a_cancelled_call_ends_the_connection_that_resumed_its_stream(self):
        client = self.client("/mcp/mcp-reference")
        message = client.make("tools/call", {"name": "hang"})
        stream = client.stream("tools/call", message=message)
        last_event, _ = stream.event()
        stream.close()
        with client.listen(last_event) as again:
            client.notify("notifications/cancelled", {"requestId": message["id"]})
            self.assertEqual(again.rest(), [])

    def test_a_modern_client_cancels_by_leaving(self):
        client = Client(self.daemon, "/mcp/mcp-reference", revision=MODERN)
        before = self.cancelled(client)
        with client.stream("tools/call", {"name": "hang"}) as stream:
            self.assertEqual(stream.response.status, 200)
        wait_for(lambda: self.cancelled(client) == before + 1, "the server to hear of it")

    def test_nobody_cancels_what_is_anothers(self):
        client, other = self.client("/mcp/mcp-reference"), self.client("/mcp/mcp-reference")
        before = self.cancelled(client)
        message = client.make("tools/call", {"name": "sleep", "arguments": {"ms": 1500}})
        with client.stream("tools/call", message=message) as stream:
            other.notify("notifications/cancelled", {"requestId": message["id"]})
            self.assertEqual(stream.rest()[-1]["result"]["content"][0]["text"], "slept")
        self.assertEqual(self.cancelled(client), before)


class BadInput(GatewayTest):
    def refused(self, client, message, status, code, headers=None):
        answer = client.post(message, headers)
        self.assertEqual((answer[0], answer[1]["error"]["code"]), (status, code), answer)

    def test_a_batch_is_refused(self):
        client = self.client()
        self.refused(client, [client.make("tools/list")], 400, -32600)

    def test_what_is_not_json_is_refused(self):
        client = self.client()
        status, _, body = client.raw("POST", "{", client.headers({}))
        self.assertEqual((status, json.loads(body)["error"]["code"]), (400, -32700))

    def test_a_message_that_is_none_is_refused(self):
        client = self.client()
        for message in ({}, {"jsonrpc": "2.0"}, {"jsonrpc": "1.0", "id": 1, "method": "ping"},
                        {"jsonrpc": "2.0", "id": None, "method": "ping"},
                        {"jsonrpc": "2.0", "id": {}, "method": "ping"}):
            self.refused(client, message, 400, -32600)

    def test_a_request_without_a_session_is_refused(self):
        client = Client(self.daemon)
        self.refused(client, client.make("tools/list"), 400, -32600)

    def test_a_session_that_ended_or_never_was_is_not_found(self):
        client = self.client()
        self.assertEqual(client.leave(), 204)
        self.refused(client, client.make("tools/list"), 404, -32001)
        self.assertEqual(client.leave(), 404)
        client.session = "0" * 32
        self.refused(client, client.make("tools/list"), 404, -32001)

    def test_a_session_of_one_door_is_not_there_at_another(self):
        client = self.client("/mcp/mcp-reference")
        client.path = "/mcp"
        self.refused(client, client.make("tools/list"), 404, -32001)

    def test_a_revision_that_is_not_spoken_is_refused(self):
        client = self.client()
        self.refused(client, client.make("tools/list"), 400, -32600,
                     {"MCP-Protocol-Version": "1999-01-01"})
        modern = Client(self.daemon, revision=MODERN)
        message = modern.make("tools/list", {"_meta": {
            "io.modelcontextprotocol/protocolVersion": "2999-01-01"}})
        status, answer = modern.post(message, {"MCP-Protocol-Version": "2999-01-01"})
        self.assertEqual((status, answer["error"]["code"]), (400, -32022))
        self.assertEqual(answer["error"]["data"]["requested"], "2999-01-01")
        self.assertIn(MODERN, answer["error"]["data"]["supported"])

    def test_headers_that_do_not_match_the_body_are_refused(self):
        client = Client(self.daemon, revision=MODERN)
        call = {"name": "mcp-reference__test_simple_text"}
        for headers in ({"Mcp-Method": "prompts/list"}, {"Mcp-Method": None}, {"Mcp-Name": "other"},
                        {"Mcp-Name": None}, {"MCP-Protocol-Version": LATEST},
                        {"MCP-Protocol-Version": None}):
            self.refused(client, client.make("tools/call", call), 400, -32020, headers)

    def test_a_modern_request_has_to_say_what_it_speaks(self):
        client = Client(self.daemon, revision=MODERN)
        for meta in (None, {}, {"io.modelcontextprotocol/protocolVersion": MODERN},
                     {"io.modelcontextprotocol/clientCapabilities": {}}):
            message = {"jsonrpc": "2.0", "id": 5, "method": "tools/list",
                       "params": {} if meta is None else {"_meta": meta}}
            self.refused(client, message, 400, -32602)

    def test_methods_of_the_other_era_are_unknown(self):
        client, modern = self.client(), Client(self.daemon, revision=MODERN)
        self.refused(client, client.make("server/discover"), 200, -32601)
        for method in ("initialize", "ping", "logging/setLevel", "nothing"):
            self.refused(modern, modern.make(method), 404, -32601)

    def test_an_answer_that_is_not_accepted_is_not_given(self):
        client = self.client()
        for accept in ("application/json", "text/event-stream", "text/html"):
            self.refused(client, client.make("tools/list"), 406, -32600, {"Accept": accept})

    def test_a_last_event_of_another_session_finds_nothing(self):
        client, other = self.client("/mcp/mcp-reference"), self.client("/mcp/mcp-reference")
        with client.stream("tools/call", {"name": "sleep", "arguments": {"ms": 1500}}) as stream:
            last_event, _ = stream.event()
            for wrong in (last_event, "1", "x-0-0", last_event + "9" * 30):
                connection, response = other.open("GET", None, {
                    "Accept": "text/event-stream", "Mcp-Session-Id": other.session,
                    "Last-Event-ID": wrong})
                self.assertEqual(response.status, 404, wrong)
                connection.close()
            stream.rest()

    def test_five_mebibytes_of_arguments_are_too_large(self):
        client = self.client()
        message = client.make("tools/call", {"name": "x", "arguments": {"x": "y" * (5 << 20)}})
        status, _ = client.post(message)
        self.assertEqual(status, 413)

    def test_an_id_that_is_under_way_is_not_taken_again(self):
        client = self.client("/mcp/mcp-reference")
        message = client.make("tools/call", {"name": "hang"})
        with client.stream("tools/call", message=message) as stream:
            self.refused(client, message, 200, -32600)
            client.notify("notifications/cancelled", {"requestId": message["id"]})
            self.assertEqual(stream.rest(), [])

    def test_a_client_that_leaves_in_mid_call_disturbs_nobody(self):
        client = self.client("/mcp/mcp-reference")
        for _ in range(5):
            client.stream("tools/call", {"name": "sleep", "arguments": {"ms": 300}}).close()
        self.assertIn("simple", client.text("test_simple_text"))

    def test_a_cursor_that_nobody_gave_is_refused(self):
        client = self.client()
        self.refused(client, client.make("tools/list", {"cursor": "x"}), 200, -32602)


class Limits(FlowTest):
    plugins = ["mcp-reference"]
    config = {"limits.mcp_sessions": 2, "limits.mcp_streams": 1, "limits.mcp_calls": 3}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        approve_tools(cls.daemon)

    def test_a_client_that_never_reads_is_kept_no_more_than_its_bound_for(self):
        with Daemon(["mcp-reference"], {"limits.mcp_queue_bytes": 65536}) as daemon:
            approve_tools(daemon)
            client, other = (Client(daemon, "/mcp/mcp-reference") for _ in range(2))
            for each in (client, other):
                each.initialize()
            message = self.flood(client)
            lazy = client.connect()
            self.addCleanup(lazy.close)
            lazy.request("POST", client.path, json.dumps(message), client.headers(message))

            def is_done():
                self.assertIn("simple", other.text("test_simple_text"))  # nobody waits for it
                rows = daemon.api("GET", "/mcp/clients")[1]["clients"]
                return any(row["last_tool"] == "mcp-reference.flood" for row in rows)
            wait_for(is_done, "the end of the flood")
            got = lazy.getresponse().read()
            self.assertLess(len(got), 3000 * 3000 // 2)
            self.assertIn(b"Flooded.", got[-500:])

    def flood(self, client):
        return client.make("tools/call", {"name": "flood", "arguments": {"count": 3000},
                                          "_meta": {"progressToken": 1}})

    def test_what_was_not_read_is_resumed_by_another_connection_also_when_it_is_too_much_to_keep(self):
        """The stream went with the connection that had carried it, and was used after that."""
        with Daemon(["mcp-reference"], {"limits.mcp_queue_bytes": 65536}) as daemon:
            approve_tools(daemon)
            client = Client(daemon, "/mcp/mcp-reference")
            client.initialize()
            message = self.flood(client)
            lazy = client.connect()
            self.addCleanup(lazy.close)
            lazy.request("POST", client.path, json.dumps(message), client.headers(message))
            wait_for(lambda: any(row["last_tool"] for row in
                                 daemon.api("GET", "/mcp/clients")[1]["clients"]), "its end")

            def flooded():
                """Of too many messages in one second some are dropped: maybe all of this flood."""
                with client.stream("tools/call", message=self.flood(client)) as stream:
                    event = stream.event()
                    return event and stream.rest() and event[0].split("-")
            tag, number, _ = wait_for(flooded, "a second stream")
            self.assertEqual(number, "2")
            with client.listen(f"{tag}-1-1") as again:
                self.assertEqual(again.rest()[-1]["result"]["content"][0]["text"], "Flooded.")
            self.assertEqual(client.request("ping"), {})

    def test_the_session_that_was_idle_for_longest_makes_room(self):
        clients = [Client(self.daemon) for _ in range(3)]
        for client in clients:
            client.initialize()
        status, _ = clients[0].post(clients[0].make("ping"))
        self.assertEqual(status, 404)
        self.assertEqual(clients[2].request("ping"), {})

    def test_a_session_that_is_idle_for_long_ends(self):
        with Daemon([], {"limits.mcp_idle_ms": 5000}) as daemon:
            client, listener = Client(daemon), Client(daemon)
            listener.initialize()
            with listener.listen():
                client.initialize()
                wait_for(lambda: len(daemon.api("GET", "/mcp/clients")[1]["clients"]) == 1,
                         "the end of a session")
                self.assertEqual(client.leave(), 404)
                self.assertEqual(listener.request("ping"), {})

    def test_streams_are_bounded_apart_from_connections(self):
        client = Client(self.daemon)
        client.initialize()
        with client.listen():
            connection, response = client.open("GET", None, {
                "Accept": "text/event-stream", "Mcp-Session-Id": client.session})
            self.assertEqual(response.status, 503)
            connection.close()
            self.assertEqual(client.request("ping"), {})

    def test_a_flood_of_calls_is_bounded_for_each_client(self):
        client, other = (Client(self.daemon, "/mcp/mcp-reference") for _ in range(2))
        client.initialize()
        other.initialize()
        calls = []
        for _ in range(3):
            message = client.make("tools/call", {"name": "hang"})
            calls.append(client.connect())
            calls[-1].request("POST", client.path, json.dumps(message), client.headers(message))

        def refused():
            _, answer = client.post(client.make("tools/call", {"name": "cancelled"}))
            return "too many calls" in answer.get("error", {}).get("message", "")
        wait_for(refused, "a call too many")
        self.assertIn("simple", other.text("test_simple_text"))
        self.assertEqual(client.leave(), 204)
        for call in calls:
            self.assertIn(call.getresponse().status, (200, 404))  # 200: it was a stream by then
            call.close()


if __name__ == "__main__":
    main()
