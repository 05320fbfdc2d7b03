"""What a package is, as one JSON document: {"package": {...}}, or {"error": {"stage", "message"}}.

The daemon believes none of it, and checks it against a schema of its own; what is checked here is what
its author can be told in words.
"""
import base64
import json
import os
import re

import cadence_sdk
from cadence_sdk import BaseAgent, BaseScopedAgent, BaseSpecializedAgent
from cadence_sdk.decorators import check_setting

from . import dependencies, package, tools
from .package import Refused, ask, words_of

DOCUMENT_MAX = 3 << 20
TEXT_MAX = 10000
PROMPT_MAX = 200000
SETTINGS_MAX = 200
TOOLS_MAX = 256
LOGO_MAX = 512 << 10
LOGOS = {"logo.png": ("image/png", b"\x89PNG\r\n\x1a\n"), "logo.jpg": ("image/jpeg", b"\xff\xd8\xff"),
         "logo.jpeg": ("image/jpeg", b"\xff\xd8\xff"), "logo.webp": ("image/webp", b"RIFF"),
         "logo.gif": ("image/gif", b"GIF8")}
PID = re.compile(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9_-]*[a-z0-9])?)+\Z")
PLACEHOLDERS = {"str": "placeholder", "int": 1, "float": 1.0, "bool": False, "list": [], "dict": {}}


def discover(folder, wheels):
    try:
        document = {"package": _describe(folder, wheels)}
    except Refused as error:
        document = {"error": {"stage": error.stage, "message": error.message[:2000], "missing": error.missing}}
    except BaseException as error:  # of our own making; said in words all the same
        document = {"error": {"stage": "runner", "message": words_of(error)}}
    return _bounded(document)


def _bounded(document):
    data = json.dumps(document, ensure_ascii=True, default=str).encode("ascii")
    if len(data) <= DOCUMENT_MAX:
        return data
    words = f"what it says of itself is {len(data)} bytes; {DOCUMENT_MAX} may be"
    return json.dumps({"error": {"stage": "size", "message": words}}).encode("ascii")


def _describe(folder, wheels):
    warnings = []
    place = package.find(folder)
    package.set_path(place, wheels)
    named = dependencies.of_project_file(place)
    if named is None:
        warnings.append("there is no pyproject.toml")
    else:
        dependencies.check(named, "pyproject.toml")
    plugin = _load(place)
    metadata = _metadata(plugin)
    dependencies.check(metadata["dependencies"], "get_metadata()")
    settings = _settings(plugin)
    agent = ask("create_agent()", plugin.create_agent, stage="agent")
    if not isinstance(agent, BaseAgent):
        raise Refused("agent", f"create_agent() returned {type(agent).__name__}, not a BaseAgent")
    described = {**metadata, "settings_schema": settings, "warnings": warnings,
                 "is_specialized": isinstance(agent, BaseSpecializedAgent),
                 "is_scoped": isinstance(agent, BaseScopedAgent)}
    if not described["is_specialized"] and not described["is_scoped"]:
        raise Refused("agent", "its agent is derived neither from BaseSpecializedAgent nor from "
                      "BaseScopedAgent")
    described["tools"] = _tools(agent, settings)
    if described["is_specialized"]:
        described["system_prompt"] = _prompt(agent)
    logo = _logo(place)
    if logo is not None:
        described["logo"] = logo
    return described


def _load(place):
    """What plugin.py imports may be missing, and named in it."""
    try:
        return package.load(place)
    except Refused as error:
        if error.stage == "dependencies":
            dependencies.check(dependencies.written_in(place), "plugin.py")
        raise


# -- metadata ---------------------------------------------------------------------------------------


def _text(value, what, most=200, stage="metadata"):
    if not isinstance(value, str) or not value.strip():
        raise Refused(stage, f"{what} is empty, or not a string")
    if len(value) > most:
        raise Refused(stage, f"{what} is {len(value)} characters long; {most} may be")
    return value


def _texts(value, what, stage="metadata"):
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise Refused(stage, f"{what} is not a list of strings")
    if len(value) > 100:
        raise Refused(stage, f"{what} has {len(value)} entries; 100 may be")
    return [_text(item, f"an entry of {what}") for item in value]


def _metadata(plugin):
    found = ask("get_metadata()", plugin.get_metadata)
    if not isinstance(found, cadence_sdk.PluginMetadata):
        raise Refused("metadata", f"get_metadata() returned {type(found).__name__}, not PluginMetadata")
    pid = _text(found.pid, "pid").lower()
    if not PID.match(pid):
        raise Refused("metadata", f"pid {pid[:80]!r} is not a reversed domain, such as com.example.search")
    tag = getattr(found, "tag", None) or getattr(plugin, "tag", None)
    if not isinstance(found.stateless, bool):
        raise Refused("metadata", "stateless is not a bool")
    return {"pid": pid, "name": _text(found.name, "name"), "version": _version(found.version),
            "description": _text(found.description, "description", TEXT_MAX),
            "tag": _text(tag, "tag", 64) if tag is not None else None,
            "capabilities": _texts(found.capabilities, "capabilities"),
            "dependencies": _texts(found.dependencies, "dependencies"),
            "sdk_version": _sdk_version(found.sdk_version), "stateless": found.stateless}


