"""Finds a package's plugin.py, imports it, and finds its class.

The folder becomes a package of a made-up name, so that `from .data import x` works; it is on the path,
too, so that `import data` does. The package's own __init__.py is not run.
"""
import importlib.util
import os
import sys
import types

PACKAGE = "cadence_package"
WHEELS_MAX = 200


class Refused(Exception):
    """The package cannot be used, for a reason that its author can read."""

    def __init__(self, stage, message):
        super().__init__(message)
        self.stage = stage
        self.message = message


def words_of(error):
    if isinstance(error, MemoryError):  # where no cgroup ends it first
        return "it needs more memory than it may use"
    text = str(error).strip()
    return f"{type(error).__name__}: {text[:600]}" if text else type(error).__name__


def _is_hidden(name):
    return name.startswith(".") or name == "__pycache__"


def find(folder):
    """The folder that has plugin.py: the top one, or one below it."""
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not _is_hidden(name))
        if "plugin.py" in files:
            found.append(place)
    if not found:
        raise Refused("structure", "there is no plugin.py in it")
    if len(found) > 1:
        names = ", ".join(os.path.relpath(os.path.join(place, "plugin.py"), folder)
                          for place in found[:4])
        raise Refused("structure", f"it has {len(found)} files plugin.py, and must have one: {names}")
    if os.path.relpath(found[0], folder).count(os.sep) > 0:
        raise Refused("structure", "plugin.py is not at its top, nor in a folder there")
    return found[0]


def wheels_in(folder):
    """Wheels that can be imported as they are: those without compiled code."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".whl"))
    except OSError:
        return []
    return [os.path.join(folder, name) for name in reversed(names[:WHEELS_MAX])
            if name.endswith("-none-any.whl")]


def set_path(place, wheels):
    sys.path.insert(1, place)  # behind the SDK
    sys.path += wheels_in(os.path.join(place, "wheels"))
    if wheels:
        sys.path += wheels_in(wheels)


def load(place):
    """The plugin class of plugin.py."""
    package = types.ModuleType(PACKAGE)
    package.__path__ = [place]
    sys.modules[PACKAGE] = package
    name = f"{PACKAGE}.plugin"
    spec = importlib.util.spec_from_file_location(name, os.path.join(place, "plugin.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = sys.modules["plugin"] = module
    try:
        spec.loader.exec_module(module)
    except SystemExit:
        raise Refused("import", "plugin.py exits when it is imported") from None
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        if missing and not missing.startswith(PACKAGE):
            raise Refused("dependencies", f"plugin.py imports {missing}, which is not in the Python "
                          "runtime, nor in its wheels/") from error
        raise Refused("import", f"plugin.py cannot be imported: {words_of(error)}") from error
    except BaseException as error:
        raise Refused("import", f"plugin.py cannot be imported: {words_of(error)}") from error
    return find_class(module)


def find_class(module):
    from cadence_sdk import BasePlugin
    for name in sorted(vars(module)):
        value = getattr(module, name, None)
        if isinstance(value, type) and issubclass(value, BasePlugin) and value is not BasePlugin:
            return value
    raise Refused("class", "plugin.py has no class that is derived from BasePlugin")


def ask(what, function, *arguments, stage="metadata"):
    """What code of the package returns; whatever it raises is a refusal."""
    try:
        return function(*arguments)
    except Refused:
        raise
    except BaseException as error:
        raise Refused(stage, f"{what} raised {words_of(error)}") from error
