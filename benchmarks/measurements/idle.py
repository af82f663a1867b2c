"""What workers cost that have nothing to do: processor, statements, memory. Six workflows are served."""

from __future__ import annotations

import time
from collections.abc import Mapping

import psutil  # type: ignore[import-untyped]

from benchmarks.bench import Bench, Home
from benchmarks.figures import Case, Measurement, Metric
from benchmarks.systems.dbos import Dbos
from benchmarks.systems.pyrula import Pyrula
from benchmarks.systems.system import System

_SETTLE_S = 3.0
_WARM = 20
_MB = 1e6


def measurement() -> Measurement:
    """The product and DBOS, one worker and four."""
    per_count = {
        "cpu": ("processor, all together", "% of a core"),
        "statements": ("statements given to SQLite, all together", "/s"),
        "writes": ("of them, write transactions", "/s"),
        "rss": ("resident memory of a worker", "MB"),
        "uss": ("private memory of a worker", "MB"),
    }
    return Measurement(
        name="idle",
        title="Idle workers that serve six workflows",
        about=f"A window of 20 s, {_SETTLE_S:.0f} s after {_WARM} no-op runs.",
        metrics=tuple(
            Metric(key=f"{key}_{count}", title=f"{count} worker{'s' * (count > 1)}: {title}", unit=unit)
            for count in (1, 4)
            for key, (title, unit) in per_count.items()
        ),
        cases=(
            Case(system="Pyrula", run=lambda bench: _run(bench, Pyrula(counted=True))),
            Case(system="DBOS", run=lambda bench: _run(bench, Dbos())),
        ),
    )


def _run(bench: Bench, system: System) -> dict[str, float]:
    found: dict[str, float] = {}
    for count in (1, 4):
        with bench.home() as home:
            system.prepare(home)
            workers = [psutil.Process(home.start(system.worker(home, str(n))).pid) for n in range(count)]
            home.wait_for("imported", count)
            home.ask(system.client(home, "fill", "noop", _WARM))
            home.wait_for("begin", _WARM)
            time.sleep(_SETTLE_S)
            window = _window(home, workers, bench.size(20, 2))
            found |= {f"{key}_{count}": value for key, value in window.items()}
    return found


def _window(home: Home, workers: list[psutil.Process], window_s: float) -> Mapping[str, float]:
    home.tape.forget()
    before_s = _busy_s(workers)
    time.sleep(window_s)
    busy_s = _busy_s(workers) - before_s
    memory = [worker.memory_full_info() for worker in workers]
    found = {
        "cpu": busy_s / window_s * 100,
        "rss": sum(each.rss for each in memory) / len(memory) / _MB,
        "uss": sum(each.uss for each in memory) / len(memory) / _MB,
    }
    if statements := home.tape.of("statement"):
        found["statements"] = len(statements) / window_s
        found["writes"] = sum(note.key == "BEGIN" for note in statements) / window_s
    return found


def _busy_s(workers: list[psutil.Process]) -> float:
    times = [worker.cpu_times() for worker in workers]
    return float(sum(each.user + each.system for each in times))
