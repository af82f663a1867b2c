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
        about="Twelve kills: each worker of three supervisors of four. The app imports openai, httpx and pydantic.",
        metrics=(
            Metric(key="p50", title="half of them within", unit="ms"),
            Metric(key="longest", title="longest of all", unit="ms"),
            Metric(key="start", title="command until all four are ready", unit="ms"),
        ),
        cases=tuple(Case(system=method, run=partial(_run, method), at_most=1) for method in START_METHODS),
    )


def _run(method: str, bench: Bench) -> dict[str, float | list[float]]:
    took_ms, starts_ms = list[float](), list[float]()
    for _ in range(bench.size(3, 1)):
        with bench.home() as home:
            began_ns = time.monotonic_ns()
            with supervised(home, realistic(method)) as supervisor:
                pids = supervisor.ready()
                starts_ms.append((time.monotonic_ns() - began_ns) / 1e6)
                for pid in pids:
                    time.sleep(_SETTLE_S)
                    killed_ns = time.monotonic_ns()
                    os.kill(pid, signal.SIGKILL)
                    supervisor.ready(1)
                    took_ms.append((time.monotonic_ns() - killed_ns) / 1e6)
    return {"p50": quantile(took_ms, 0.5), "longest": max(took_ms), "start": starts_ms}
