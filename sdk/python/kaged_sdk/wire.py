"""Lines and JSON, as strictly as the daemon reads them.

What goes out is never refused by the daemon: it would take the line for noise, and the caller would
wait in vain. What comes in is refused where the daemon would refuse it, so that all SDKs agree.
"""
from __future__ import annotations

import json
import re
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Union

API_VERSION = 1
LINE_MAX = 4 << 20  # bytes, without the newline
DEPTH_MAX = 256

TOO_LONG = object()  # in place of a line that was longer than LINE_MAX

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]')


class NotJson(ValueError):
    """Text that is not JSON, or a value that cannot be."""


# -- lines ----------------------------------------------------------------------------------------


def lines(read: Callable[[], bytes]) -> Iterator[Union[bytes, object]]:
    """Lines without their ends, TOO_LONG among them; what has no end at the end is left out."""
    partial, skipping = bytearray(), False
    while True:
        chunk = read()
        if not chunk:
            return
        start = 0
        end = chunk.find(b"\n")
        while end >= 0:
            if not skipping:
                partial += chunk[start:end]
                yield bytes(partial) if len(partial) <= LINE_MAX else TOO_LONG
            partial, skipping, start = bytearray(), False, end + 1
            end = chunk.find(b"\n", start)
        if not skipping:
            partial += chunk[start:]
            if len(partial) > LINE_MAX:
                partial, skipping = bytearray(), True
                yield TOO_LONG


# -- JSON -----------------------------------------------------------------------------------------


def _is_too_deep(text: str) -> bool:
    if text.count("[") + text.count("{") <= DEPTH_MAX:
        return False
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        first = match.group()[0]
        if first in "[{":
            depth += 1
            if depth > DEPTH_MAX:
                return True
        elif first in "]}":
            depth -= 1
    return False


def _number(digits: str) -> Union[int, float]:
    """Python refuses to read an int of some thousand digits."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def _refuse_constant(name: str) -> None:
    raise NotJson(f"{name} is not a number")


def parse(line: bytes) -> Any:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        raise NotJson("not UTF-8") from None
    if _is_too_deep(text):
        raise NotJson("nested too deep")
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_int=_number)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise NotJson("an escaped surrogate lacks its other half") from None
    except ValueError as error:
        raise NotJson(str(error)) from None
    return value


def dump(message: Dict[str, Any]) -> bytes:
    """The line, with its end; NotJson if the daemon would not take it."""
    try:
        text = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        line = text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(f"not JSON: {error}") from None
    if len(line) > LINE_MAX:
        raise NotJson(f"{len(line)} bytes, more than the {LINE_MAX} of a line")
    if _is_too_deep(text):
        raise NotJson(f"nested deeper than {DEPTH_MAX}")
    return line + b"\n"


# -- envelopes ------------------------------------------------------------------------------------


class Absent:
    """In place of an id or a result that is not there: null is a value."""


ABSENT = Absent()


class Request(NamedTuple):
    id: Any  # ABSENT: a notification
    method: str
    params: Any  # a dict or a list


class Response(NamedTuple):
    id: Any
    result: Any
    error: Any


class Malformed(Exception):
    """A message that is no request and no response; `id` is what the refusal carries."""

    def __init__(self, message_id: Optional[Union[int, str]], reason: str) -> None:
        super().__init__(reason)
        self.id = message_id


def _request_problem(message: Dict[str, Any], has_good_id: bool) -> Optional[str]:
    if "id" in message and not has_good_id:
        return "id is neither a string nor an integer"
    if not isinstance(message.get("method"), str):
        return "method is not a string"
    if "result" in message or "error" in message:
        return "a request has a result or an error"
    if "params" in message and not isinstance(message["params"], (dict, list)):
        return "params is neither an object nor an array"
    return None


def envelope(message: Any) -> Union[Request, Response]:
    if not isinstance(message, dict):
        raise Malformed(None, "a batch" if isinstance(message, list) else "not an object")
    has_good_id = type(message.get("id")) in (int, str)
    message_id = message["id"] if has_good_id else None
    if message.get("jsonrpc") != "2.0":
        raise Malformed(message_id, 'jsonrpc is not "2.0"')
    if "method" not in message and ("result" in message or "error" in message):
        return Response(message_id, message.get("result", ABSENT), message.get("error", ABSENT))
    problem = _request_problem(message, has_good_id)
    if problem is not None:
        raise Malformed(message_id, problem)
    return Request(message.get("id", ABSENT), message["method"], message.get("params", {}))
