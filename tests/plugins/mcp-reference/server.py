#!/usr/bin/env python3
"""An MCP server of the era that ERA names, with the tools, resources and prompts that the protocol's
conformance suite names. More are for tests of ours: `hang` answers only when it is cancelled,
`cancelled` says how often that was, `sleep` takes as long as it is told to, `touch` changes a
resource, `open_page` has a page opened, and `folders` asks for the client's."""
import json
import os
import sys
import threading
import time

PNG = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJg"
       "gg==")
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
NOTHING = {"type": "object"}
MODERN = os.environ.get("ERA") == "modern"
SCHEMA_2020 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {
        "street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
                   "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                   "phone": {"type": "string"}, "email": {"type": "string"}},
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
DEFAULTS = {"type": "object", "properties": {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True}}}
OPTIONS = ["option1", "option2", "option3"]
TITLED = [{"const": f"value{n}", "title": title}
          for n, title in enumerate(["First Option", "Second Option", "Third Option"], 1)]
ENUMS = {"type": "object", "properties": {
    "untitledSingle": {"type": "string", "enum": OPTIONS},
    "titledSingle": {"type": "string", "oneOf": TITLED},
    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"],
                   "enumNames": ["Option One", "Option Two", "Option Three"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": TITLED}}}}

lock = threading.Lock()
answers, answered = {}, threading.Condition()
cancelled, cancels = set(), threading.Condition()
subscribed = set()


def say(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def ask(method, params):
    """A request to the host; its result."""
    name = f"ask-{threading.get_ident()}-{time.monotonic_ns()}"
    say({"id": name, "method": method, "params": params})
    with answered:
        answered.wait_for(lambda: name in answers)
        answer = answers.pop(name)
    if "error" in answer:
        raise RuntimeError(answer["error"]["message"])
    return answer["result"]


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


def log_thrice(_, call):
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        say({"method": "notifications/message", "params": {"level": "info", "data": words}})
        time.sleep(0.05)
    return text("Logged.")


def progress(_, call):
    for value in (0, 50, 100):
        if call["token"] is not None:
            say({"method": "notifications/progress", "params": {
                "progressToken": call["token"], "progress": value, "total": 100}})
        time.sleep(0.05)
    return text("Done.")


def hang(_, call):
    with cancels:
        cancels.wait_for(lambda: call["id"] in cancelled)
    return None


def sample(arguments, _):
    answer = ask("sampling/createMessage", {"maxTokens": 100, "messages": [
        {"role": "user", "content": {"type": "text", "text": arguments["prompt"]}}]})
    return text("LLM response: " + answer["content"]["text"])


def elicit(message, schema, words):
    answer = ask("elicitation/create", {"message": message, "requestedSchema": schema})
    return text(f"{words}: action={answer['action']}, content={json.dumps(answer.get('content'))}")


def open_page(_, call):
    return text(ask("elicitation/create", {"mode": "url", "message": "Log in", "elicitationId": "e1",
                                           "url": "https://example.org/in"})["action"])


def folders(_, call):
    return text(json.dumps(ask("roots/list", {})["roots"]))


# A modern server asks in its answers: each function has the params of the call, and gives a result.

def form(message, name, kind="string"):
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": {
        "type": "object", "properties": {name: {"type": kind}}, "required": [name]}}}


def question(words):
    return {"method": "sampling/createMessage", "params": {"maxTokens": 100, "messages": [
        {"role": "user", "content": {"type": "text", "text": words}}]}}


ROOTS = {"method": "roots/list", "params": {}}


def wants(inputs, finish=lambda given: text(json.dumps(given)), state="kept"):
    """A tool that wants these before it is done."""
    def call(params):
        given = params.get("inputResponses") or {}
        if all(isinstance(given.get(key), dict) for key in inputs):
            return finish(given)
        return {"resultType": "input_required", "inputRequests": inputs, "requestState": state}
    return call


def two_rounds(params):
    if params.get("requestState") == "second":
        return text("Blue, Alice.")
    if "step1" in params.get("inputResponses", {}):
        return wants({"step2": form("Step 2: What is your favorite color?", "color")},
                     state="second")({})
    return wants({"step1": form("Step 1: What is your name?", "name")}, state="first")(params)


def needs_sampling(params):
    if "sampling" in params["_meta"]["io.modelcontextprotocol/clientCapabilities"]:
        return text("It is there.")
    return {"code": -32021, "message": "it needs sampling",
            "data": {"requiredCapabilities": {"sampling": {}}}}


def may(params):
    """Of a sample and a form what the client has declared."""
    has = params["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    inputs = {"sampling": question("Say hello."), "elicitation": form("Who are you?", "name")}
    return wants({key: inputs[key] for key in inputs if key in has})(params)


ASKING = {
    "elicitation": wants({"user_name": form("What is your name?", "name")},
                         lambda given: text(f"Hello, {given['user_name']}!")),
    "sampling": wants({"capital_question": question("What is the capital of France?")}),
    "list_roots": wants({"client_roots": ROOTS}),
    "request_state": wants({"confirm": form("Please confirm", "ok", "boolean")},
                           lambda _: text("state-ok")),
    "multiple_inputs": wants({"user_name": form("What is your name?", "name"),
                              "greeting": question("Generate a greeting"), "client_roots": ROOTS}),
    "multi_round": two_rounds,
    "tampered_state": wants({"confirm": form("Please confirm", "ok", "boolean")}),
    "capabilities": may,
}
ASKING = {f"test_input_required_result_{name}": function for name, function in ASKING.items()}
ASKING["test_missing_capability"] = needs_sampling
ASKING["test_streaming_elicitation"] = ASKING["test_input_required_result_elicitation"]
ask_context = wants({"user_context": form("What context should the prompt use?", "context")},
                    lambda given: messages(say_text(json.dumps(given))))


def fail(_, call):
    raise RuntimeError("This tool intentionally returns an error for testing")


def touch(arguments, _):
    if arguments["uri"] in subscribed:
        say({"method": "notifications/resources/updated", "params": {"uri": arguments["uri"]}})
    return text(f"{len(subscribed)} subscribed")


def sleep(arguments, _):
    time.sleep(arguments["ms"] / 1000)
    return text("slept")


USER = {"type": "object", "required": ["username", "email"], "properties": {
    "username": {"type": "string", "description": "User's response"},
    "email": {"type": "string", "description": "User's email address"}}}
RESOURCE = {"type": "resource", "resource": {
    "uri": "test://embedded-resource", "mimeType": "text/plain",
    "text": "This is an embedded resource content."}}
MIXED = {"type": "resource", "resource": {
    "uri": "test://mixed-content-resource", "mimeType": "application/json",
    "text": '{"test":"data","value":123}'}}
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
# name: (schema, function of the arguments and the call, annotations)
TOOLS = {
    "test_simple_text": (NOTHING, lambda *_: text("This is a simple text response for testing."),
                         {"readOnlyHint": True}),
    "test_image_content": (NOTHING, lambda *_: {"content": [IMAGE]}, None),
    "test_audio_content": (NOTHING, lambda *_: {"content": [
        {"type": "audio", "data": WAV, "mimeType": "audio/wav"}]}, None),
    "test_embedded_resource": (NOTHING, lambda *_: {"content": [RESOURCE]}, None),
    "test_multiple_content_types": (NOTHING, lambda *_: {"content": [
        {"type": "text", "text": "Multiple content types test:"}, IMAGE, MIXED]}, None),
    "test_tool_with_logging": (NOTHING, log_thrice, None),
    "test_tool_with_progress": (NOTHING, progress, None),
    "test_error_handling": (NOTHING, fail, None),
    "test_reconnection": (NOTHING, lambda *_: text("Reconnected."), None),
    "test_sampling": ({"type": "object", "required": ["prompt"],
                       "properties": {"prompt": {"type": "string"}}}, sample, None),
    "test_elicitation": ({"type": "object", "required": ["message"],
                          "properties": {"message": {"type": "string"}}},
                         lambda a, _: elicit(a["message"], USER, "User response"), None),
    "test_elicitation_sep1034_defaults": (
        NOTHING, lambda *_: elicit("Defaults", DEFAULTS, "Elicitation completed"), None),
    "test_elicitation_sep1330_enums": (
        NOTHING, lambda *_: elicit("Enums", ENUMS, "Elicitation completed"), None),
    "json_schema_2020_12_tool": (SCHEMA_2020, lambda *_: text("It fits."), None),
    "hang": (NOTHING, hang, {"destructiveHint": True}),
    "open_page": (NOTHING, open_page, None),
    "folders": (NOTHING, folders, None),
    "cancelled": (NOTHING, lambda *_: text(str(len(cancelled))), None),
    "touch": ({"type": "object", "properties": {"uri": {"type": "string"}}}, touch, None),
    "sleep": ({"type": "object", "required": ["ms"], "properties": {"ms": {"type": "integer"}}},
              sleep, None),
}


if MODERN:
    TOOLS.update({name: (NOTHING, None, None) for name in ASKING})
    TOOLS["test_logging_tool"] = TOOLS["test_tool_with_logging"]
    TOOLS["test_custom_header"] = ({"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "zone": {"type": "integer", "x-mcp-header": "Zone"}}}, lambda a, _: text(json.dumps(a)), None)


def describe(name):
    schema, _, annotations = TOOLS[name]
    more = {"annotations": annotations} if annotations else {}
    return {"name": name, "description": f"Does {name}.", "inputSchema": schema, **more}


RESOURCES = {
    "test://static-text": {"mimeType": "text/plain",
                           "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": PNG},
    "test://watched-resource": {"mimeType": "text/plain", "text": "Watched."},
}


def read(uri):
    if uri in RESOURCES:
        return {"contents": [{"uri": uri, **RESOURCES[uri]}]}
    if uri.startswith("test://template/") and uri.endswith("/data"):
        name = uri.split("/")[3]
        data = {"id": name, "templateTest": True, "data": f"Data for ID: {name}"}
        return {"contents": [{"uri": uri, "mimeType": "application/json",
                              "text": json.dumps(data)}]}
    raise LookupError(uri)


def messages(*contents):
    return {"messages": [{"role": "user", "content": content} for content in contents]}


def say_text(words):
    return {"type": "text", "text": words}


PROMPTS = {
    "test_simple_prompt": ([], lambda _: messages(
        say_text("This is a simple prompt for testing."))),
    "test_prompt_with_arguments": (["arg1", "arg2"], lambda a: messages(
        say_text(f"Prompt with arguments: arg1='{a['arg1']}', arg2='{a['arg2']}'"))),
    "test_prompt_with_embedded_resource": (["resourceUri"], lambda a: messages(
        {"type": "resource", "resource": {"uri": a["resourceUri"], "mimeType": "text/plain",
                                          "text": "Embedded resource content for testing."}},
        say_text("Please process the embedded resource above."))),
    "test_prompt_with_image": ([], lambda _: messages(
        IMAGE, say_text("Please analyze the image above."))),
}


def list_prompts():
    return [{"name": name, "description": f"Is {name}.", "arguments": [
        {"name": argument, "required": True} for argument in arguments]}
        for name, (arguments, _) in PROMPTS.items()]


ASKING_PROMPTS = [{"name": "test_input_required_result_prompt",
                   "description": "Asks for its context."}] if MODERN else []


def get_prompt(params):
    if MODERN and params["name"] == "test_input_required_result_prompt":
        return ask_context(params)
    return PROMPTS[params["name"]][1](params.get("arguments", {}))


CAPABILITIES = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}, "completions": {},
                "logging": {}}
METHODS = {
    "ping": lambda _: {},
    "initialize": lambda _: {
        "protocolVersion": "2025-11-25", "serverInfo": {"name": "reference", "version": "1"},
        "capabilities": CAPABILITIES},
    "server/discover": lambda _: {"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES},
    "logging/setLevel": lambda _: {},
    "tools/list": lambda _: {"tools": [describe(name) for name in TOOLS]},
    "resources/list": lambda _: {"resources": [
        {"uri": uri, "name": uri.split("/")[-1], "mimeType": item["mimeType"]}
        for uri, item in RESOURCES.items()]},
    "resources/templates/list": lambda _: {"resourceTemplates": [
        {"uriTemplate": "test://template/{id}/data", "name": "template"}]},
    "resources/read": lambda params: read(params["uri"]),
    "resources/subscribe": lambda params: subscribed.add(params["uri"]) or {},
    "resources/unsubscribe": lambda params: subscribed.discard(params["uri"]) or {},
    "prompts/list": lambda _: {"prompts": list_prompts() + ASKING_PROMPTS},
    "prompts/get": get_prompt,
    "completion/complete": lambda _: {"completion": {"values": ["paris", "park"], "total": 2,
                                                     "hasMore": False}},
}


def complete(result):
    """What every result of a modern server has."""
    return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result} if MODERN else result


def call(message):
    params = message["params"]
    about = {"id": message["id"], "token": params.get("_meta", {}).get("progressToken")}
    try:
        asks = ASKING.get(params["name"])
        function = TOOLS[params["name"]][1]
        result = asks(params) if function is None else function(params.get("arguments", {}), about)
    except KeyError:
        result = text(f"Unknown tool: {params['name']}", isError=True)
    except RuntimeError as error:
        result = text(str(error), isError=True)
    if result is not None and "code" in result:
        say({"id": message["id"], "error": result})
    elif result is not None:
        say({"id": message["id"], "result": complete(result)})


def answer(message):
    method = METHODS.get(message["method"])
    if message["method"] == ("initialize" if MODERN else "server/discover"):
        method = None
    try:
        if method is None:
            say({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
        else:
            say({"id": message["id"], "result": complete(method(message.get("params", {})))})
    except LookupError as error:
        say({"id": message["id"], "error": {"code": -32002, "message": "Resource not found",
                                            "data": {"uri": error.args[0]}}})


for line in sys.stdin:
    message = json.loads(line)
    if "method" not in message:
        with answered:
            answers[message["id"]] = message
            answered.notify_all()
    elif message["method"] == "notifications/cancelled":
        with cancels:
            cancelled.add(message["params"]["requestId"])
            cancels.notify_all()
    elif message["method"] == "tools/call":
        threading.Thread(target=call, args=(message,), daemon=True).start()
    elif "id" in message and message["method"] != "subscriptions/listen":
        answer(message)