def _version(value):
    text = _text(value, "version", 40)
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9}){1,2}", text):
        raise Refused("metadata", f"version {text!r} is not MAJOR.MINOR or MAJOR.MINOR.PATCH, in digits")
    return text


def _sdk_version(value):
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    text = _text(value, "sdk_version", 100)
    try:
        fits = SpecifierSet(text).contains(cadence_sdk.__version__)
    except InvalidSpecifier:
        raise Refused("metadata", f"sdk_version {text!r} is not a range of versions") from None
    if not fits:
        raise Refused("metadata", f"it wants the SDK {text}, and this is {cadence_sdk.__version__}")
    return text


# -- settings ---------------------------------------------------------------------------------------


def _settings(plugin):
    declared = ask("get_settings_schema()", plugin.get_settings_schema, stage="settings") or []
    if not isinstance(declared, (list, tuple)):
        raise Refused("settings", "get_settings_schema() did not return a list")
    if len(declared) > SETTINGS_MAX:
        raise Refused("settings", f"it has {len(declared)} settings; {SETTINGS_MAX} may be")
    seen = set()
    try:
        return [_setting(check_setting(item, seen)) for item in declared]
    except ValueError as error:
        raise Refused("settings", str(error)) from None


def _setting(item):
    default = item.get("default")
    try:
        json.dumps(default, allow_nan=False)
    except (TypeError, ValueError):
        raise Refused("settings", f"setting {item['key']!r}: its default is not JSON") from None
    if isinstance(default, bool) and item["type"] != "bool":
        default = int(default)
    return {"key": _text(item["key"], "a setting's key", 128, "settings"),
            "name": _text(item["name"], "a setting's name", 200, "settings"), "type": item["type"],
            "description": _text(item["description"], "a setting's description", 4000, "settings"),
            "default": default, "required": item.get("required", False),
            "sensitive": item.get("sensitive", False)}


# -- the agent --------------------------------------------------------------------------------------


def _set_up(agent, settings):
    """Some make their tools only then; there is no network, and no secret is known yet."""
    values = {item["key"]: PLACEHOLDERS[item["type"]] if item["default"] is None and item["required"]
              else item["default"] for item in settings}
    agent.initialize(values)


def _tools(agent, settings):
    try:
        listed = agent.get_tools()
    except BaseException:
        ask("initialize()", _set_up, agent, settings, stage="tools")
        listed = ask("get_tools()", agent.get_tools, stage="tools")
    if not isinstance(listed, (list, tuple)):
        raise Refused("tools", "get_tools() did not return a list")
    if len(listed) > TOOLS_MAX:
        raise Refused("tools", f"it has {len(listed)} tools; {TOOLS_MAX} may be")
    seen = set()
    return [_tool(item, seen) for item in listed]


def _tool(item, seen):
    if not isinstance(item, cadence_sdk.UvTool):
        raise Refused("tools", f"get_tools() has {type(item).__name__} in it, not a UvTool")
    name = _text(item.name, "a tool's name", 64, "tools")
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise Refused("tools", f"tool {name!r}: a name has letters, digits, _ and - only")
    if name in seen:
        raise Refused("tools", f"it has two tools called {name!r}")
    seen.add(name)
    try:
        schema = tools.Tool(item).schema()
        json.dumps(schema, allow_nan=False)
    except Exception as error:
        raise Refused("tools", f"tool {name!r}: its arguments have no JSON schema: {words_of(error)}") from None
    return {"name": name, "description": _text(item.description, f"tool {name!r}: its description", 4000, "tools"),
            "parameters": schema, "streams": bool(item.stream_tool), "validates": bool(item.required_validate)}


def _prompt(agent):
    return _text(ask("get_system_prompt()", agent.get_system_prompt, stage="agent"), "its system prompt",
                 PROMPT_MAX, "agent")


def _logo(place):
    for name, (media_type, magic) in LOGOS.items():
        try:
            with open(os.path.join(place, name), "rb") as file:
                data = file.read(LOGO_MAX + 1)
        except OSError:
            continue
        if len(data) > LOGO_MAX:
            raise Refused("logo", f"{name} is larger than {LOGO_MAX >> 10} KiB")
        if not data.startswith(magic):
            raise Refused("logo", f"{name} is not {media_type}")
        return {"media_type": media_type, "base64": base64.b64encode(data).decode("ascii")}
    return None
