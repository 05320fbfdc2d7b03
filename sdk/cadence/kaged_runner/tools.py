"""What a tool takes, as a schema, and the call of one with arguments that were checked."""
import inspect
import typing

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic_core import to_jsonable_python


class BadArguments(Exception):
    """The arguments do not fit; the message says which."""


def _model_of(tool):
    """The tool's own model, or one that is made of the function's signature."""
    if isinstance(tool.args_schema, type) and issubclass(tool.args_schema, BaseModel):
        return tool.args_schema
    try:
        hints = typing.get_type_hints(tool.func, include_extras=True)
    except Exception:  # a name that only its author's checker knows
        hints = {}
    fields = {}
    for name, parameter in inspect.signature(tool.func).parameters.items():
        if name in ("self", "cls") or parameter.kind in (parameter.VAR_POSITIONAL,
                                                         parameter.VAR_KEYWORD):
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (hints.get(name, typing.Any), default)
    return create_model(tool.name, __config__=ConfigDict(arbitrary_types_allowed=True), **fields)


class Tool:
    def __init__(self, tool):
        self.tool = tool
        self.name = tool.name
        self.model = _model_of(tool)
        self._parameters = inspect.signature(tool.func).parameters
        self._takes_all = any(parameter.kind == parameter.VAR_KEYWORD
                              for parameter in self._parameters.values())

    def schema(self):
        schema = self.model.model_json_schema()
        schema.setdefault("properties", {})
        return schema

    def arguments(self, given):
        """What the function is called with: what was given, and what it has no default of its own for."""
        try:
            checked = self.model.model_validate(given)
        except ValidationError as error:
            raise BadArguments(_words(error)) from None
        named = {}
        for name in type(checked).model_fields:
            parameter = self._parameters.get(name)
            is_needed = parameter is not None and parameter.default is parameter.empty
            if name in checked.model_fields_set or is_needed:
                if parameter is not None or self._takes_all:
                    named[name] = getattr(checked, name)
        return named

    def result(self, value):
        return to_jsonable_python(value, fallback=str)


def _words(error):
    parts = []
    for problem in error.errors(include_url=False, include_input=False)[:5]:
        place = ".".join(str(part) for part in problem["loc"])
        parts.append(f"{place}: {problem['msg']}" if place else problem["msg"])
    return "; ".join(parts)
