"""Calls in flight, and bytes in a message; raw pipes beside them are what the kernel takes."""
import contextlib

from lib.contender import Contender, call, cores
from lib.growth import Growth, medians
from rows.calls import BYTES, RAW, start_kaged

IN_FLIGHT = (1, 4, 16, 64, 256, 1024)
SIZES = (100, 1000, 10_000, 100_000, 1_000_000, (4 << 20) - 1024)  # a line has 4 MiB at most


def both(kaged, raw, words):
    """One round of each, in turns."""
    ours, theirs = call(kaged, *words), call(raw, *words)
    return {"rate": ours["rate"], "run": ours["run_us"], "p50": ours["p50_us"], "p99": ours["p99_us"],
            "raw": theirs["rate"], "ratio": ours["rate"] / theirs["rate"]}


def measure_in_flight(bench, kaged, raw):
    growth = Growth("calls in flight", "in flight", {
        "rate": "calls/s", "p50": "p50, us", "p99": "p99, us", "run": "processor, us",
        "raw": "raw pipes/s", "ratio": "ratio"})
    for count in IN_FLIGHT:
        growth.add(count, medians(lambda: both(kaged, raw, (bench.ms, count, BYTES)), bench.rounds,
                                  f"{count} in flight"))
    growth.print()


def measure_sizes(bench, kaged, raw):
    for back, title in ((0, "bytes in a request"), (1, "bytes in a request and in its answer")):
        growth = Growth(title, "bytes", {
            "p50": "p50, us", "p99": "p99, us", "run": "processor, us", "mb": "MB/s",
            "raw": "raw pipes/s", "ratio": "ratio"})
        for size in SIZES:
            figures = medians(lambda: both(kaged, raw, (bench.ms, 1, size, back)), bench.rounds,
                              f"{size} bytes")
            growth.add(size, {**figures, "mb": figures["rate"] * size * (1 + back) / 1e6})
        growth.print()


def measure(bench):
    core, other = cores()
    with contextlib.ExitStack() as stack:
        kaged = start_kaged(stack, core, other)
        raw = stack.enter_context(Contender(RAW["raw pipes"](), core))
        measure_in_flight(bench, kaged, raw)
        measure_sizes(bench, kaged, raw)
