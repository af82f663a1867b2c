"""How late runs go on that sleep until a moment: many of them at once, and one after another."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from benchmarks.bench import Bench, Home, module
from benchmarks.figures import Case, Measurement, Metric, quantile
from benchmarks.systems.supervisor import Given, supervised
from benchmarks.systems.valkey import Server
from benchmarks.systems.waiting_runs import until_asleep

_APP = "benchmarks.inside.sleeping_app"
_WORKERS = 2
# how many, and how far apart (milliseconds); how many can safely be submitted and brought to sleep in a second
_CASES = {"10,000 at one moment": (10_000, 0), "300, each alone": (300, 70)}
_ASLEEP_PER_S = 250
_START_S = 3.0


def measurement() -> Measurement:
    """The product, in a crowd and alone."""
    return Measurement(
        name="timers",
        title=f"How late sleeping runs go on, {_WORKERS} supervised workers",
        about=(
            "Each run sleeps until a moment of the wall clock. Late is its first line after that, in a worker that "
            "has claimed it and replayed its body by then. All are asleep before the first moment comes."
        ),
        metrics=(
            Metric(key="earliest", title="earliest of all", unit="ms"),
            Metric(key="p50", title="half of them within", unit="ms"),
            Metric(key="p99", title="99 % within", unit="ms"),
            Metric(key="latest", title="latest of all", unit="ms"),
            Metric(key="per_s", title="gone on, from the first to the last", unit="runs/s", more_is_better=True),
        ),
        cases=tuple(
            Case(system=f"{store}, {name}", run=partial(_run, url, *numbers))
            for store, url in (("SQLite", lambda _home: None), ("Valkey", lambda home: Server(home).url))
            for name, numbers in _CASES.items()
        ),
    )


def _run(url: Callable[[Home], str | None], count: int, apart_ms: int, bench: Bench) -> dict[str, float]:
    count = bench.size(count, 50)
    with bench.home() as home, supervised(home, Given(app=_APP, procs=_WORKERS, store=url(home))) as supervisor:
        supervisor.ready()
        supervisor.settled()
        after_s = _START_S + count / _ASLEEP_PER_S
        home.ask(module("benchmarks.inside.sleeping_client", supervisor.url, str(count), str(after_s), str(apart_ms)))
        until_asleep(supervisor.url, count)
        woken = home.wait_for("woken", count)
    ahead_ns = time.time_ns() - time.monotonic_ns()  # of the wall clock
    late_ms = [(note.at_ns + ahead_ns) / 1e6 - int(note.key.partition(":")[2]) for note in woken]
    return {
        "earliest": min(late_ms),
        "p50": quantile(late_ms, 0.5),
        "p99": quantile(late_ms, 0.99),
        "latest": max(late_ms),
        "per_s": count / max((woken[-1].at_ns - woken[0].at_ns) / 1e9, 1e-9),
    }
