"""A package as a plugin of kaged: its protocol in lines, on a wire that the package does not see.

    main thread    reads lines, and answers what needs no code of the package; loads the package
    threads        run plain tools, several at a time
    one loop       runs all that is async, from the first tool to cleanup
"""
import asyncio
import json
import os
import queue
import sys
import threading
import time

from . import package
from .package import Refused, ask, words_of

API_VERSION = 1
LINE_MAX = 4 << 20
THREADS_MAX = 16
GRACE_SECONDS = 2.0

METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL = -32601, -32602, -32603
PLUGIN_ERROR, NOT_INITIALIZED, CONFIG_INVALID = -32000, -32002, -32004


class Failure(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code
        self.message = message


class Threads:
    """As many as are busy at once, up to a bound; all end with the process."""

    def __init__(self):
        self._jobs = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._count = 0

    def start(self, job, *arguments):
        if not self._idle.acquire(blocking=False) and self._count < THREADS_MAX:
            self._count += 1
            threading.Thread(target=self._work, daemon=True).start()
        self._jobs.put((job, arguments))

    def _work(self):
        while True:
            job, arguments = self._jobs.get()
            job(*arguments)
            self._idle.release()


class Runner:
    def __init__(self, folder, version, wheels, source, sink):
        self._folder, self._version, self._wheels = folder, version, wheels
        self._source, self._sink = source, sink
        self._out = threading.Lock()
        self._name = ""
        self._agent = self._plugin = None
        self._tools = {}
        self._threads = Threads()
        self._loop = None
        self._tasks = {}  # of async calls, by their ids
        self._running, self._idle = 0, threading.Condition()
        self._methods = {
            "package.load_anchor": self._load_anchor,
            "package.scope_rules": self._scope_rules,
            "package.health": self._health,
            "package.tools": self._list_tools,
        }

    # -- the wire

    def _send(self, message):
        line = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        data = line.encode("utf-8") + b"\n"
        if len(data) > LINE_MAX:
            raise ValueError(f"{len(data)} bytes, more than the {LINE_MAX} of a line")
        with self._out:
            view = memoryview(data)
            while view:
                view = view[os.write(self._sink, view):]

    def _answer(self, message_id, result):
        if message_id is None:
            return
        try:
            self._send({"jsonrpc": "2.0", "id": message_id, "result": result})
        except (TypeError, ValueError, RecursionError) as error:
            self._fail(message_id, INTERNAL, f"the result cannot be sent: {words_of(error)}")
        except OSError:
            os._exit(0)  # the daemon is gone

    def _fail(self, message_id, code, message):
        if message_id is None:
            return
        text = message[:4000].encode("utf-8", "replace").decode("utf-8")
        try:
            self._send({"jsonrpc": "2.0", "id": message_id, "error": {"code": code, "message": text}})
        except OSError:
            os._exit(0)

    def serve(self):
        with os.fdopen(self._source, "rb", buffering=1 << 16) as lines:
            for line in lines:
                message = json.loads(line)
                method = message.get("method")
                if method == "shutdown":
                    break
                if method is not None:
                    self._hear(message.get("id"), method, message.get("params") or {})
        with self._idle:
            self._idle.wait_for(lambda: self._running == 0, GRACE_SECONDS)
        self._clean_up()

    def _hear(self, message_id, method, params):
        if method == "ping":
            self._answer(message_id, {"status": "ok"})
        elif method == "kaged.cancel":
            self._cancel(params.get("id"))
        elif method == "initialize":
            self._name = params.get("plugin_name", "")
            self._answer(message_id, {
                "name": self._name, "version": self._version, "api_version": API_VERSION,
                "methods": list(self._methods), "notifications": [], "capabilities_used": []})
        elif method == "config.update":
            self._configure(message_id, params.get("config"))
        elif method == "initialized":
            pass
        elif self._agent is None:
            self._fail(message_id, NOT_INITIALIZED, "not initialized")
        else:
            self._call(message_id, method, params)

    # -- the package

    def _configure(self, message_id, config):
        """Once: other settings are another process."""
        if self._agent is not None:
            self._fail(message_id, METHOD_NOT_FOUND, "the settings of a package change with its process")
            return
        try:
            self._load(config if isinstance(config, dict) else {})
        except Refused as error:
            self._fail(message_id, CONFIG_INVALID, error.message)
        else:
            self._answer(message_id, None)

    def _load(self, config):
        from cadence_sdk import BaseAgent
        from .tools import Tool
        place = package.find(self._folder)
        package.set_path(place, self._wheels)
        plugin = package.load(place)
        missing = ask("validate_dependencies()", plugin.validate_dependencies)
        if missing:
            raise Refused("dependencies", "validate_dependencies() found: "
                          + "; ".join(str(item) for item in missing)[:600])
        agent = ask("create_agent()", plugin.create_agent)
        if not isinstance(agent, BaseAgent):
            raise Refused("agent", "create_agent() did not return a BaseAgent")
        ask("initialize()", agent.initialize, config)
        listed = ask("get_tools()", agent.get_tools)
        self._tools = {tool.name: ask(f"tool {tool.name}", Tool, tool) for tool in listed}
        self._plugin, self._agent = plugin, agent

    def _clean_up(self):
        if self._agent is None:
            return
        try:
            self._on_loop(self._agent.cleanup()).result(GRACE_SECONDS)
        except BaseException as error:
            sys.stderr.write(f"cleanup() raised {words_of(error)}\n")

    # -- calls

    def _on_loop(self, coroutine):
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, daemon=True).start()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _cancel(self, wanted):
        task = self._tasks.get(wanted) if isinstance(wanted, (int, str)) else None
        if task is not None:
            task.cancel()

    def _call(self, message_id, method, params):
        params.pop("_context", None)
        params.pop("_config", None)
        handler = self._methods.get(method)
        if handler is not None:
            self._begin(message_id, handler(params))
            return
        name = method[len(self._name) + 1:] if method.startswith(self._name + ".") else method
        tool = self._tools.get(name)
        if tool is None:
            self._fail(message_id, METHOD_NOT_FOUND, f"there is no tool {name[:64]!r}")
        elif tool.tool.is_async:
            self._begin(message_id, self._run_async(tool, params))
        else:
            with self._idle:
                self._running += 1
            self._threads.start(self._run_plain, message_id, tool, params)

    def _done(self):
        with self._idle:
            self._running -= 1
            if self._running == 0:
                self._idle.notify_all()

    def _run_plain(self, message_id, tool, params):
        try:
            value = tool.tool.func(**self._arguments(tool, params))
            self._answer(message_id, self._envelope(tool, value, self._filtered(tool, value)))
        except BaseException as error:
            self._fail_by(message_id, error)
        self._done()

    def _filtered(self, tool, value):
        """What the client is shown ahead of the answer; a filter may be async, too."""
        if not tool.tool.stream_tool or tool.tool.stream_filter is None:
            return value
        shown = tool.tool.stream_filter(value)
        return self._on_loop(_finish(shown)).result() if asyncio.iscoroutine(shown) else shown

    async def _run_async(self, tool, params):
        value = await tool.tool.func(**self._arguments(tool, params))
        shown = value
        if tool.tool.stream_tool and tool.tool.stream_filter is not None:
            shown = tool.tool.stream_filter(value)
            if asyncio.iscoroutine(shown):
                shown = await shown
        return self._envelope(tool, value, shown)

    @staticmethod
    def _arguments(tool, params):
        from .tools import BadArguments
        try:
            return tool.arguments(params)
        except BadArguments as error:
            raise Failure(INVALID_PARAMS, f"tool {tool.name}: {error}") from None

    @staticmethod
    def _envelope(tool, value, shown):
        result = {"result": tool.result(value)}
        if tool.tool.stream_tool:
            result["stream"] = tool.result(shown)
        return result

    def _begin(self, message_id, coroutine):
        with self._idle:
            self._running += 1
        task = self._on_loop(_finish(coroutine))
        self._tasks[message_id] = task
        task.add_done_callback(lambda done: self._ended(message_id, done))

    def _ended(self, message_id, task):
        self._tasks.pop(message_id, None)
        if task.cancelled():
            self._fail(message_id, PLUGIN_ERROR, "cancelled")
        elif task.exception() is not None:
            self._fail_by(message_id, task.exception())
        else:
            self._answer(message_id, task.result())
        self._done()

    def _fail_by(self, message_id, error):
        if isinstance(error, Failure):
            self._fail(message_id, error.code, error.message)
        else:
            self._fail(message_id, PLUGIN_ERROR, words_of(error))

    # -- what the daemon asks beside tools

    async def _load_anchor(self, params):
        resource = params.get("resource_id")
        load = getattr(self._agent, "load_anchor", None)
        if load is None:
            raise Failure(METHOD_NOT_FOUND, "the package has no load_anchor")
        if not isinstance(resource, str):
            raise Failure(INVALID_PARAMS, "resource_id is not a string")
        found = await load(resource)
        if found is not None and not isinstance(found, dict):
            raise Failure(PLUGIN_ERROR, f"load_anchor returned {type(found).__name__}, not a dict")
        return {"context": _jsonable(found or {}), "found": bool(found)}

    async def _scope_rules(self, params):
        build = getattr(self._agent, "build_scope_rules", None)
        if build is None:
            raise Failure(METHOD_NOT_FOUND, "the package has no build_scope_rules")
        rules = build(params.get("context", {}))
        if asyncio.iscoroutine(rules):
            rules = await rules
        if not isinstance(rules, str):
            raise Failure(PLUGIN_ERROR, f"build_scope_rules returned {type(rules).__name__}, not a string")
        return {"rules": rules}

    async def _health(self, params):
        began = time.monotonic()
        told = await asyncio.get_running_loop().run_in_executor(None, self._plugin.health_check)
        return {"health": _jsonable(told), "took_ms": round((time.monotonic() - began) * 1000, 3)}

    async def _list_tools(self, params):
        return {"tools": sorted(self._tools)}


async def _finish(awaitable):
    """One that wants to end the process would end the loop."""
    try:
        return await awaitable
    except (SystemExit, KeyboardInterrupt) as error:
        raise Failure(PLUGIN_ERROR, words_of(error)) from None


def _jsonable(value):
    from pydantic_core import to_jsonable_python
    return to_jsonable_python(value, fallback=str)
