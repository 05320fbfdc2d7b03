"""The compaction itself: a context and a budget in, what stays and why out. It uses no clock and no
chance, and its time grows with the size of the context and no faster.

    score      each unit by the table of rules
    keep       from the best down, whole or shortened, while there is room
    sum up     the rest in one message of lines, again from the best down
    arrange    all in the old order; nothing new stands between a call and its result
"""
import collections
import re
from typing import NamedTuple

from rules import MENTIONED_MAX, WEIGHTS, rules_with, score
from texts import gist, one_line, shortened
from tokens import new_message_tokens, text_sixths
from units import Unit, context_of, units_of

SHORTENED_MAX = 200  # new messages; kaged takes 256
SUMMARY_TOKENS_MAX = 2000
LITTLE_TOKENS = 150
LINE_TOKENS_LEAST = 12  # none is worth less room than that
STAYS = "kaged keeps the system's words, the first request, the last turns and open calls"
SETTINGS = {**WEIGHTS, "keep_from": 20, "output_tokens": 400, "target_percent": 50,
            "summary_percent": 20, "words": []}

# Whoever's words are in them: what a tool said must not come back as the user's or the system's.
ROLE = "assistant"

_HEADER = "Summary of %d earlier messages:"
_HEADER_LINE = re.compile(r"Summary of (\d{1,9}) earlier messages:\Z")
_MORE = "(extracts; what they leave out can be read in the session's entries)"


class Plan:
    """What became of each unit, and the figures."""

    def __init__(self, units, before, budget):
        self.units, self.before, self.budget = units, before, budget
        self.after = 0
        self.summary = None  # the new message
        self.messages, self.superseded = [], []

    def count(self, fate):
        return sum(len(unit.messages) for unit in self.units if unit.fate == fate)

    def words(self):
        """For the operator."""
        return (f"Of {sum(len(unit.messages) for unit in self.units)} messages "
                f"{self.count('stays')} had to stay, {self.count('kept')} were kept, "
                f"{self.count('shortened')} shortened, {self.count('summarized')} summed up and "
                f"{self.count('dropped')} dropped: {self.before} tokens became {self.after}, "
                f"{self.budget} were the aim.")


class Line(NamedTuple):
    """One that the summary may have."""

    unit: Unit
    text: str
    score: int


