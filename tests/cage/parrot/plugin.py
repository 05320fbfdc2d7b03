#!/usr/bin/env python3
"""A child that speaks the dialect of parrot.c. Its name says how it takes the first greeting: mute says
nothing to it, rude refuses it, liar gives a false name. It does one thing at a time, and while it waits for
an answer it hears nothing else."""
import json
import os
import sys

NAME = os.environ["KAGED_PLUGIN_NAME"]
PAGES = {"first": (["say.again", "say.who", "say.ids", "say.slowly"], "a \u2603"),
         "a \u2603": ([], "last"),
         "last": (["say.nothing", "say.pieces", "say.steps", "say.stray", "say.error"], None)}
FOR_EVER = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
later = []  # what came while something else was waited for


def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def read():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return line


def ask(raw_id, method, params):
    """The line of the answer, whatever else comes before it."""
    print(f'{{"jsonrpc":"2.0","id":{raw_id},"method":"{method}","params":{json.dumps(params)}}}', flush=True)
    while True:
        line = read()
        if "method" not in json.loads(line):
            return line
        later.append(line)


def page(params):
    items, following = PAGES[params.get("from", "first")]
    return {"words": [{"word": item} for item in items], **({"then": following} if following else {})}


def do(number, params):
    """What to say to it, or None: nothing yet."""
    what, given, token = params["what"], params["with"], params["token"]
    if what == "say.again":
        return {"said": given}
    if what == "say.who":
        return {"said": params["for"]}
    if what == "say.ids":
        return {"said": [ask(text, "bird/ping", {}).strip() for text in given["ids"]]}
    if what == "say.slowly":
        return {"said": json.loads(ask('"db-1"', "bird/find", {"sql": FOR_EVER}))["error"]["code"]}
    if what == "say.pieces":
        for part in range(3):
            say(method="bird/progress", params={"token": token, "part": part})
        return {"said": "done"}
    if what == "say.stray":
        say(method="bird/progress", params={"token": token + 1000})
        return {"said": "strayed"}
    if what == "say.steps":
        return {"more": "one"}
    if what == "say.error":
        return {"squawk": "it is broken"}
    return None


def on_message(message):
    method, params, number = message["method"], message.get("params", {}), message.get("id")
    if method == "bird/wake" and NAME == "mute":
        return
    if method == "bird/wake":
        say(id=number, error={"code": -32601, "message": "who wakes me?"})
    elif method == "bird/hello":
        say(id=number, result={"name": "somebody" if NAME == "liar" else NAME})
    elif method == "bird/words":
        say(id=number, result=page(params))
    elif method == "bird/there":
        say(id=number, result="yes")
    elif method == "bird/more":
        said = params["after"] + "+"
        say(id=number, result={"more": said} if len(said) < 6 else {"said": said})
    elif method == "bird/never-mind":
        say(method="bird/stopped", params={"call": params["call"]})
        say(id=params["call"], result={"said": "too late"})
    elif method == "bird/do":
        result = do(number, params)
        if result is not None:
            say(id=number, result=result)


print("good morning", flush=True)
while True:
    on_message(json.loads(later.pop(0) if later else read()))
