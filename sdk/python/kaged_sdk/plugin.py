"""What an author writes against: a name, a version, and handlers."""
from __future__ import annotations

import os
import re
import signal
import sys
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence, TypeVar

from .connection import Connection, HostGone
from .log import Log
from .storage import Storage
from .wire import API_VERSION

HOOKS = ("on_session_start", "on_session_idle", "pre_compact", "post_compact")

Function = TypeVar("Function", bound=Callable[..., Any])

_METHOD = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*){1,3}\Z")
_TOOL = re.compile(r"[a-z][a-z0-9_]*\Z")
_READ_BYTES = 65536


class Plugin:
    """A handler is `def handler(params, ctx)` or `async def`; what it returns is the answer.

    Plain functions run on threads, several at the same time. `name` and `version` are the
    manifest's; `capabilities` are those in use, among the manifest's.
    """

    def __init__(self, name: str, version: str, *, capabilities: Sequence[str] = (),
                 notifications: Sequence[str] = (), log: Optional[Log] = None) -> None:
        self.name = name
        self.version = version
        self.capabilities = list(capabilities)
        self.notifications = list(notifications)
        self.storage_available = False
        self.log = log or Log()
        self.storage = Storage(self._ask, self._ask_async)
        self._methods: List[str] = []
        self._handlers: Dict[str, Callable[..., Any]] = {}
        self._config_handlers: List[Callable[..., Any]] = []
        self._activated_handlers: List[Callable[..., Any]] = []
        self._deactivated_handlers: List[Callable[..., Any]] = []
        self._start_handlers: List[Callable[..., Any]] = []
        self._shutdown_handlers: List[Callable[..., Any]] = []
        self._config: Dict[str, Any] = {}
        self._projects: Dict[str, Dict[str, Any]] = {}
        self._connection: Optional[Connection] = None

    # -- handlers

    def method(self, name: str) -> Callable[[Function], Function]:
        """A method of the manifest."""
        if not _METHOD.match(name) or name.startswith(("kaged.", "system.")):
            raise ValueError(f"{name!r} cannot be the name of a method")
        self._methods.append(name)
        return self._register(name)

    def tool(self, name: str) -> Callable[[Function], Function]:
        """A tool of the manifest, by its short name."""
        if not _TOOL.match(name):
            raise ValueError(f"{name!r} cannot be the name of a tool")
        return self._register(f"{self.name}.{name}")

    def hook(self, name: str) -> Callable[[Function], Function]:
        """A hook of the manifest: one of HOOKS."""
        if name not in HOOKS:
            raise ValueError(f"{name!r} is not a hook; there are {', '.join(HOOKS)}")
        return self._register(f"kaged.hook.{name}")

    def on_config(self, handler: Function) -> Function:
        """handler(config) sees each new configuration first; a PluginError refuses it."""
        self._config_handlers.append(handler)
        return handler

    def on_activated(self, handler: Function) -> Function:
        """handler(project, config)"""
        self._activated_handlers.append(handler)
        return handler

    def on_deactivated(self, handler: Function) -> Function:
        """handler(project)"""
        self._deactivated_handlers.append(handler)
        return handler

    def on_start(self, handler: Function) -> Function:
        """handler(), after the handshake and before the first call: storage can be used."""
        self._start_handlers.append(handler)
        return handler

    def on_shutdown(self, handler: Function) -> Function:
        """handler(), last of all: the host no longer answers."""
        self._shutdown_handlers.append(handler)
        return handler

    def _register(self, method: str) -> Callable[[Function], Function]:
        if method in self._handlers:
            raise ValueError(f"{method} has a handler already")

        def keep(handler: Function) -> Function:
            self._handlers[method] = handler
            return handler
        return keep

    # -- what handlers use

    @property
    def config(self) -> Dict[str, Any]:
        """What the daemon told last; a call's own is ctx.config."""
        return self._config

    @property
    def projects(self) -> Dict[str, Dict[str, Any]]:
        """The active projects, and what the daemon told of each one's configuration."""
        return dict(self._projects)

    def notify(self, name: str, params: Optional[Dict[str, Any]] = None) -> None:
        """Sends a notification of the manifest."""
        self._connected().notify(name, params or {})

    def _connected(self) -> Connection:
        if self._connection is None:
            raise HostGone("the plugin does not run")
        return self._connection

    def _ask(self, method: str, params: Dict[str, Any]) -> Any:
        return self._connected().ask(method, params)

    async def _ask_async(self, method: str, params: Dict[str, Any]) -> Any:
        return await self._connected().ask_async(method, params)

    def _introduction(self) -> Dict[str, Any]:
        return {"name": self.name, "version": self.version, "api_version": API_VERSION,
                "methods": self._methods, "notifications": self.notifications,
                "capabilities_used": self.capabilities}

    # -- life

    def connect(self, read: Callable[[], bytes], write: Callable[[bytes], None]) -> Connection:
        """For hosts other than stdin and stdout; `read` gives b"" at the end."""
        self._connection = Connection(self, read, write)
        return self._connection

    def run(self) -> None:
        """Speaks with the daemon on stdin and stdout until it says shutdown, then returns."""
        source, sink = _take_stdio()

        def write(line: bytes) -> None:
            view = memoryview(line)
            while view:
                view = view[os.write(sink, view):]
        connection = self.connect(lambda: os.read(source, _READ_BYTES), write)

        def on_term(*_: Any) -> None:  # not here: whoever was interrupted may hold the locks
            threading.Thread(target=connection.begin_end, daemon=True).start()
        signal.signal(signal.SIGTERM, on_term)
        connection.serve()
        sys.stdout.flush()


def _take_stdio() -> "tuple[int, int]":
    """Moves the daemon's pipes away, so that no print and no child process can touch them."""
    source, sink = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)
    return source, sink
