"""The table of ratios: rows, their goals, how they are printed, and results.json.

A ratio says how many times better kaged is than its peer: of rates ours by theirs, of times and
memory theirs by ours. It is the median of the ratios of single rounds, since the two of a round ran
one after the other on a machine that was equally busy.
"""
import dataclasses
import json
import os
import statistics
import sys

RED, GREEN, PLAIN = "\033[31m", "\033[32m", "\033[0m"
HEAD = ("what", "value", "spread", "peer", "value", "spread", "ratio", "goal", "")


def spread(values):
    """The middle half of the values, as a share of their median."""
    if len(values) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / middle if middle else 0.0


@dataclasses.dataclass(frozen=True)
class Goal:
    of: str  # "ratio" or "value"
    least: float | None = None
    most: float | None = None

    def met(self, row):
        figure = row.ratio if self.of == "ratio" else row.value
        return (self.least is None or figure >= self.least) and (self.most is None or figure <= self.most)

    def words(self, unit):
        sign, bound = (">=", self.least) if self.least is not None else ("<=", self.most)
        return f"{sign} {bound:g}" + ("x" if self.of == "ratio" else f" {unit}")


def ratio_of(least):
    return Goal("ratio", least=least)


def value_of(most=None, least=None):
    return Goal("value", least=least, most=most)


@dataclasses.dataclass
class Row:
    name: str
    unit: str
    ours: list  # a figure a round
    peer: str
    theirs: list  # the peer's, of the same rounds
    less_is_better: bool = False
    goal: Goal | None = None

    @property
    def value(self):
        return statistics.median(self.ours)

    @property
    def peer_value(self):
        return statistics.median(self.theirs)

    @property
    def ratio(self):
        pairs = zip(self.ours, self.theirs)
        return statistics.median(b / a if self.less_is_better else a / b for a, b in pairs)

    @property
    def met(self):
        return None if self.goal is None else self.goal.met(self)

    def cells(self):
        goal = "" if self.goal is None else self.goal.words(self.unit)
        return (self.name, figure(self.value, self.unit), f"{spread(self.ours):.0%}", self.peer,
                figure(self.peer_value, self.unit), f"{spread(self.theirs):.0%}",
                f"{self.ratio:.2f}", goal, {None: "", True: "met", False: "MISSED"}[self.met])

    def record(self):
        return {"name": self.name, "value": self.value, "unit": self.unit, "peer": self.peer,
                "ratio": self.ratio, "goal": self.goal and self.goal.words(self.unit),
                "met": self.met, "median": self.value, "spread": spread(self.ours),
                "peer_median": self.peer_value, "peer_spread": spread(self.theirs),
                "rounds": len(self.ours)}


@dataclasses.dataclass
class LeftOut:
    """A row that could not be measured here, and why."""
    name: str
    peer: str
    why: str
    goal: Goal | None = None
    met = None

    def cells(self):
        return (self.name, "", "", self.peer, "", "", "", "", f"left out: {self.why}")

    def record(self):
        return {"name": self.name, "value": None, "unit": None, "peer": self.peer, "ratio": None,
                "goal": None, "met": None, "median": None, "spread": None, "left_out": self.why}


def figure(value, unit):
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}"


def print_rows(head, rows, colours=None):
    """Columns: words to the left, figures to the right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    left = {i for i, name in enumerate(head) if name in ("what", "peer", "goal", "")}
    for number, row in enumerate([head, *rows]):
        line = "  ".join(cell.ljust(widths[i]) if i in left else cell.rjust(widths[i])
                         for i, cell in enumerate(row)).rstrip()
        colour = colours[number - 1] if colours and number else ""
        print(f"{colour}{line}{PLAIN}" if colour else line)
    sys.stdout.flush()


class Table:
    def __init__(self):
        self.rows = []

    def add(self, *arguments, **options):
        self.rows.append(Row(*arguments, **options))

    def add_all(self, name, unit, figures, peers, missing, goals=None, less_is_better=False):
        """A row for each peer; figures: {who: one a round}, "kaged" among them."""
        for peer in peers:
            if peer in missing:
                self.leave_out(name, peer, missing[peer])
            else:
                self.add(name, unit, figures["kaged"], peer, figures[peer], less_is_better,
                         (goals or {}).get(peer))

    def leave_out(self, name, peer, why):
        self.rows.append(LeftOut(name, peer, why))

    def print(self):
        colours = {True: GREEN, False: RED, None: ""}
        coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        print_rows(HEAD, [row.cells() for row in self.rows],
                   [colours[row.met] for row in self.rows] if coloured else None)
        goals = [row for row in self.rows if row.met is not None]
        print(f"\n{sum(row.met for row in goals)} of {len(goals)} goals met"
              " (value and peer: medians; spread: the middle half of the rounds;"
              " ratio: how many times better)")

    def write(self, path):
        with open(path, "w") as file:
            json.dump([row.record() for row in self.rows], file, indent=1)
            file.write("\n")
