#!/usr/bin/env python3
"""Uses all that a plugin can have; prints to stdout, which the SDK has to keep from the wire."""
from kaged_sdk import ConfigInvalid, InvalidParams, Plugin, compactor_result

plugin = Plugin("whole", "1.0.0", notifications=["whole.noted"])


def is_integer(value):
    return type(value) is int


@plugin.on_start
def create_table():
    if plugin.storage_available:
        plugin.storage.exec("CREATE TABLE IF NOT EXISTS notes (text TEXT)")


@plugin.method("whole.add")
def add(params, ctx):
    if set(params) != {"a", "b"} or not all(is_integer(value) for value in params.values()):
        raise InvalidParams("a and b are two integers")
    return {"sum": params["a"] + params["b"]}


@plugin.method("whole.note")
def note(params, ctx):
    print("a note")
    if plugin.storage_available:
        ctx.storage.exec("INSERT INTO notes VALUES ('x')")
    ctx.progress(1, 2)
    plugin.notify("whole.noted", {})
    return {"noted": True}


@plugin.tool("find")
def find(params, ctx):
    if set(params) != {"text"} or not isinstance(params["text"], str) or not params["text"]:
        raise InvalidParams("text is a string")
    return {"found": []}


@plugin.tool("all")
def find_all(params, ctx):
    return {"found": []}


@plugin.hook("on_session_start")
def on_session_start(params, ctx):
    return {"inject": "hello"}


@plugin.hook("on_session_idle")
def on_session_idle(params, ctx):
    return None


@plugin.hook("pre_compact")
def pre_compact(params, ctx):
    if params["role"] != "compactor":
        return {"retain": ["something"]}
    gone = [message["id"] for message in params["messages_being_compacted"]]
    return compactor_result(params["messages_remaining"], gone, "gone")


@plugin.hook("post_compact")
def post_compact(params, ctx):
    return {"inject": "after it"}


@plugin.on_config
def on_config(config):
    if not is_integer(config.get("limit")):
        raise ConfigInvalid("limit is an integer")


plugin.run()
