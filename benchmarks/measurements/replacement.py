"""From a worker's SIGKILL under a supervisor until another is ready in its place, with an app of the usual weight."""

from __future__ import annotations

import os
import signal
import time
from functools import partial

from benchmarks.bench import Bench
from benchmarks.figures import Case, Measurement, Metric, quantile
from benchmarks.systems.realistic import START_METHODS, realistic
from benchmarks.systems.supervisor import supervised

_SETTLE_S = 0.3


def measurement() -> Measurement:
    """All start methods."""
    return Measurement(
        name="replacement",
        title="SIGKILL of a supervised worker, until its replacement is ready",
        about="Four workers; the app imports openai, httpx and pydantic. Twenty kills, each of the youngest worker.",
        metrics=(
            Metric(key="p50", title="half of them within", unit="ms"),
            Metric(key="longest", title="longest of all", unit="ms"),
            Metric(key="start", title="command until all four are ready", unit="ms"),
        ),
        cases=tuple(Case(system=method, run=partial(_run, method), at_most=1) for method in START_METHODS),
    )


def _run(method: str, bench: Bench) -> dict[str, float]:
    took_ms = []
    given = realistic(method)
    with bench.home() as home:
        began_ns = time.monotonic_ns()
        with supervised(home, given) as supervisor:
            pids = supervisor.ready()
            start_ms = (time.monotonic_ns() - began_ns) / 1e6
            for _ in range(bench.size(20, 3)):
                time.sleep(_SETTLE_S)
                killed_ns = time.monotonic_ns()
                os.kill(pids.pop(), signal.SIGKILL)
                pids += supervisor.ready(1)
                took_ms.append((time.monotonic_ns() - killed_ns) / 1e6)
    return {"p50": quantile(took_ms, 0.5), "longest": max(took_ms), "start": start_ms}
