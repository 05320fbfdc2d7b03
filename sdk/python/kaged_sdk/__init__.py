"""Write kaged plugins in Python.

    from kaged_sdk import Plugin

    plugin = Plugin("hello", "1.0.0")

    @plugin.method("hello.greet")
    def greet(params, ctx):
        return {"text": f"hello {params.get('name', 'you')}"}

    if __name__ == "__main__":
        plugin.run()
"""
from .connection import HostGone
from .context import Context
from .errors import (CAPABILITY_DENIED, CONFIG_INVALID, INTERNAL, INVALID_PARAMS, NOT_APPLICABLE,
                     NOT_INITIALIZED, PLUGIN_ERROR, RESOURCE_BUSY, STORAGE_DENIED, ConfigInvalid,
                     InvalidParams, PluginError)
from .hooks import CompactorResult, HookResult, Message, compactor_result
from .log import Log
from .plugin import HOOKS, Plugin
from .storage import AsyncStorage, ExecResult, QueryResult, Statement, Storage, blob, unblob
from .wire import API_VERSION, LINE_MAX

__version__ = "0.1.0"

__all__ = [
    "API_VERSION", "AsyncStorage", "CAPABILITY_DENIED", "CONFIG_INVALID", "CompactorResult",
    "ConfigInvalid", "Context", "ExecResult", "HOOKS", "HookResult", "HostGone", "INTERNAL",
    "INVALID_PARAMS", "InvalidParams", "LINE_MAX", "Log", "Message", "NOT_APPLICABLE",
    "NOT_INITIALIZED", "PLUGIN_ERROR", "Plugin", "PluginError", "QueryResult", "RESOURCE_BUSY",
    "STORAGE_DENIED", "Statement", "Storage", "blob", "compactor_result", "unblob",
]
