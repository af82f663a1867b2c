"""From a worker's SIGKILL until the step that it was in is executing again.

Restarted: the killed worker is started again at once, as a service manager would. Start-up is what any Python worker
of these packages needs until the workflows are imported; the rest is the product's own: open the store, find the dead,
free its run, claim it, replay. Second worker: nothing is started; a worker that was idle takes over.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from benchmarks.bench import Bench, Home, Unfit
from benchmarks.figures import Case, Measurement, Metric
from benchmarks.systems.dbos import Dbos
from benchmarks.systems.pyrula import Pyrula
from benchmarks.systems.system import System

_PATIENCE_S = 20.0
Times = dict[str, Sequence[float]]


def measurement() -> Measurement:
    """The product and DBOS; the latter without a second worker, which takes over only with a service of its maker."""
    return Measurement(
        name="recovery",
        title="SIGKILL in a step of 60 s, until the step executes again",
        about=(
            f"Twenty kills for Pyrula, five for DBOS. None: not within {_PATIENCE_S:.0f} s. Start-up: command until "
            "the workflows are imported; the rest is what recovery takes."
        ),
        metrics=(
            Metric(key="restarted", title="killed worker started again: kill to executing", unit="ms"),
            Metric(key="start_up", title="of it, start-up", unit="ms"),
            Metric(key="rest", title="of it, the rest", unit="ms"),
            Metric(key="second", title="second worker alive: kill to executing", unit="ms"),
        ),
        cases=(
            Case(system="Pyrula", run=lambda bench: _kills(bench, Pyrula(), bench.size(4, 1))),
            Case(system="DBOS", run=lambda bench: _restarts(bench, Dbos(), 1)),
            Case(system="DBOS", run=lambda bench: _takeovers(bench, Dbos(), 1), at_most=1),
        ),
    )


def _kills(bench: Bench, system: System, count: int) -> Times:
    return {**_restarts(bench, system, count), **_takeovers(bench, system, count)}


def _restarts(bench: Bench, system: System, count: int) -> Times:
    totals, start_ups = [], []
    for _ in range(count):
        with bench.home() as home:
            killed_ns = _kill_in_step(home, system)
            home.start(system.worker(home))
            again_ns = home.wait_for("step", 2)[1].at_ns
            totals.append((again_ns - killed_ns) / 1e6)
            start_ups.append((home.tape.of("imported")[1].at_ns - killed_ns) / 1e6)
    rests = [total - start_up for total, start_up in zip(totals, start_ups, strict=True)]
    return {"restarted": totals, "start_up": start_ups, "rest": rests}


def _takeovers(bench: Bench, system: System, count: int) -> Times:
    times = []
    for _ in range(count):
        with bench.home() as home:
            killed_ns = _kill_in_step(home, system, second=True)
            try:
                again_ns = home.wait_for("step", 2, _PATIENCE_S)[1].at_ns
            except Unfit:
                times.append(math.inf)
            else:
                times.append((again_ns - killed_ns) / 1e6)
    return {"second": times}


def _kill_in_step(home: Home, system: System, *, second: bool = False) -> int:
    system.prepare(home)
    victim = home.start(system.worker(home))
    home.ask(system.client(home, "fill", "one_long", 1))
    home.wait_for("step", 1)
    if second:
        home.start(system.worker(home, "2"))
        home.wait_for("imported", 2)
        time.sleep(1)  # it is idle then
    return home.kill(victim)
