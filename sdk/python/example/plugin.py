#!/usr/bin/env python3
"""A whole plugin in Python: it greets, and remembers whom in its storage.

kaged_sdk is copied beside this file.
"""
from kaged_sdk import ConfigInvalid, InvalidParams, Plugin

plugin = Plugin("greeter", "1.0.0", capabilities=["kaged:storage:write"])


@plugin.on_start
def create_table():
    plugin.storage.exec("CREATE TABLE IF NOT EXISTS greeted (name TEXT PRIMARY KEY, times INT)")


@plugin.method("greeting.say")
def say(params, ctx):
    name = params.get("name")
    if not isinstance(name, str):
        raise InvalidParams("name must be a string")
    ctx.storage.exec("INSERT INTO greeted VALUES (?, 1) "
                     "ON CONFLICT DO UPDATE SET times = times + 1", [name])
    return {"text": f"{ctx.config.get('word', 'Hello')}, {name}!"}


@plugin.tool("known")
async def known(params, ctx):
    found = await ctx.storage.aio.query("SELECT name, times FROM greeted ORDER BY name")
    return {"people": found["rows"]}


@plugin.hook("on_session_start")
def welcome(params, ctx):
    return {"inject": f"This is the project {ctx.project_id}."}


@plugin.on_config
def check_config(config):
    if config.get("word") == "":
        raise ConfigInvalid("word must not be empty", {"field": "word"})


if __name__ == "__main__":
    plugin.run()
