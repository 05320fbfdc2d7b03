"""What makes a message worth keeping. A rule is a row: its name, which is also the setting with its
weight, whose words it applies to, and the words. A tool's output cannot ask to be remembered.
"""
import re
from typing import NamedTuple, Optional

MENTIONED_MAX = 4  # terms that count

WEIGHTS = {
    "remember": 100,
    "decision": 60,
    "summary": 50,  # what an earlier compaction left
    "error": 40,
    "user": 25,  # the user said it
    "mentioned": 15,  # for each path or name in it that comes up again later
    "recent": 15,  # for the newest; older ones have less
}


class Rule(NamedTuple):
    name: str
    speakers: Optional[frozenset]  # None: all
    words: re.Pattern


def _words(*phrases):
    return re.compile(r"(?<!\w)(?:" + "|".join(phrases) + r")(?!\w)", re.IGNORECASE)


_REMEMBER = ("remember", "do not forget", "don't forget", "keep in mind", "from now on", "always",
             "never", "important", "note that", "make sure")
_DECISION = ("decided", "decision", "decide", "we will", "we'll", "let's use", "let's go with",
             "let us use", "agreed", "chose", "chosen", "the plan is", "instead of")
_ERROR = ("errors?", "failed", "fails", "failure", "exception", "traceback", "panic", "fatal",
          "refused", "denied", "not found", "cannot", "can't")

RULES = (
    Rule("remember", frozenset({"user"}), _words(*_REMEMBER)),
    Rule("decision", frozenset({"user", "assistant"}), _words(*_DECISION)),
    Rule("error", None, _words(*_ERROR)),
)


def rules_with(phrases):
    """The table, with what else this user says when something is to be remembered."""
    if not phrases:
        return RULES
    remember = RULES[0]._replace(words=_words(*_REMEMBER, *map(re.escape, phrases)))
    return (remember, *RULES[1:])


def score(unit, rules, weights, age):
    """[(rule, weight)] of a unit; `age` is 0 for the newest and nearly 1 for the oldest."""
    found = [(rule.name, weights[rule.name]) for rule in rules
             if (rule.speakers is None or unit.speaker in rule.speakers)
             and (rule.words.search(unit.text) or rule.name == "error" and unit.is_error)]
    if unit.speaker == "user":
        found.append(("user", weights["user"]))
    if unit.is_summary:
        found.append(("summary", weights["summary"]))
    mentions = min(len(unit.mentioned), MENTIONED_MAX)
    if mentions:
        found.append(("mentioned", mentions * weights["mentioned"]))
    found.append(("recent", int(weights["recent"] * (1 - age))))
    return [(name, weight) for name, weight in found if weight > 0]
