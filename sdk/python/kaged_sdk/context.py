"""Who calls, and with which configuration: what comes with a call beside its params."""
from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from .errors import InvalidParams

if TYPE_CHECKING:
    from .log import Log
    from .plugin import Plugin
    from .storage import Storage

MEMBERS = ("operator_id", "project_id", "agent_path", "session_id", "request_id", "project_root")


@dataclass(frozen=True)
class Context:
    """project_id, agent_path and session_id are all set, or all None.

    config is the effective configuration of the caller; project_root is there only where the plugin
    runs once for each project. cancelled is set when who called has left: the work may end, and the
    call is answered all the same.
    """

    operator_id: Optional[str] = None
    project_id: Optional[str] = None
    agent_path: Optional[str] = None
    session_id: Optional[str] = None
    request_id: Optional[str] = None
    project_root: Optional[str] = None
    config: Dict[str, Any] = field(default_factory=dict)
    plugin: Optional[Plugin] = field(default=None, repr=False, compare=False)
    cancelled: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)
    call_id: Any = field(default=None, repr=False, compare=False)

    def progress(self, progress: float, total: Optional[float] = None,
                 message: Optional[str] = None) -> None:
        """Tells who called how far it is; the figure does not fall."""
        told: Dict[str, Any] = {"id": self.call_id, "progress": progress}
        if total is not None:
            told["total"] = total
        if message is not None:
            told["message"] = message
        if self.call_id is not None and self.plugin is not None:
            self.plugin.notify("kaged.progress", told)

    def ask(self, title: str, schema: Optional[Dict[str, Any]] = None,
            url: Optional[str] = None) -> Dict[str, Any]:
        """Asks the person of the session; needs kaged:ask. What is answered has an "action", accept,
        decline or cancel, and to accept a form its "content", which fits the schema. With a url the
        person is asked to open that page."""
        assert self.plugin is not None
        return self.plugin._ask("kaged.ask", _question(title, schema, url))

    async def ask_async(self, title: str, schema: Optional[Dict[str, Any]] = None,
                        url: Optional[str] = None) -> Dict[str, Any]:
        """The same, to be awaited."""
        assert self.plugin is not None
        return await self.plugin._ask_async("kaged.ask", _question(title, schema, url))

    def sample(self, params: Dict[str, Any]) -> Dict[str, Any]:
        """Asks the model of the session; needs kaged:sample. Params and result are those of MCP's
        sampling/createMessage: messages, systemPrompt, maxTokens."""
        assert self.plugin is not None
        return self.plugin._ask("kaged.sample", params)

    async def sample_async(self, params: Dict[str, Any]) -> Dict[str, Any]:
        """The same, to be awaited."""
        assert self.plugin is not None
        return await self.plugin._ask_async("kaged.sample", params)

    @property
    def storage(self) -> Storage:
        assert self.plugin is not None
        return self.plugin.storage

    @property
    def log(self) -> Log:
        assert self.plugin is not None
        return self.plugin.log


def _question(title: str, schema: Optional[Dict[str, Any]],
              url: Optional[str]) -> Dict[str, Any]:
    asked: Dict[str, Any] = {"title": title}
    if schema is not None:
        asked["schema"] = schema
    if url is not None:
        asked["url"] = url
    return asked


def split(params: Any, config: Dict[str, Any], plugin: Plugin) -> Tuple[Dict[str, Any], Context]:
    """The author's params, and the context that the daemon put beside them."""
    if not isinstance(params, dict):
        raise InvalidParams("params is not an object")
    rest = {key: value for key, value in params.items() if key not in ("_context", "_config")}
    context, own = params.get("_context", {}), params.get("_config", config)
    if not isinstance(context, dict):
        raise InvalidParams("_context is not an object")
    if not isinstance(own, dict):
        raise InvalidParams("_config is not an object")
    known = {name: context.get(name) for name in MEMBERS}
    for name, value in known.items():
        if value is not None and not isinstance(value, str):
            raise InvalidParams(f"_context.{name} is neither a string nor null")
    return rest, Context(config=own, plugin=plugin, **known)
