"""What packages of the catalog are written against: `from cadence_sdk import ...`.

Code of our own, compatible with version 2 of the public package of that name: a package written for
that one runs here unmodified. kaged puts it on the path; nobody has to install it.
"""
__version__ = "2.1.0"

from .base import (BaseAgent, BasePlugin, BaseScopedAgent, BaseSpecializedAgent, Loggable,
                   PluginMetadata)
from .decorators import plugin_settings
from .exceptions import CadenceException
from .types import (StreamFilter, ToolCall, UvAIMessage, UvHumanMessage, UvMessage, UvState,
                    UvSystemMessage, UvTool, UvToolMessage, uvtool)
from .utils import check_dependency_installed

__all__ = [
    "BaseAgent", "BasePlugin", "BaseScopedAgent", "BaseSpecializedAgent", "CadenceException",
    "Loggable", "PluginMetadata", "StreamFilter", "ToolCall", "UvAIMessage", "UvHumanMessage",
    "UvMessage", "UvState", "UvSystemMessage", "UvTool", "UvToolMessage", "__version__",
    "check_dependency_installed", "plugin_settings", "uvtool",
]
