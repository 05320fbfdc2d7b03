#!/usr/bin/env python3
"""my-plugin: greets people by name. kaged_sdk/ is the SDK; the manifest is kaged-plugin.yaml."""
from kaged_sdk import InvalidParams, Plugin

plugin = Plugin("my-plugin", "0.1.0")


@plugin.tool("greet")
@plugin.method("greeting.say")
def greet(params, ctx):
    name = params.get("name")
    if not isinstance(name, str):
        raise InvalidParams("name must be a string")
    return {"text": f"{ctx.config.get('word', 'Hello')}, {name}!"}


@plugin.hook("on_session_start")
def welcome(params, ctx):
    return {"inject": "The tool my-plugin.greet greets people."}


if __name__ == "__main__":
    plugin.run()
