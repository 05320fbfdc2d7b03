"""One conversation with a host, from the first line to the last.

    reader thread    reads lines; answers at once what needs no code of the author; hands the
                     answers of the host to those who wait; puts the rest into the queue
    serving thread   takes the queue in order: what changes the plugin's configuration or projects
                     runs here, so that later calls see it; calls are started on the workers

The reader never runs code of the author, so a handler may wait for the host anywhere.
"""
from __future__ import annotations

import concurrent.futures
import dataclasses
import queue
import threading
import traceback
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

from . import context, wire
from .errors import (CONFIG_INVALID, INTERNAL, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND,
                     NOT_INITIALIZED, PARSE_ERROR, PLUGIN_ERROR, InvalidParams, PluginError, words)
from .wire import ABSENT, Request, Response
from .workers import Workers, is_async

if TYPE_CHECKING:
    from .plugin import Plugin

GRACE_SECONDS = 2.0  # for calls that run when the end comes

_NEW, _WAITING, _OPEN = range(3)  # before initialize; before initialized; after it


class HostGone(Exception):
    """The host did not answer as it must, or can no longer answer."""


class Connection:
    def __init__(self, plugin: Plugin, read: Callable[[], bytes],
                 write: Callable[[bytes], None]) -> None:
        self._plugin = plugin
        self._read, self._write = read, write
        self._state = _NEW
        self._work: queue.SimpleQueue[Optional[Callable[[], None]]] = queue.SimpleQueue()
        self._workers = Workers()
        self._out = threading.Lock()  # the order of lines, and the ids of requests
        self._next_id = 1
        self._waiting: Dict[int, concurrent.futures.Future[Any]] = {}
        self._cancels: Dict[Any, threading.Event] = {}  # of calls that run, by their ids
        self._ending = False
        self._running, self._idle = 0, threading.Condition()
        self._system: Dict[str, Callable[[Request], None]] = {
            "initialize": self._on_initialize,
            "initialized": self._on_initialized,
            "ping": lambda request: self._answer(request.id, {"status": "ok"}),
            "config.update": self._on_config,
            "projects.activated": self._on_project,
            "projects.deactivated": self._on_project,
        }

    # -- life

    def serve(self) -> None:
        """Until the host says shutdown or goes away."""
        threading.Thread(target=self._read_all, daemon=True).start()
        while True:
            work = self._work.get()
            if work is None:
                break
            work()
        with self._idle:
            self._idle.wait_for(lambda: self._running == 0, GRACE_SECONDS)
        for handler in self._plugin._shutdown_handlers:
            self._run_quietly(handler)
        self._workers.close()

    def begin_end(self) -> None:
        """Nothing more is read; whoever waits for the host gets HostGone."""
        with self._out:
            if self._ending:
                return
            self._ending = True
            waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            future.set_exception(HostGone("the host is gone"))
        self._work.put(None)

    def _read_all(self) -> None:
        try:
            for line in wire.lines(self._read):
                self._on_line(line)
                if self._ending:
                    break
        except OSError as error:
            self._plugin.log.error("stdin cannot be read", error=str(error))
        self.begin_end()

    def _run_quietly(self, handler: Callable[..., Any], *arguments: Any) -> None:
        """Code of the author whose failure nobody waits for."""
        try:
            self._workers.run(handler, *arguments)
        except BaseException as error:
            self._log_failure(getattr(handler, "__name__", "handler"), error)

    def _log_failure(self, what: str, error: BaseException) -> None:
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self._plugin.log.error(f"{what} failed", error=str(error), trace=trace)

    # -- lines out

    def _send(self, line: bytes) -> None:
        try:
            self._write(line)
        except OSError:  # the host reads no more
            threading.Thread(target=self.begin_end, daemon=True).start()

    def _answer(self, message_id: Any, result: Any) -> None:
        if message_id is ABSENT:
            return
        try:
            line = wire.dump({"jsonrpc": "2.0", "id": message_id, "result": result})
        except wire.NotJson as error:
            self._plugin.log.error("a result cannot be sent", error=str(error))
            self._refuse(message_id, INTERNAL, f"the result: {error}")
            return
        with self._out:
            self._send(line)

    def _fail(self, message_id: Any, code: int, message: str, data: Any = None) -> None:
        if message_id is ABSENT:
            return
        error: Dict[str, Any] = {"code": code, "message": message}
        if data is not None:
            error["data"] = data
        try:
            line = wire.dump({"jsonrpc": "2.0", "id": message_id, "error": error})
        except wire.NotJson as problem:
            self._plugin.log.error("an error cannot be sent", error=str(problem))
            line = wire.dump({"jsonrpc": "2.0", "id": message_id,
                              "error": {"code": INTERNAL, "message": words(INTERNAL)}})
        with self._out:
            self._send(line)

    def _refuse(self, message_id: Any, code: int, detail: str) -> None:
        self._fail(message_id, code, words(code, detail[:200]))

    def notify(self, method: str, params: Dict[str, Any]) -> None:
        self._must_be_open()
        line = wire.dump({"jsonrpc": "2.0", "method": method, "params": params})
        with self._out:
            self._send(line)

    # -- requests to the host

    def _must_be_open(self) -> None:
        if self._state != _OPEN:
            raise PluginError(words(NOT_INITIALIZED), NOT_INITIALIZED)

    def _request(self, method: str, params: Dict[str, Any]) -> concurrent.futures.Future[Any]:
        self._must_be_open()
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        future.set_running_or_notify_cancel()  # one who gives up does not disturb the reader
        with self._out:
            if self._ending:
                raise HostGone("the host is gone")
            line = wire.dump({"jsonrpc": "2.0", "id": self._next_id, "method": method,
                              "params": params})
            self._waiting[self._next_id] = future
            self._next_id += 1
            self._send(line)
        return future

    def ask(self, method: str, params: Dict[str, Any]) -> Any:
        return self._request(method, params).result()

    async def ask_async(self, method: str, params: Dict[str, Any]) -> Any:
        import asyncio  # here, since most plugins need none of it, and it is slow to load
        return await asyncio.wrap_future(self._request(method, params))

    def _on_response(self, response: Response) -> None:
        with self._out:
            is_ours = type(response.id) is int
            future = self._waiting.pop(response.id, None) if is_ours else None
        if future is None:
            self._plugin.log.debug("an answer that nobody waits for", id=response.id)
        elif response.error is ABSENT:
            future.set_result(response.result)
        else:
            future.set_exception(_host_error(response))

    # -- lines in

    def _on_line(self, line: Any) -> None:
        if line is wire.TOO_LONG:
            self._refuse(None, PARSE_ERROR, f"a line of more than {wire.LINE_MAX} bytes")
            return
        if not line.strip(b" \t\r"):
            return
        try:
            message = wire.envelope(wire.parse(line))
        except wire.NotJson as error:
            self._refuse(None, PARSE_ERROR, str(error))
        except wire.Malformed as error:
            self._refuse(error.id, INVALID_REQUEST, str(error))
        else:
            if isinstance(message, Response):
                self._on_response(message)
            else:
                self._on_request(message)

    def _on_request(self, request: Request) -> None:
        if request.method == "shutdown":
            self._answer(request.id, None)
            self.begin_end()
            return
        if request.method == "kaged.cancel" and request.id is ABSENT:
            self._on_cancel(request)
            return
        system = self._system.get(request.method)
        is_early = (self._state == _NEW and request.method != "initialize"
                    or self._state == _WAITING and system is None)
        if is_early:
            self._refuse(request.id, NOT_INITIALIZED, "")
            return
        handler = system or self._plugin._handlers.get(request.method)
        if handler is None:
            self._on_unknown(request)
            return
        try:
            if not isinstance(request.params, dict):
                raise InvalidParams("params is not an object")
            if system is not None:
                system(request)
            else:
                self._queue_call(request, handler)
        except InvalidParams as error:
            self._fail(request.id, INVALID_PARAMS, error.message)

    def _on_cancel(self, request: Request) -> None:
        wanted = request.params.get("id") if isinstance(request.params, dict) else None
        cancelled = self._cancels.get(wanted) if isinstance(wanted, (str, int)) else None
        if cancelled is not None:
            cancelled.set()

    def _on_unknown(self, request: Request) -> None:
        self._refuse(request.id, METHOD_NOT_FOUND, request.method[:128])
        if request.id is ABSENT:
            self._plugin.log.debug("a notification that nobody takes", method=request.method)
        if request.method == "system.rate_limited":
            self._plugin.log.warn("the host drops notifications: too many in a second")

    # -- the handshake

    def _on_initialize(self, request: Request) -> None:
        plugin, params = self._plugin, request.params
        if request.id is ABSENT:
            return
        if self._state != _NEW:
            self._refuse(request.id, INVALID_REQUEST, "initialize came before")
            return
        version, name = params.get("api_version"), params.get("plugin_name", plugin.name)
        if type(version) is not int or version != wire.API_VERSION:
            raise InvalidParams(f"api_version must be {wire.API_VERSION}")
        if name != plugin.name:
            raise InvalidParams(f"plugin_name must be {plugin.name}")
        projects = params.get("projects")
        for project in projects if isinstance(projects, list) else []:
            if isinstance(project, str):
                plugin._projects.setdefault(project, {})
        plugin.storage_available = params.get("storage_available") is True
        self._state = _WAITING
        self._answer(request.id, plugin._introduction())

    def _on_initialized(self, request: Request) -> None:
        if self._state == _WAITING:
            self._state = _OPEN
            for handler in self._plugin._start_handlers:
                self._work.put(lambda handler=handler: self._run_quietly(handler))
        self._answer(request.id, None)

    # -- configuration and projects

    def _on_config(self, request: Request) -> None:
        config = request.params.get("config")
        if not isinstance(config, dict):
            raise InvalidParams("config is not an object")

        def take() -> None:
            for handler in self._plugin._config_handlers:
                self._workers.run(handler, config)
            self._plugin._config = config
        self._work.put(lambda: self._run(request, take, CONFIG_INVALID))

    def _on_project(self, request: Request) -> None:
        plugin, project = self._plugin, request.params.get("project")
        config = request.params.get("config", {})
        if not isinstance(project, str):
            raise InvalidParams("project is not a string")
        if not isinstance(config, dict):
            raise InvalidParams("config is not an object")

        def activate() -> None:
            plugin._projects[project] = config
            for handler in plugin._activated_handlers:
                self._workers.run(handler, project, config)

        def deactivate() -> None:
            plugin._projects.pop(project, None)
            for handler in plugin._deactivated_handlers:
                self._workers.run(handler, project)
        change = activate if request.method == "projects.activated" else deactivate
        self._work.put(lambda: self._run(request, change))

    # -- calls

    def _queue_call(self, request: Request, handler: Callable[..., Any]) -> None:
        # Checked by the reader, in order; the configuration is known only when its turn comes.
        context.split(request.params, {}, self._plugin)
        cancelled = threading.Event()
        if request.id is not ABSENT:
            self._cancels[request.id] = cancelled

        def start() -> None:
            params, ctx = context.split(request.params, self._plugin.config, self._plugin)
            ctx = dataclasses.replace(ctx, cancelled=cancelled,
                                      call_id=None if request.id is ABSENT else request.id)
            with self._idle:
                self._running += 1
            if is_async(handler):
                self._workers.start_async(lambda: self._run_async(request, handler, params, ctx))
            else:
                self._workers.start(lambda: self._run_counted(request, handler, params, ctx))
        self._work.put(start)

    def _done(self, request: Request) -> None:
        self._cancels.pop(request.id, None)
        with self._idle:
            self._running -= 1
            self._idle.notify_all()

    def _run_counted(self, request: Request, handler: Callable[..., Any], *arguments: Any) -> None:
        self._run(request, lambda: self._workers.run(handler, *arguments))
        self._done(request)

    async def _run_async(self, request: Request, handler: Callable[..., Any],
                         *arguments: Any) -> None:
        try:
            self._answer(request.id, await handler(*arguments))
        except BaseException as error:
            self._on_failure(request, error, PLUGIN_ERROR)
        self._done(request)

    def _run(self, request: Request, job: Callable[[], Any], code: int = PLUGIN_ERROR) -> None:
        """Runs it and answers; `code` is that of a plugin error without one."""
        try:
            result = job()
        except BaseException as error:
            self._on_failure(request, error, code)
        else:
            self._answer(request.id, result)

    def _on_failure(self, request: Request, error: BaseException, code: int) -> None:
        if isinstance(error, PluginError):
            chosen = error.code if type(error.code) is int else code
            self._fail(request.id, chosen, error.message, error.data)
            return
        self._log_failure(request.method, error)
        self._refuse(request.id, INTERNAL, f"{type(error).__name__}: {error}")


def _host_error(response: Response) -> Exception:
    error = response.error
    if response.result is not ABSENT or not isinstance(error, dict):
        return HostGone("the host's answer is malformed")
    code, message = error.get("code"), error.get("message")
    if type(code) is not int or not isinstance(message, str):
        return HostGone("the host's answer is malformed")
    return PluginError(message, code, error.get("data"))
