"""The plugin's own database, which the daemon keeps: each method is a request to it.

`plugin.storage` waits; `plugin.storage.aio` is the same for `await`. The SQL is SQLite's;
parameters are a list for `?`, or a dict for `:name`.
"""
from __future__ import annotations

import base64
from typing import Any, Awaitable, Callable, Dict, List, Mapping, Sequence, Tuple, TypedDict, Union

Params = Union[Sequence[Any], Mapping[str, Any]]
Statement = Union[str, Tuple[str, Params]]


class _Changes(TypedDict):
    rows_affected: int


class ExecResult(_Changes, total=False):
    """columns and rows are there for a statement that returns some."""

    last_insert_rowid: int
    columns: List[str]
    rows: List[Dict[str, Any]]


class QueryResult(TypedDict):
    columns: List[str]
    rows: List[Dict[str, Any]]


class BatchResult(TypedDict):
    results: List[ExecResult]


class SchemaResult(TypedDict):
    tables: List[str]


def blob(data: bytes) -> Dict[str, str]:
    """Bytes, as a parameter."""
    return {"$blob": base64.b64encode(data).decode("ascii")}


def unblob(value: Mapping[str, str]) -> bytes:
    """The bytes of a value that came as a blob."""
    return base64.b64decode(value["$blob"])


def _statement(sql: str, params: Params) -> Dict[str, Any]:
    return {"sql": sql, "params": dict(params) if isinstance(params, Mapping) else list(params)}


def _batch(statements: Sequence[Statement]) -> Dict[str, Any]:
    pairs = [(one, ()) if isinstance(one, str) else one for one in statements]
    return {"statements": [_statement(sql, params) for sql, params in pairs]}


class AsyncStorage:
    """The same as Storage, to be awaited."""

    def __init__(self, ask: Callable[[str, Dict[str, Any]], Awaitable[Any]]) -> None:
        self._ask = ask

    async def exec(self, sql: str, params: Params = ()) -> ExecResult:
        return await self._ask("kaged.storage.exec", _statement(sql, params))

    async def query(self, sql: str, params: Params = ()) -> QueryResult:
        return await self._ask("kaged.storage.query", _statement(sql, params))

    async def batch(self, statements: Sequence[Statement]) -> BatchResult:
        return await self._ask("kaged.storage.batch", _batch(statements))

    async def schema(self) -> SchemaResult:
        return await self._ask("kaged.storage.schema", {})


class Storage:
    """A refusal of the daemon is raised as PluginError, with its code and data."""

    def __init__(self, ask: Callable[[str, Dict[str, Any]], Any],
                 ask_async: Callable[[str, Dict[str, Any]], Awaitable[Any]]) -> None:
        self._ask = ask
        self.aio = AsyncStorage(ask_async)

    def exec(self, sql: str, params: Params = ()) -> ExecResult:
        """One statement, a transaction of its own."""
        return self._ask("kaged.storage.exec", _statement(sql, params))

    def query(self, sql: str, params: Params = ()) -> QueryResult:
        """One statement that only reads."""
        return self._ask("kaged.storage.query", _statement(sql, params))

    def batch(self, statements: Sequence[Statement]) -> BatchResult:
        """Several statements, all of them or none; each is SQL, or SQL and its parameters."""
        return self._ask("kaged.storage.batch", _batch(statements))

    def schema(self) -> SchemaResult:
        """The names of the tables."""
        return self._ask("kaged.storage.schema", {})
