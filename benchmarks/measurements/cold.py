"""From the command to the first line of a run that was waiting."""

from __future__ import annotations

import time
from functools import partial

from benchmarks.bench import Bench
from benchmarks.figures import Case, Measurement, Metric
from benchmarks.systems.dbos import Dbos
from benchmarks.systems.least import Least
from benchmarks.systems.pyrula import Pyrula
from benchmarks.systems.system import System


def measurement() -> Measurement:
    """The product, the least that could do it, DBOS."""
    systems: tuple[System, ...] = (Pyrula(), Least(), Dbos())
    return Measurement(
        name="cold",
        title="Cold start: command to the first line of a waiting run",
        about="The files of the programs are in the page cache. Least possible: Python, asyncio, apsw, one row read.",
        metrics=(
            Metric(key="total", title="command to first line", unit="ms"),
            Metric(key="start_up", title="of it, until the workflows are imported", unit="ms"),
        ),
        cases=tuple(Case(system=each.name, run=partial(_run, each)) for each in systems),
    )


def _run(system: System, bench: Bench) -> dict[str, float]:
    with bench.home() as home:
        system.prepare(home)
        home.ask(system.client(home, "fill", "noop", 1))
        launch = system.worker(home)
        home.tape.forget()
        before_ns = time.monotonic_ns()
        home.start(launch)
        begun_ns = home.wait_for("begin", 1)[0].at_ns
        imported_ns = home.tape.of("imported")[0].at_ns
    return {"total": (begun_ns - before_ns) / 1e6, "start_up": (imported_ns - before_ns) / 1e6}
