"""Why something stands still: one judgement for the watchdog inside a worker and for the supervisor outside.

Whoever looks takes a sample of the worker every now and then: what its black box says, and what the kernel says of its
threads. Two samples in a row make a verdict about the time between them, by one table (`classify`); verdicts in a row
make the time for which the same piece of code has kept the lane (`Stuck`), and in it only such time counts as the
worker had the chance to run.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What a worker did between two samples."""

    healthy = "healthy"  # the lane turns, or has nothing to do
    busy = "busy"  # the lane goes from one piece of code to the next, slowly
    blocked = "blocked"  # the same code all the time, others could have the GIL
    held_on_cpu = "held_on_cpu"  # the same code all the time, with the GIL, computing
    held_waiting = "held_waiting"  # the same code all the time, with the GIL, waiting for something
    stopped = "stopped"  # by a signal, or a debugger
    frozen = "frozen"  # by a cgroup
    starved = "starved"  # it wanted a CPU and got none
    collecting = "collecting"  # Python's garbage collection
    observer_late = "observer_late"  # whoever looks was itself away


# verdicts whose time counts against the code that has the lane
COUNTING = frozenset({Verdict.blocked, Verdict.held_on_cpu, Verdict.held_waiting})
# those in which no thread of the worker can speak for it
MUTE = frozenset({Verdict.held_on_cpu, Verdict.held_waiting})


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadSample:
    """What the kernel says of one thread; `state` as in /proc (R, S, D, T, t, Z), empty if unknown. Times add up."""

    state: str = ""
    cpu_ms: float = 0.0
    wait_ms: float = 0.0  # in the run queue


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One look at a worker. Times are monotonic ms; `None` is unknown."""

    at_ms: int
    late_ms: int = 0  # how much later than planned the observer looked
    watch_beat_ms: int | None = None  # when its watchdog thread last ran
    entries: int | None = None  # number of the code that has the lane (0: nobody has it)
    since_ms: int = 0  # since when it has it
    gc_since_ms: int = 0  # a collection is under way since then; 0: none
    gc_total_ms: int = 0  # time spent in collections so far
    lane: ThreadSample = ThreadSample()
    frozen: bool = False
