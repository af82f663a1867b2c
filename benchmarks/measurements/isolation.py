"""What a lane of its own costs a turn, and what it spares the others."""

from __future__ import annotations

from functools import partial

from benchmarks.bench import Bench, module
from benchmarks.figures import Case, Measurement, Metric

_KINDS = {'isolation="turn"': "turn", 'isolation="lane"': "lane"}


def measurement() -> Measurement:
    """The same turns with lanes of their own and on one that they share."""
    return Measurement(
        name="isolation",
        title="A thread and event loop for each turn",
        about=(
            "A turn: one async step that does nothing, on a store that answers at once, from its claim until its place "
            "is free, one after the other. Others: 50 turns that sleep 10 ms again and again, while one turn computes "
            "in Python for 2 s; how much later than planned a sleep ends. On a shared lane most of them end after the "
            "computation, so there is but one figure each."
        ),
        metrics=(
            Metric(key="turn", title="a turn", unit="µs"),
            Metric(key="p50", title="others beside one that computes, 50 % late by less than", unit="ms"),
            Metric(key="p99", title="the same, 99 %", unit="ms"),
            Metric(key="max", title="the same, all", unit="ms"),
        ),
        cases=tuple(Case(system=name, run=partial(_run, kind), at_most=5) for name, kind in _KINDS.items()),
    )


def _run(kind: str, bench: Bench) -> dict[str, float]:
    count, spin_s = bench.size(2_000, 50), bench.size(20, 2) / 10
    with bench.home() as home:
        return home.ask(module("benchmarks.inside.isolation", kind, str(count), str(spin_s)))
