"""Tools, and the messages that they may be given."""
import asyncio
import functools
import inspect
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, TypedDict

StreamFilter = Callable[[Any], Any]


class UvTool:
    """A function that a model may call. `await tool.ainvoke(...)` works for both kinds of function."""

    def __init__(self, name: str, description: str, func: Callable[..., Any],
                 args_schema: Optional[type] = None, metadata: Optional[Dict[str, Any]] = None,
                 required_validate: bool = False, stream_tool: bool = False,
                 stream_filter: Optional[StreamFilter] = None) -> None:
        self.name = name
        self.description = description
        self.func = func
        self.args_schema = args_schema
        self.metadata = metadata if metadata is not None else {}
        self.required_validate = required_validate
        self.stream_tool = stream_tool
        self.stream_filter = stream_filter
        self.is_async = inspect.iscoroutinefunction(func)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if self.is_async:
            raise RuntimeError(f"tool {self.name} is async: await its ainvoke")
        return self.func(*arguments, **named)

    def invoke(self, *arguments: Any, **named: Any) -> Any:
        return self(*arguments, **named)

    async def ainvoke(self, *arguments: Any, **named: Any) -> Any:
        if self.is_async:
            return await self.func(*arguments, **named)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, functools.partial(self.func, *arguments, **named))

    def __repr__(self) -> str:
        return f"UvTool({self.name!r})"


def _first_line(function: Callable[..., Any], name: str) -> str:
    text = inspect.getdoc(function)
    return text.splitlines()[0].strip() if text and text.strip() else f"Tool: {name}"


def uvtool(function: Optional[Callable[..., Any]] = None, *, name: Optional[str] = None,
           description: Optional[str] = None, args_schema: Optional[type] = None,
           stream: bool = False, stream_filter: Optional[StreamFilter] = None,
           validate: bool = False, **metadata: Any) -> Any:
    """Makes a tool of a function: @uvtool, or @uvtool(args_schema=..., stream=True)."""

    def decorate(made_of: Callable[..., Any]) -> UvTool:
        called = name or made_of.__name__
        return UvTool(called, description or _first_line(made_of, called), made_of, args_schema,
                      dict(metadata), validate, stream, stream_filter)

    return decorate(function) if function is not None else decorate


# -- messages: what some packages name in their types -----------------------------------------------


@dataclass
class ToolCall:
    id: str
    name: str
    args: Dict[str, Any] = field(default_factory=dict)


@dataclass
class UvMessage:
    content: Any = ""
    role: str = ""


@dataclass
class UvHumanMessage(UvMessage):
    role: str = "human"


@dataclass
class UvSystemMessage(UvMessage):
    role: str = "system"


@dataclass
class UvAIMessage(UvMessage):
    role: str = "ai"
    tool_calls: List[ToolCall] = field(default_factory=list)


@dataclass
class UvToolMessage(UvMessage):
    role: str = "tool"
    tool_call_id: str = ""
    tool_name: str = ""


class UvState(TypedDict, total=False):
    messages: List[UvMessage]
    current_agent: str
    agent_hops: int
    metadata: Dict[str, Any]
