#!/usr/bin/env python3
from kaged_sdk import Plugin

plugin = Plugin("empty-python", "1.0.0")


@plugin.method("empty.call")
def empty(params, ctx):
    return None


plugin.run()
