"""What is kept or left out as one: a message, or a tool's call with its result."""
from kaged_sdk import PluginError

from texts import call_text, message_text, result_text, terms
from tokens import content_tokens

FATES = ("stays", "kept", "shortened", "summarized", "dropped")


class Unit:
    def __init__(self, message, stays):
        self.messages, self.stays = [message], stays
        self.tokens = tokens_of(message)
        self.kind, self.plugin = message.get("kind", "message"), message.get("plugin")
        self.speaker = "plugin" if self.plugin else message["role"]
        self.text = (call_text(message.get("content")) if self.kind == "tool_call"
                     else message_text(message))
        self.call, self.output, self.is_error = self.text, "", False  # of a tool
        self.number = 0  # in the order of the context
        self.mentioned = []  # terms that come up again later
        self.score, self.reasons = 0, []
        self.fate, self.why, self.new_text = "dropped", "", None

    def add_result(self, message):
        self.messages.append(message)
        self.tokens += tokens_of(message)
        self.output, self.is_error = result_text(message.get("content"))
        self.text = f"{self.call}\n{self.output}"
        self.speaker = "tool"

    @property
    def is_pair(self):
        return len(self.messages) == 2

    @property
    def is_summary(self):
        return self.kind == "summary"

    def decide(self, fate, why):
        self.fate, self.why = fate, why


def tokens_of(message):
    told = message.get("tokens")
    return told if type(told) is int and told >= 0 else content_tokens(message.get("content"))


def _messages(params, key):
    messages = params.get(key)
    if not isinstance(messages, list) or not all(
            isinstance(message, dict) and isinstance(message.get("id"), str)
            and isinstance(message.get("role"), str) and type(message.get("position")) is int
            for message in messages):
        raise PluginError(f"{key} has to be a list of messages with id, role and position")
    return messages


def context_of(params):
    """[(message, whether it has to stay)] in the order of the context."""
    both = [(message, False) for message in _messages(params, "messages_being_compacted")]
    both += [(message, True) for message in _messages(params, "messages_remaining")]
    both.sort(key=lambda one: one[0]["position"])
    return both


def units_of(context):
    """The units in the order in which they begin."""
    units, calls = [], {}
    for message, stays in context:
        if message.get("kind") == "tool_result":
            call = calls.pop(message.get("parent"), None)
            if call is not None:
                call.add_result(message)
                continue
        unit = Unit(message, stays)
        units.append(unit)
        if unit.kind == "tool_call":
            calls[message["id"]] = unit
    _find_mentioned(units)
    return units


def _find_mentioned(units):
    found, last = [terms(unit.text) for unit in units], {}
    for number, names in enumerate(found):
        last.update(dict.fromkeys(names, number))
    for number, (unit, names) in enumerate(zip(units, found)):
        unit.number = number
        unit.mentioned = [name for name in names if last[name] > number]