class Compaction:
    def __init__(self, params, config, plugin):
        self.settings = {**SETTINGS, **config}
        self.plugin = plugin
        self.context = context_of(params)
        self.units = units_of(self.context)
        self.going = [unit for unit in self.units if not unit.stays]
        self.rules = rules_with(self.settings["words"])
        self.earlier = self._earlier_summaries()
        before = sum(unit.tokens for unit in self.units)
        self.plan = Plan(self.units, before, self._budget(params, before))

    def _budget(self, params, before):
        named = params.get("target_tokens")
        if type(named) is int and named > 0:
            return min(named, before - 1)
        return before * self.settings["target_percent"] // 100

    def run(self):
        self._score()
        stays = sum(unit.tokens for unit in self.units if unit.stays)
        room = max(self.plan.budget - stays, 0)
        percent = self.settings["summary_percent"]
        ranked = self._ranked()
        kept = self._keep(ranked, room - min(room * percent // 100, SUMMARY_TOKENS_MAX))
        if percent > 0:
            self._sum_up(ranked, min(room - kept, SUMMARY_TOKENS_MAX) if room else self._a_little())
        self._arrange()
        self._add_up(stays)
        return self.plan

    # -- score

    def _score(self):
        for unit in self.units:
            if unit.stays:
                unit.decide("stays", "pinned" if unit.messages[0].get("pinned") else STAYS)
                continue
            age = 1 - (unit.number + 1) / len(self.units)
            unit.reasons = score(unit, self.rules, self.settings, age)
            unit.score = sum(weight for _, weight in unit.reasons)

    def _ranked(self):
        """The best first, of equals the newest; by buckets, since scores are small numbers."""
        buckets = collections.defaultdict(list)
        for unit in reversed(self.going):
            buckets[unit.score].append(unit)
        return [unit for value in sorted(buckets, reverse=True) for unit in buckets[value]]

    # -- keep

    def _keep(self, ranked, room):
        """Decides what is kept; the tokens of that."""
        used, new, least = 0, 0, self.settings["keep_from"]
        for unit in ranked:
            why = ", ".join(f"{name} {weight}" for name, weight in unit.reasons) or "no rule"
            problem = self._problem(unit)
            may_shorten = unit.tokens > self.settings["output_tokens"] and new < SHORTENED_MAX
            if problem is not None:
                unit.decide("dropped", problem)
            elif unit.score < least:
                unit.decide("dropped", f"{why}: below {least}")
            elif used + unit.tokens <= room and not (unit.is_pair and may_shorten):
                unit.decide("kept", why)
                used += unit.tokens
            elif may_shorten and self._shorten(unit, room - used, why):
                used += self._new_tokens(unit.new_text)
                new += 1
            else:
                unit.decide("dropped", f"{why}: no room")
        return used

    def _problem(self, unit):
        """Why it goes whatever its score is."""
        if unit.kind == "injection":
            return "a plugin's note on the last compaction"
        if unit in self.earlier:
            return "what there is room for of its lines is in the new summary"
        if unit.kind in ("tool_call", "tool_result") and not unit.is_pair:
            return "a call without its result, or the reverse"
        return None

    def _matcher(self, unit):
        """Whether a piece of the unit's text is what it is kept for."""
        words = [rule.words for rule in self.rules
                 if any(name == rule.name for name, _ in unit.reasons)]
        names = unit.mentioned[:MENTIONED_MAX]
        return lambda text: (any(word.search(text) for word in words)
                             or any(name in text for name in names))

    def _new_tokens(self, text):
        return new_message_tokens(text_sixths(text), self.plugin)

    def _shorten(self, unit, room, why):
        """Whether that is short enough."""
        before = unit.output if unit.is_pair else unit.text
        text = shortened(before, 2 * self.settings["output_tokens"], self._matcher(unit))
        who = one_line(unit.call, 200) if unit.is_pair else unit.speaker
        new = f"[shortened from {len(before)} characters] {who}\n{text}"
        cost = self._new_tokens(new)
        if cost > room or cost >= unit.tokens:
            return False
        unit.new_text = new
        unit.decide("shortened", why)
        return True

    # -- sum up

    def _a_little(self):
        """The room of a summary where what has to stay is more than the budget already."""
        return min(LITTLE_TOKENS, sum(unit.tokens for unit in self.going) // 2)

    def _earlier_summaries(self):
        """{unit: (count, lines)} of those that we wrote."""
        found = {}
        for unit in self.going:
            if unit.is_summary and unit.plugin == self.plugin:
                first, *rest = unit.text.split("\n")
                header = _HEADER_LINE.match(first)
                if header is not None:
                    lines = [line for line in rest if line.startswith("- ")]
                    found[unit] = (int(header.group(1)), lines)
        return found

    def _line(self, unit):
        if not unit.is_pair:
            return f"- {unit.speaker}: {gist(unit.text, self._matcher(unit))}"
        came = gist(unit.output, self._matcher(unit))
        return f"- tool {one_line(unit.call, 80)}: {'error: ' if unit.is_error else ''}{came}"

    def _lines(self, units):
        """The best first: those of earlier summaries have the weight of a summary."""
        old = collections.deque(Line(unit, text, self.settings["summary"])
                                for unit, (_, lines) in self.earlier.items() for text in lines)
        for unit in units:
            while old and old[0].score > unit.score:
                yield old.popleft()
            yield Line(unit, self._line(unit), unit.score)
        yield from old

    def _sum_up(self, ranked, room):
        units = [unit for unit in ranked if unit.fate == "dropped" and not self._problem(unit)]
        count = sum(len(unit.messages) for unit in units)
        header = _HEADER % (count + sum(number for number, _ in self.earlier.values()))
        used, chosen = text_sixths(f"{header}\n{_MORE}"), []
        for line in self._lines(units):
            cost = text_sixths("\n" + line.text)
            left = room - new_message_tokens(used, self.plugin)
            if left < LINE_TOKENS_LEAST:
                break
            if new_message_tokens(used + cost, self.plugin) <= room:
                used += cost
                chosen.append(line)
        if not chosen:
            return
        for line in chosen:
            line.unit.decide("summarized", line.unit.why)
        chosen.sort(key=lambda line: line.unit.number)
        self.plan.summary = "\n".join([header, *(line.text for line in chosen), _MORE])

    # -- arrange

    def _arrange(self):
        fates = {message["id"]: unit for unit in self.units for message in unit.messages}
        pending, open_calls, summary = [], 0, self.plan.summary
        for message, _ in self.context:
            unit = fates[message["id"]]
            if unit.fate in ("stays", "kept"):
                if open_calls == 0:
                    self._put_new(pending)
                self.plan.messages.append({"id": message["id"]})
                if unit.is_pair:
                    open_calls += 1 if message is unit.messages[0] else -1
                continue
            self.plan.superseded.append(message["id"])
            if summary is not None and unit.fate in ("summarized", "dropped"):
                pending.append(summary)
                summary = None
            if unit.fate == "shortened" and message is unit.messages[-1]:
                pending.append(unit.new_text)
        self._put_new(pending)

    def _put_new(self, pending):
        self.plan.messages += [{"role": ROLE, "content": text} for text in pending]
        pending.clear()

    def _add_up(self, stays):
        kept = sum(unit.tokens for unit in self.units if unit.fate == "kept")
        new = sum(self._new_tokens(message["content"])
                  for message in self.plan.messages if "content" in message)
        self.plan.after = stays + kept + new


def compact(params, config, plugin):
    return Compaction(params, config, plugin).run()
