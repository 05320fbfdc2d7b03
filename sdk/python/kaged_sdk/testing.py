"""A host in memory, for unit tests of plugins: no daemon, no process, no file.

    with Host(plugin, config={"budget": "low"}) as host:
        assert host.call("notes.add", {"text": "hi"}) == {"id": 1}

Both sides speak the real lines of JSON, so that what could not be sent fails here, too. Storage is
a SQLite database in memory, `host.database`, that answers as the daemon's does.
"""
from __future__ import annotations

import queue
import sqlite3
import threading
from concurrent.futures import Future
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import wire
from .errors import INVALID_PARAMS, METHOD_NOT_FOUND, PLUGIN_ERROR, STORAGE_DENIED, PluginError
from .plugin import Plugin
from .storage import blob, unblob

OWN_CONTEXT = {"operator_id": "tester", "project_id": None, "agent_path": None, "session_id": None}


class Host:
    """`answer(method, params)` takes the place of the storage; it may raise PluginError."""

    def __init__(self, plugin: Plugin, *, config: Optional[Dict[str, Any]] = None,
                 projects: Sequence[str] = (),
                 answer: Optional[Callable[[str, Dict[str, Any]], Any]] = None,
                 timeout: float = 30.0) -> None:
        self.plugin = plugin
        self.notifications: List[Tuple[str, Dict[str, Any]]] = []
        self.introduction: Dict[str, Any] = {}
        self._config, self._projects, self._timeout = config, list(projects), timeout
        self._memory = MemoryStorage(plugin.capabilities)
        self.database = self._memory.database
        self._answer_request = answer or self._memory.answer
        self._to_plugin: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._to_host: queue.SimpleQueue[Optional[bytes]] = queue.SimpleQueue()
        self._waiting: Dict[int, Future[Any]] = {}
        self._next_id, self._lock = 1, threading.Lock()
        self._threads: List[threading.Thread] = []

    # -- life

    def __enter__(self) -> Host:
        self.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def start(self) -> None:
        """The handshake, with the configuration in its place."""
        connection = self.plugin.connect(self._to_plugin.get, self._to_host.put)
        self._threads = [threading.Thread(target=connection.serve, daemon=True),
                         threading.Thread(target=self._listen, daemon=True)]
        for thread in self._threads:
            thread.start()
        self.introduction = self.request("initialize", {
            "daemon_version": "0.0.0", "api_version": wire.API_VERSION,
            "plugin_name": self.plugin.name, "projects": self._projects,
            "storage_available": any(capability.startswith("kaged:storage:")
                                     for capability in self.plugin.capabilities)})
        if self._config is not None:
            self.configure(self._config)
        self.notify("initialized", {})

    def close(self) -> None:
        """Shutdown; returns when the plugin's own shutdown handlers are done."""
        self.notify("shutdown", {})
        self._threads[0].join(self._timeout)
        self._to_host.put(None)
        self._threads[1].join(self._timeout)
        self.database.close()

    # -- what a daemon does

    def call(self, method: str, params: Optional[Dict[str, Any]] = None, *,
             context: Optional[Dict[str, Any]] = None,
             config: Optional[Dict[str, Any]] = None) -> Any:
        """A method's result; its error is raised as PluginError. `config` is the call's own."""
        own = {**OWN_CONTEXT, "request_id": f"req_{self._next_id}", **(context or {})}
        full: Dict[str, Any] = {**(params or {}), "_context": own}
        if config is not None:
            full["_config"] = config
        return self.request(method, full)

    def tool(self, name: str, arguments: Optional[Dict[str, Any]] = None, **options: Any) -> Any:
        return self.call(f"{self.plugin.name}.{name}", arguments, **options)

    def hook(self, name: str, params: Optional[Dict[str, Any]] = None, **options: Any) -> Any:
        return self.call(f"kaged.hook.{name}", params, **options)

    def configure(self, config: Dict[str, Any]) -> None:
        self.request("config.update", {"config": config})

    def activate(self, project: str, config: Optional[Dict[str, Any]] = None) -> None:
        self.request("projects.activated", {"project": project, "config": config or {}})

    def deactivate(self, project: str) -> None:
        self.request("projects.deactivated", {"project": project})

    def ping(self) -> Any:
        return self.request("ping", {})

    # -- the wire

    def request(self, method: str, params: Any) -> Any:
        """Any request, as it is; waits for its answer."""
        future: Future[Any] = Future()
        with self._lock:
            message_id, self._next_id = self._next_id, self._next_id + 1
            self._waiting[message_id] = future
        self.send({"jsonrpc": "2.0", "id": message_id, "method": method, "params": params})
        return future.result(self._timeout)

    def notify(self, method: str, params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def send(self, message: Dict[str, Any]) -> None:
        self._to_plugin.put(wire.dump(message))

    def _listen(self) -> None:
        while True:
            line = self._to_host.get()
            if line is None:
                return
            message = wire.envelope(wire.parse(line[:-1]))
            if isinstance(message, wire.Response):
                self._on_response(message)
            elif message.id is wire.ABSENT:
                self.notifications.append((message.method, message.params))
            else:
                self._on_request(message)

    def _on_response(self, response: wire.Response) -> None:
        future = self._waiting.pop(response.id)
        if response.error is wire.ABSENT:
            future.set_result(response.result)
        else:
            error = response.error
            future.set_exception(PluginError(error["message"], error["code"], error.get("data")))

    def _on_request(self, request: wire.Request) -> None:
        answer: Dict[str, Any] = {"jsonrpc": "2.0", "id": request.id}
        try:
            answer["result"] = self._answer_request(request.method, request.params)
        except PluginError as error:
            answer["error"] = {"code": error.code or PLUGIN_ERROR, "message": error.message}
            if error.data is not None:
                answer["error"]["data"] = error.data
        self.send(answer)


# -- storage --------------------------------------------------------------------------------------

_FORBIDDEN = (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH, sqlite3.SQLITE_TRANSACTION,
              sqlite3.SQLITE_SAVEPOINT)


def _to_sqlite(value: Any) -> Any:
    if isinstance(value, dict):
        return unblob(value)
    return int(value) if isinstance(value, bool) else value


def _from_sqlite(value: Any) -> Any:
    return blob(value) if isinstance(value, bytes) else value


def _column_names(description: Any) -> List[str]:
    """A second column of one name is called name:1."""
    names: List[str] = []
    for column in description or ():
        name, count = column[0], 0
        while name in names:
            count += 1
            name = f"{column[0]}:{count}"
        names.append(name)
    return names


class MemoryStorage:
    """kaged.storage.* on a database in memory."""

    def __init__(self, capabilities: Sequence[str]) -> None:
        self.database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.database.execute("PRAGMA foreign_keys = ON")
        self._may_write = "kaged:storage:write" in capabilities
        self._may_read = self._may_write or "kaged:storage:read" in capabilities

    def answer(self, method: str, params: Dict[str, Any]) -> Any:
        does = {"kaged.storage.query": self._query, "kaged.storage.exec": self._exec,
                "kaged.storage.batch": self._batch, "kaged.storage.schema": self._schema}
        if method not in does:
            raise PluginError(f"there is no {method}", METHOD_NOT_FOUND)
        is_write = method in ("kaged.storage.exec", "kaged.storage.batch")
        if not (self._may_write if is_write else self._may_read):
            needed = "write" if is_write else "read"
            raise PluginError(f"the plugin did not declare kaged:storage:{needed}", STORAGE_DENIED)
        try:
            return does[method](params)
        except sqlite3.DatabaseError as error:
            code = STORAGE_DENIED if "not authorized" in str(error) else PLUGIN_ERROR
            name = getattr(error, "sqlite_errorname", None)
            raise PluginError(str(error), code, {"sqlite_name": name} if name else None) from None
        except (sqlite3.Warning, KeyError, ValueError) as error:
            raise PluginError(f"invalid params: {error}", INVALID_PARAMS) from None

    def _run(self, asked: Dict[str, Any]) -> sqlite3.Cursor:
        params = asked.get("params", [])
        values = ({key: _to_sqlite(value) for key, value in params.items()}
                  if isinstance(params, dict) else [_to_sqlite(value) for value in params])
        self.database.set_authorizer(lambda action, *_: sqlite3.SQLITE_DENY
                                     if action in _FORBIDDEN else sqlite3.SQLITE_OK)
        try:
            return self.database.execute(asked["sql"], values)
        finally:
            self.database.set_authorizer(lambda *_: sqlite3.SQLITE_OK)

    @staticmethod
    def _rows(cursor: sqlite3.Cursor) -> Dict[str, Any]:
        columns = _column_names(cursor.description)
        return {"columns": columns, "rows": [dict(zip(columns, map(_from_sqlite, row)))
                                             for row in cursor.fetchall()]}

    def _query(self, asked: Dict[str, Any]) -> Dict[str, Any]:
        self.database.execute("PRAGMA query_only = ON")
        try:
            return self._rows(self._run(asked))
        finally:
            self.database.execute("PRAGMA query_only = OFF")

    def _exec(self, asked: Dict[str, Any]) -> Dict[str, Any]:
        cursor = self._run(asked)
        result = self._rows(cursor) if cursor.description else {}
        result["rows_affected"] = max(cursor.rowcount, 0)
        if cursor.lastrowid and asked["sql"].lstrip()[:6].upper() in ("INSERT", "REPLAC"):
            result["last_insert_rowid"] = cursor.lastrowid
        return result

    def _batch(self, asked: Dict[str, Any]) -> Dict[str, Any]:
        self.database.execute("BEGIN")
        try:
            results = [self._exec(statement) for statement in asked["statements"]]
            self.database.execute("COMMIT")
        finally:
            if self.database.in_transaction:
                self.database.execute("ROLLBACK")
        return {"results": results}

    def _schema(self, _: Dict[str, Any]) -> Dict[str, Any]:
        rows = self.database.execute("SELECT name FROM sqlite_master WHERE type = 'table' "
                                     "AND name NOT LIKE 'sqlite_%' ORDER BY name")
        return {"tables": [row[0] for row in rows]}
