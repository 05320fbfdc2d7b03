#!/usr/bin/env python3
"""Greets people by name."""
import os

from mcp_stdio import Server

server = Server("my-plugin", "0.1.0")


@server.tool("Greets somebody by name.", {"name": {"type": "string", "minLength": 1}})
def greet(call, name):
    return f"{os.environ.get('WORD', 'Hello')}, {name}!"


@server.tool("Greets several people, one after the other, and tells how far it is.",
             {"names": {"type": "array", "items": {"type": "string"}}})
def greet_all(call, names):
    greetings = []
    for done, name in enumerate(names, 1):
        if call.cancelled:
            break
        greetings.append(greet(call, str(name)))
        call.progress(done, len(names))
    return "\n".join(greetings)


if __name__ == "__main__":
    server.run()
