"""What the disk allows: rows committed durably to SQLite with nothing around it."""

from __future__ import annotations

from benchmarks.bench import Bench, Home, module
from benchmarks.figures import Case, Measurement, Metric


def measurement() -> Measurement:
    """Rows a second from one and two processes."""
    return Measurement(
        name="limits",
        title="What SQLite allows on this disk",
        about="apsw, WAL, synchronous=FULL, commits under one lock of the host; rows of about 200 bytes.",
        metrics=(
            Metric(key="single_1", title="a row a commit, 1 process", unit="rows/s", more_is_better=True),
            Metric(key="single_2", title="a row a commit, 2 processes", unit="rows/s", more_is_better=True),
            Metric(key="grouped_1", title="50 rows a commit, 1 process", unit="rows/s", more_is_better=True),
            Metric(key="grouped_2", title="50 rows a commit, 2 processes", unit="rows/s", more_is_better=True),
        ),
        cases=(Case(system="SQLite alone", run=_run),),
    )


def _run(bench: Bench) -> dict[str, float]:
    single, grouped = bench.size(10_000, 400), bench.size(100_000, 4_000)
    return {
        "single_1": _rate(bench, "single", single, 1),
        "single_2": _rate(bench, "single", single, 2),
        "grouped_1": _rate(bench, "grouped", grouped, 1),
        "grouped_2": _rate(bench, "grouped", grouped, 2),
    }


def _rate(bench: Bench, what: str, count: int, processes: int) -> float:
    with bench.home() as home:
        return count / seconds(home, what, count // processes, processes)


def seconds(home: Home, what: str, many: int, processes: int) -> float:
    """From the moment the first process began until the last was done."""
    for _ in range(processes):
        home.start(module("benchmarks.inside.raw", str(home.db), what, str(many)))
    return home.span_s("begin", "end", processes)
