#!/usr/bin/env python3
"""The models of an Ollama server: which there are, what one is, and pulling another.

kaged_sdk lies beside this file.
"""
import asyncio
import re
from types import SimpleNamespace

from kaged_sdk import InvalidParams, Plugin, PluginError

from api import ask, integer, text
from pulls import Pulls

MODELS_MAX = 500
INFO_MAX = 100
MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}\Z")  # [HOST/][NAMESPACE/]NAME[:TAG]
WORDS = {"parameters": 4000, "template": 8000, "system": 4000, "license": 500}  # and their length
DETAILS = ("format", "family", "parameter_size", "quantization_level")
DEFAULTS = {"host": "localhost", "port": 11434, "request_timeout_sec": 15, "pull_silence_sec": 300,
            "pull_wait_sec": 3540, "pulls_max": 2, "progress_interval_ms": 1000}

# Which host and port are used is a setting: the manifest says what may be reached, and the cage
# sees to it.
plugin = Plugin("ollama", "0.1.0", notifications=["models.progress"])
pulls = Pulls(lambda view: plugin.notify("models.progress", view))


def settings_of(ctx):
    return SimpleNamespace(**{**DEFAULTS, **ctx.config})


def model_of(params):
    model = params.get("model")
    if not isinstance(model, str) or not MODEL.match(model):
        raise InvalidParams("model must be a name as Ollama has them, such as llama3.2:1b")
    return model


def details_of(value):
    details = value.get("details")
    if not isinstance(details, dict):
        return {}
    return {key: text(details[key], 100) for key in DETAILS if details.get(key)}


def model_view(model):
    return {"name": text(model.get("name"), 300), "size": integer(model.get("size")),
            "digest": text(model.get("digest"), 100),
            "modified_at": text(model.get("modified_at"), 50), **details_of(model)}


@plugin.method("models.list")
@plugin.tool("list")
def list_models(params, ctx):
    answer = ask(settings_of(ctx), "list the models", "GET", "/api/tags")
    found = answer.get("models")
    found = found if isinstance(found, list) else []
    models = [model for model in found if isinstance(model, dict)]
    result = {"models": [model_view(model) for model in models[:MODELS_MAX]]}
    if len(models) > MODELS_MAX:
        result["left_out"] = len(models) - MODELS_MAX
    return result


def info_of(answer):
    """The figures of a model; lists, such as its vocabulary, are left out."""
    info = answer.get("model_info")
    plain = [(text(key, 100), value) for key, value in info.items()
             if isinstance(value, (str, int))] if isinstance(info, dict) else []
    return {key: text(value, 200) if isinstance(value, str) else value
            for key, value in sorted(plain)[:INFO_MAX]}


@plugin.method("models.show")
@plugin.tool("show")
def show_model(params, ctx):
    model = model_of(params)
    answer = ask(settings_of(ctx), f"show {model}", "POST", "/api/show", {"model": model})
    capabilities = answer.get("capabilities")
    return {"name": model, **details_of(answer),
            "capabilities": [text(one, 50) for one in capabilities[:50]]
            if isinstance(capabilities, list) else [],
            "info": info_of(answer),
            **{key: text(answer[key], most) for key, most in WORDS.items() if answer.get(key)}}


@plugin.method("models.pull")
async def pull_model(params, ctx):
    settings = settings_of(ctx)
    wait = params.get("wait", True)
    if not isinstance(wait, bool):
        raise InvalidParams("wait must be true or false")
    pull = pulls.start(settings, model_of(params))
    if wait:
        await asyncio.wait([asyncio.wrap_future(pull.ended)], timeout=settings.pull_wait_sec)
    if pull.error is not None:
        raise pull.error
    return pull.view()


@plugin.method("models.pulls")
def list_pulls(params, ctx):
    return {"pulls": pulls.views()}


@plugin.method("models.cancel")
async def cancel_pull(params, ctx):
    settings, model = settings_of(ctx), model_of(params)
    pull = pulls.find(settings, model)
    if pull is None:
        raise PluginError(f"cancel {model}: no pull of it runs; models.pulls shows those that do")
    pull.cancel()
    await asyncio.wait([asyncio.wrap_future(pull.ended)], timeout=settings.request_timeout_sec)
    return pull.view()


@plugin.on_shutdown
def stop_pulls():
    pulls.cancel_all()


if __name__ == "__main__":
    plugin.run()
