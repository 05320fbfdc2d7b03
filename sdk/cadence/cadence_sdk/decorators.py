"""Settings of a package, declared at its class."""
from typing import Any, Callable, Dict, List

TYPES = {"str": str, "int": int, "float": (int, float), "bool": bool, "list": list, "dict": dict}


def check_setting(item: Any, seen: set) -> Dict[str, Any]:
    """A copy of it with its name filled in, or a ValueError that says which one is wrong, and how."""
    if not isinstance(item, dict):
        raise ValueError(f"a setting is a dict, not {type(item).__name__}")
    for member in ("key", "type", "description"):
        if not isinstance(item.get(member), str) or not item[member]:
            raise ValueError(f"setting {item.get('key', '?')!r}: {member} is missing or not a string")
    key, kind = item["key"], item["type"]
    if key in seen:
        raise ValueError(f"setting {key!r} is declared twice")
    if kind not in TYPES:
        raise ValueError(f"setting {key!r}: type {kind!r} is none of {', '.join(TYPES)}")
    for flag in ("required", "sensitive"):
        if not isinstance(item.get(flag, False), bool):
            raise ValueError(f"setting {key!r}: {flag} is not a bool")
    default = item.get("default")
    if default is not None and not isinstance(default, TYPES[kind]):
        raise ValueError(f"setting {key!r}: its default is of the type {type(default).__name__}, "
                         f"its type says {kind}")
    seen.add(key)
    return {**item, "name": item.get("name") or key}


def plugin_settings(settings: List[Dict[str, Any]]) -> Callable[[type], type]:
    """@plugin_settings([{"key": ..., "type": ..., "description": ...}, ...]) above a plugin class."""
    if not isinstance(settings, list):
        raise ValueError("plugin_settings takes a list of dicts")
    seen: set = set()
    declared = [check_setting(item, seen) for item in settings]

    def decorate(plugin: type) -> type:
        own = plugin.get_settings_schema

        def get_settings_schema() -> List[Dict[str, Any]]:
            return [dict(item) for item in declared] + list(own() or [])

        plugin.get_settings_schema = staticmethod(get_settings_schema)
        return plugin

    return decorate
