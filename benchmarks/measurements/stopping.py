"""How long a supervisor takes to end, whatever its workers are at."""

from __future__ import annotations

import os
import signal
import time

from benchmarks.bench import Bench, Unfit
from benchmarks.figures import Case, Measurement, Metric
from benchmarks.processes import descendants, is_dead
from benchmarks.systems.supervisor import Given, Supervised, supervised
from pyrula_runtime.options import WorkerOptions
from pyrula_supervisor.stopping import LAST_MS

_GRACE_S, _CANCEL_S = 1.0, 0.5
_WAITS = 3  # places at which a drain waits for what it cancelled
_PATIENCE_S = 30.0
_SETTLE_S = 0.5
_FAULTS = {
    "idle": "all idle",
    "sleeps": "one in time.sleep(600) on its lane",
    "matches": "one in a regular expression, GIL held",
    "stopped": "one stopped by SIGSTOP",
}
_GIVEN = Given(flags=("--shutdown-grace", str(_GRACE_S), "--cancel-timeout", str(_CANCEL_S)))


def measurement() -> Measurement:
    """Four workers, one of them in the way."""
    kinds = [Metric(key=key, title=f"SIGTERM to the end: {title}", unit="s") for key, title in _FAULTS.items()]
    return Measurement(
        name="stopping",
        title="Stopping a supervisor of four workers",
        about=(
            f"A grace of {_GRACE_S:g} s and {_CANCEL_S:g} s for each of {_WAITS} waits of a drain. The bound is their "
            f"sum and {LAST_MS / 1000:g} s for burials and clerk. In each case no process is left."
        ),
        metrics=(
            *kinds,
            Metric(
                key="twice", title="second SIGTERM half a second later, to the end: one in time.sleep(600)", unit="s"
            ),
            Metric(key="bound", title="bound with these graces", unit="s"),
            Metric(key="default", title="bound with the defaults", unit="s"),
        ),
        cases=(Case(system="Pyrula", run=_run, at_most=1),),
    )


def _run(bench: Bench) -> dict[str, float]:
    options = WorkerOptions()
    found = {key: _stopped_s(bench, key) for key in _FAULTS}
    return found | {
        "twice": _stopped_s(bench, "sleeps", again=True),
        "bound": _bound_s(_GRACE_S, _CANCEL_S),
        "default": _bound_s(options.shutdown_grace, options.cancel_timeout),
    }


def _bound_s(grace_s: float, cancel_s: float) -> float:
    return grace_s + _WAITS * cancel_s + LAST_MS / 1000


def _stopped_s(bench: Bench, fault: str, *, again: bool = False) -> float:
    with bench.home() as home, supervised(home, _GIVEN) as supervisor:
        pids = supervisor.ready()
        supervisor.settled()
        _hurt(supervisor, fault, pids[0])
        time.sleep(_SETTLE_S)
        everyone = descendants(supervisor.process.pid)
        if again:
            supervisor.process.terminate()
            time.sleep(_SETTLE_S)
        asked_s = time.monotonic()
        supervisor.process.terminate()
        code = supervisor.process.wait(_PATIENCE_S)
        took_s = time.monotonic() - asked_s
        left = [pid for pid in everyone if not is_dead(pid)]
        if left or code != (128 + signal.SIGTERM if again else 0):
            raise Unfit(f"exit {code}, {len(left)} processes left\n{home.said(supervisor.process)[-3_000:]}")
        return took_s


def _hurt(supervisor: Supervised, fault: str, pid: int) -> None:
    if fault == "stopped":
        os.kill(pid, signal.SIGSTOP)
    elif fault != "idle":
        supervisor.submit(fault, "0")
        supervisor.home.wait_for("stuck", 1)
