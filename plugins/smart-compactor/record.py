"""What was seen: counts of all, and of the last compactions the fate of each message, in memory."""
import collections
import threading

from units import FATES

ROWS_MAX = 200_000  # of all compactions together; the oldest go first


class Record:
    """One compaction of ours."""

    def __init__(self, plan, trigger):
        self.trigger = trigger
        self.is_used = None  # until kaged has told
        self.words, self.before, self.after = plan.words(), plan.before, plan.after
        self.budget, self.summary = plan.budget, plan.summary
        self.counts = {fate: plan.count(fate) for fate in FATES}
        self.rows = sorted(((message["position"], message["id"], unit.kind, unit.speaker, unit.fate,
                             unit.why) for unit in plan.units for message in unit.messages))

    def view(self, fate, offset, limit):
        rows = [row for row in self.rows if fate in (None, row[4])]
        names = ("position", "id", "kind", "speaker", "fate", "why")
        return {"trigger": self.trigger, "is_used": self.is_used, "what": self.words,
                "tokens_before": self.before, "tokens_after": self.after,
                "target_tokens": self.budget, "summary": self.summary, "counts": self.counts,
                "messages": [dict(zip(names, row)) for row in rows[offset:offset + limit]],
                "more": max(len(rows) - offset - limit, 0)}


class Records:
    """The last compaction of each agent of a session; hooks and calls come on several threads."""

    def __init__(self):
        self._lock = threading.Lock()
        self._records = collections.OrderedDict()
        self._rows = 0
        self._counts = collections.Counter()

    def count(self, *names):
        with self._lock:
            self._counts.update(names)

    def counts(self):
        with self._lock:
            return dict(sorted(self._counts.items()))

    def put(self, key, record):
        with self._lock:
            self._drop(key)
            self._records[key] = record
            self._rows += len(record.rows)
            while self._rows > ROWS_MAX and len(self._records) > 1:
                self._drop(next(iter(self._records)))

    def _drop(self, key):
        old = self._records.pop(key, None)
        self._rows -= len(old.rows) if old is not None else 0

    def get(self, key):
        with self._lock:
            return self._records.get(key)
