"""How something grows: points, medians of rounds, and the exponent that fits them."""
import math
import statistics

from lib.contender import take_turns
from lib.table import print_rows


def exponent(points):
    """k of n^k, by least squares over the logarithms; None without enough points."""
    logs = [(math.log(n), math.log(value)) for n, value in points if value > 0]
    if len(logs) < 3:
        return None
    return statistics.linear_regression(*zip(*logs)).slope


def medians(act, rounds, what):
    """The median of each figure that the act gives."""
    figures = take_turns({what: act}, rounds, what)[what]
    return {key: statistics.median(one[key] for one in figures) for key in figures[0]}


class Growth:
    """columns: {key: heading}; a point has a figure for each key."""

    def __init__(self, title, what, columns):
        self.title, self.what, self.columns, self.points = title, what, columns, []

    def add(self, number, figures):
        self.points.append((number, figures))

    def law(self, key):
        fitted = exponent([(number, figures[key]) for number, figures in self.points])
        return "" if fitted is None else f"n^{fitted:.2f}"

    def print(self):
        print(f"\n{self.title}")
        rows = [(f"{number:,}", *(cell(figures[key]) for key in self.columns))
                for number, figures in self.points]
        rows.append(("grows as", *(self.law(key) for key in self.columns)))
        print_rows((self.what, *self.columns.values()), rows)


def cell(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
