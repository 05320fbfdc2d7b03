#!/usr/bin/env python3
"""The files of a project for an agent, and programs that the operator lets it run.

kaged_sdk lies beside this file. The project's folder comes with each call, and the cage has no other.
"""
import os
import shutil
import signal
import subprocess

from kaged_sdk import InvalidParams, Plugin, PluginError

import files

DEFAULTS = {"programs": ["git"], "run_timeout_sec": 120, "output_chars": 20_000}
plugin = Plugin("workspace", "0.1.0", capabilities=["write:fs:project:/", "exec:git:project:/"])


def root_of(ctx):
    root = ctx.project_root or os.environ.get("KAGED_PROJECT_ROOT")
    if not root:
        raise PluginError("there is no project here: workspace works in a session of a project")
    return root


def settings_of(ctx):
    return {**DEFAULTS, **ctx.config}


@plugin.tool("read")
def read(params, ctx):
    return files.read(root_of(ctx), params["path"], params.get("from_line", 1),
                      params.get("lines", 400))


@plugin.tool("list")
def list_files(params, ctx):
    return files.listing(root_of(ctx), params.get("path"), params.get("depth", 2))


@plugin.tool("search")
def search(params, ctx):
    return files.search(root_of(ctx), params["pattern"], params.get("regex", False),
                        params.get("path"), params.get("glob"))


@plugin.tool("edit")
def edit(params, ctx):
    return files.edit(root_of(ctx), params["path"], params["old"], params["new"])


def find_program(name, settings):
    allowed = settings["programs"]
    if name not in allowed:
        raise InvalidParams(f"{name} is not among the programs that may be run: {', '.join(allowed)}")
    found = shutil.which(name)
    if found is None:
        raise PluginError(f"{name} is not in the cage: the operator lets it in with "
                          f"kaged plugin grant {os.environ['KAGED_PLUGIN_NAME']} exec:{name}:project:/")
    return found


def tail(text, most):
    return text if len(text) <= most else f"[{len(text) - most} characters before]\n{text[-most:]}"


def finish(process, seconds):
    """(what it printed, whether it had to be ended)"""
    try:
        return process.communicate(timeout=seconds)[0], False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0], True


@plugin.tool("run")
def run(params, ctx):
    settings, root = settings_of(ctx), root_of(ctx)
    program = find_program(params["program"], settings)
    folder = files.place(root, params.get("folder"))
    try:
        process = subprocess.Popen(
            [program, *params.get("arguments", [])], cwd=folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, text=True,
            errors="replace", env={**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat"})
    except (OSError, ValueError) as error:
        raise PluginError(f"run {params['program']}: {error}") from None
    output, ended = finish(process, settings["run_timeout_sec"])
    result = {"exit_code": process.returncode, "output": tail(output, settings["output_chars"])}
    if ended:
        result["note"] = f"it was ended after {settings['run_timeout_sec']} seconds"
    return result


if __name__ == "__main__":
    plugin.run()
