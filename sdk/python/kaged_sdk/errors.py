"""Errors that an answer carries to the caller, and their codes."""
from __future__ import annotations

from typing import Any, Optional

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL = -32603
PLUGIN_ERROR = -32000
CAPABILITY_DENIED = -32001
NOT_INITIALIZED = -32002
STORAGE_DENIED = -32003
CONFIG_INVALID = -32004
RESOURCE_BUSY = -32005
NOT_APPLICABLE = -32006

# What the message of an error that the SDK makes starts with; the same in all SDKs.
WORDS = {
    PARSE_ERROR: "parse error",
    INVALID_REQUEST: "invalid request",
    METHOD_NOT_FOUND: "method not found",
    INVALID_PARAMS: "invalid params",
    INTERNAL: "internal error",
    NOT_INITIALIZED: "not initialized",
}


def words(code: int, detail: str = "") -> str:
    return f"{WORDS[code]}: {detail}" if detail else WORDS[code]


class PluginError(Exception):
    """An answer that is an error, in the plugin's own words.

    Codes from -32099 to -32000 are the plugin's. Without one it is -32000, and -32004 where a
    configuration is refused.
    """

    def __init__(self, message: str, code: Optional[int] = None, data: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.data = data


class InvalidParams(PluginError):
    """The params do not fit the method."""

    def __init__(self, detail: str, data: Any = None) -> None:
        super().__init__(words(INVALID_PARAMS, detail), INVALID_PARAMS, data)


class ConfigInvalid(PluginError):
    """The configuration cannot be used; the operator reads the message."""

    def __init__(self, message: str, data: Any = None) -> None:
        super().__init__(message, CONFIG_INVALID, data)
