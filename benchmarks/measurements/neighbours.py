"""What a job that blocks its worker for a while does to the quick jobs beside it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

from benchmarks.bench import Bench, Home
from benchmarks.figures import Case, Measurement, Metric, quantile
from benchmarks.processes import become_subreaper, end_orphans
from benchmarks.systems import queues
from benchmarks.tape import Note

_PAUSE_MS = 50
_BEFORE = 40
_AFTER_S = 2
_BLOCK_S = 20
# how long to wait for jobs after the block (seconds); one that is not done by then never came
_PATIENCE_S = 10
_LOOK_S = 0.1
_HOW = {"sleeps": "GIL free", "holds": "GIL held"}

Start = Callable[[Home, int], AbstractContextManager[queues.Queue]]


def measurement() -> Measurement:
    """The product and three queues."""
    parts = {"50": "50 % done within", "99": "99 % done within", "most": "the last done within"}
    return Measurement(
        name="neighbours",
        title=f"Quick jobs while a neighbour blocks its worker for {_BLOCK_S} s, 2 worker processes",
        about=(
            f"A quick job every {_PAUSE_MS} ms from just before its submit to its last line, of those submitted during "
            "the block. GIL free: time.sleep. GIL held: a loop in C that keeps the GIL. Told: what the system says of "
            "the blocking job while it blocks."
        ),
        metrics=tuple(
            metric
            for how, title in _HOW.items()
            for metric in (
                *(Metric(key=f"{how}_{key}", title=f"{title}: {part}", unit="ms") for key, part in parts.items()),
                Metric(key=f"{how}_told", title=f"{title}: told"),
            )
        ),
        cases=tuple(Case(system=name, run=partial(_run, start), at_most=3) for name, start in queues.SYSTEMS.items()),
    )


def _run(start: Start, bench: Bench) -> dict[str, float | str]:
    become_subreaper()
    found: dict[str, float | str] = {}
    for how in _HOW:
        try:
            found |= {f"{how}_{key}": value for key, value in _beside(bench, start, how).items()}
        finally:
            end_orphans()
    return found


def _beside(bench: Bench, start: Start, how: str) -> dict[str, float | str]:
    block_s = bench.size(_BLOCK_S, 3)
    after = (block_s + _AFTER_S) * 1000 // _PAUSE_MS
    with bench.home() as home, start(home, block_s) as queue:
        home.start(queue.client(how, _PAUSE_MS, _BEFORE, after))
        stuck = home.wait_for("stuck", 1)[0]
        told = _told(home, queue, stuck)
        released = home.wait_for("released", 1, 2 * block_s)[0]
        home.wait_for("submit", _BEFORE + after)
        _patient(home, _BEFORE + after)
        took_ms = _took_ms(home, stuck, released)
    return {"50": quantile(took_ms, 0.5), "99": quantile(took_ms, 0.99), "most": max(took_ms), "told": told}


def _told(home: Home, queue: queues.Queue, stuck: Note) -> str:
    """What was said of the job during the block, and when for the first time."""
    while not home.tape.of("released"):
        if said := queue.heard():
            return f"{said} after {(time.monotonic_ns() - stuck.at_ns) / 1e9:.1f} s"
        time.sleep(_LOOK_S)
    return "nothing"


def _patient(home: Home, count: int) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while len(home.tape.of("end")) < count and time.monotonic() < deadline:
        time.sleep(_LOOK_S)


def _took_ms(home: Home, stuck: Note, released: Note) -> list[float]:
    """Of each job that was submitted during the block; one that never came took for ever."""
    ends = {note.key: note.at_ns for note in home.tape.of("end")}
    during = [note for note in home.tape.of("submit") if stuck.at_ns <= note.at_ns <= released.at_ns]
    return [(ends.get(note.key, math.inf) - note.at_ns) / 1e6 for note in during]
