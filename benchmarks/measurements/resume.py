"""From a worker's SIGKILL under a supervisor until its run executes again, on whichever worker takes it."""

from __future__ import annotations

import signal
import time
from functools import partial

from benchmarks.bench import Bench
from benchmarks.figures import Case, Measurement, Metric, quantile
from benchmarks.processes import send_all
from benchmarks.systems.supervisor import Given, supervised

_SETTLE_S = 0.1
_DEATHS_OF_A_SLOT = 2  # on the average; what dies again and again is started again ever later


def measurement() -> Measurement:
    """Two and four processes."""
    return Measurement(
        name="resume",
        title="SIGKILL of a supervised worker, until its run executes again",
        about=(
            "Fifty kills, one after another, each once all workers were ready again; one run in a step at a time. "
            "After a few kills a new supervisor, since it starts ever later what dies often."
        ),
        metrics=(
            Metric(key="p50", title="half of them within", unit="ms"),
            Metric(key="p95", title="95 % within", unit="ms"),
            Metric(key="longest", title="longest of all", unit="ms"),
        ),
        cases=tuple(Case(system=f"{procs} workers", run=partial(_run, procs), at_most=1) for procs in (2, 4)),
    )


def _run(procs: int, bench: Bench) -> dict[str, float]:
    left, took_ms = bench.size(50, 3), list[float]()
    while left:
        count = min(left, procs * _DEATHS_OF_A_SLOT)
        took_ms += _kills(bench, procs, count)
        left -= count
    return {"p50": quantile(took_ms, 0.5), "p95": quantile(took_ms, 0.95), "longest": max(took_ms)}


def _kills(bench: Bench, procs: int, count: int) -> list[float]:
    took_ms = []
    with bench.home() as home, supervised(home, Given(procs=procs)) as supervisor:
        supervisor.ready()
        for number in range(count):
            supervisor.submit("once_held", str(number))
            first = home.wait_for("step", 2 * number + 1)[-1]
            time.sleep(_SETTLE_S)
            killed_ns = time.monotonic_ns()
            send_all([first.pid], signal.SIGKILL)
            again = home.wait_for("step", 2 * number + 2)[-1]
            took_ms.append((again.at_ns - killed_ns) / 1e6)
            supervisor.ready(1 if number + 1 < count else 0)
    return took_ms
