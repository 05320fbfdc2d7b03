"""What hooks get and return."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, TypedDict


class Message(TypedDict, total=False):
    """A message of a session; a compactor's new ones come without an id."""

    id: str
    role: str
    content: Any


class HookResult(TypedDict, total=False):
    """What an observer returns; nothing at all is fine, too."""

    inject: str
    retain: List[str]


class CompactorResult(TypedDict, total=False):
    """What takes the place of the compaction's own strategy."""

    role: str
    messages: Sequence[Dict[str, Any]]
    superseded: List[str]
    summary: str


def compactor_result(messages: Sequence[Dict[str, Any]], superseded: Sequence[str],
                     summary: Optional[str] = None) -> CompactorResult:
    """messages: the whole new list; superseded: ids of those that it replaces."""
    result: CompactorResult = {"role": "compactor", "messages": list(messages),
                               "superseded": list(superseded)}
    if summary is not None:
        result["summary"] = summary
    return result
