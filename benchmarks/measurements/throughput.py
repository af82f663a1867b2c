"""Runs a second: submitted, and drained from a backlog by one and by two workers.

A drain is timed from the first line of the first run to the last line of the last. Start-up is left out so, but not
what the first runs cost; finishes alone would flatter a system that runs all at once and ends all together.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import apsw

from benchmarks.bench import Bench, Home, Unfit, module
from benchmarks.figures import Case, Measurement, Metric
from benchmarks.measurements.limits import seconds
from benchmarks.systems.dbos import Dbos
from benchmarks.systems.pyrula import Pyrula
from benchmarks.systems.system import System

_STEPS = {"noop": 0, "five": 5}
_LAST = {"noop": "begin", "five": "end"}
_PATIENCE_S = 30.0
Sizes = Mapping[str, int]


def measurement() -> Measurement:
    """The product, the store alone, SQLite alone, DBOS."""
    return Measurement(
        name="throughput",
        title="Runs a second",
        about=(
            "Drained: a backlog, then workers, from the first line of the first run to the last line of the last. "
            "SQLite alone: the rows that a run needs, 50 runs a transaction. Store alone: the store's verbs without "
            "the engine. DBOS, tuned: 50 workflows a worker, ten polls a second."
        ),
        metrics=tuple(
            Metric(key=key, title=title, unit="runs/s", more_is_better=True)
            for key, title in {
                "submit_1": "no-op runs submitted one by one",
                "submit_50": "no-op runs submitted, 50 in flight",
                "noop_1": "no-op runs drained by 1 worker",
                "noop_2": "no-op runs drained by 2 workers",
                "five_1": "5-step runs drained by 1 worker",
                "five_2": "5-step runs drained by 2 workers",
            }.items()
        ),
        cases=(
            Case(system="Pyrula", run=lambda bench: _product(bench, Pyrula(), {"noop": 8_000, "five": 4_000})),
            Case(system="store alone", run=_store_alone),
            Case(system="SQLite alone", run=_sqlite_alone),
            Case(system="DBOS", run=lambda bench: _product(bench, Dbos(), {"noop": 1_000, "five": 200})),
            Case(system="DBOS, tuned", run=_dbos_tuned),
        ),
    )


def _product(bench: Bench, system: System, sizes: Sizes) -> dict[str, float]:
    found: dict[str, float] = {}
    for workflow, full in sizes.items():
        count = bench.size(full, 50)
        for workers in (1, 2):
            in_flight = 1 if (workflow, workers) == ("noop", 1) else 50
            submitted, drained = fill_and_drain(bench, system, workflow, (count, in_flight, workers))
            found[f"{workflow}_{workers}"] = drained
            if workflow == "noop":
                found[f"submit_{in_flight}"] = submitted
    return found


def _dbos_tuned(bench: Bench) -> dict[str, float]:
    _, drained = fill_and_drain(bench, Dbos(tuned=True), "five", (bench.size(200, 50), 50, 2))
    return {"five_2": drained}


def fill_and_drain(bench: Bench, system: System, workflow: str, numbers: tuple[int, int, int]) -> tuple[float, float]:
    """Submit (count, in flight), then let workers loose: runs a second submitted, runs a second drained."""
    count, in_flight, workers = numbers
    with bench.home() as home:
        system.prepare(home)
        submitted = home.ask(system.client(home, "fill", workflow, count, in_flight))["per_s"]
        for number in range(workers):
            home.start(system.worker(home, str(number)))
        took_s = home.span_s("begin", _LAST[workflow], count)
        _check(home, system, count)
        return submitted, count / took_s


def _check(home: Home, system: System, count: int) -> None:
    """A figure counts only if every run was done, once, and is durably so before long."""
    deadline = time.monotonic() + _PATIENCE_S
    while (done := _count_done(home, system)) < count and time.monotonic() < deadline:
        time.sleep(0.1)
    begun = home.tape.of("begin")
    if done != count or len({note.key for note in begun}) != count or len(begun) != count:
        raise Unfit(f"{system.name}: {done} of {count} runs are done, {len(begun)} were begun")


def _count_done(home: Home, system: System) -> int:
    with apsw.Connection(str(home.db), flags=apsw.SQLITE_OPEN_READWRITE) as db:
        db.set_busy_timeout(10_000)
        ((done,),) = db.execute(system.count_done).fetchall()
    return int(str(done))


def _store_alone(bench: Bench) -> dict[str, float]:
    found: dict[str, float] = {}
    for workflow, full in {"noop": 8_000, "five": 4_000}.items():
        count = bench.size(full, 50)
        for workers in (1, 2):
            in_flight = 1 if (workflow, workers) == ("noop", 1) else 50
            with bench.home() as home:
                program, url = "benchmarks.inside.store_alone", Pyrula().url(home)
                submitted = home.ask(module(program, url, "fill", str(count), str(in_flight)))["per_s"]
                home.tape.forget()
                for _ in range(workers):
                    home.start(module(program, url, "drain", str(_STEPS[workflow]), "50"))
                found[f"{workflow}_{workers}"] = count / home.span_s("begin", "end", workers)
            if workflow == "noop":
                found[f"submit_{in_flight}"] = submitted
    return found


def _sqlite_alone(bench: Bench) -> dict[str, float]:
    found: dict[str, float] = {}
    count = bench.size(10_000, 400)
    for key, what in (("submit_1", "single"), ("submit_50", "grouped")):
        with bench.home() as home:
            found[key] = count / seconds(home, what, count, 1)
    for workflow, steps in _STEPS.items():
        for workers in (1, 2):
            with bench.home() as home:
                home.ask(module("benchmarks.inside.raw", str(home.db), "grouped", str(count)))
                home.tape.forget()
                found[f"{workflow}_{workers}"] = count / seconds(home, "drain", steps, workers)
    return found
