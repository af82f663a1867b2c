"""What a person does to many runs at once: which of them, and how fast.

A rate spaces them evenly, because whatever was mended is rarely at its full strength yet. Time that is lost on the way
is not made up for by a burst.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pyrula_runtime.core.blame import Cause
from pyrula_runtime.core.errors import ErrorRecord, UsageError
from pyrula_runtime.core.status import TERMINAL, TRANSITIONS, RunEvent, RunStatus

# what a run can be quarantined for
CAUSES = tuple(cause for cause in Cause if cause is not Cause.blameless)
# runs a second
LOWEST_RATE, HIGHEST_RATE = 1 / 3600, 10_000.0
# at most as many at once; more take several calls (runs)
MOST = 1_000_000
# no run is older (s)
CENTURY_S = 100 * 366 * 86_400


class Act(StrEnum):
    """What can be done to a run."""

    cancel = "cancel"  # ask it to unwind
    pause = "pause"  # take it from whoever has it, until it is resumed
    resume = "resume"  # let a paused run go on
    requeue = "requeue"  # send it on after a fix
    fork = "fork"  # begin a new run with the first part of its journal

    @property
    def done(self) -> str:
        """What has been done to a run then."""
        return _DONE[self]


_DONE = {
    Act.cancel: "cancelled",
    Act.pause: "paused",
    Act.resume: "resumed",
    Act.requeue: "requeued",
    Act.fork: "forked",
}


def _from(event: RunEvent) -> frozenset[RunStatus]:
    return frozenset(status for status, each in TRANSITIONS if each is event)


# the statuses of runs that an act can be done to
POSSIBLE: Mapping[Act, frozenset[RunStatus]] = {
    Act.cancel: frozenset(RunStatus) - TERMINAL,
    Act.pause: _from(RunEvent.pause),
    Act.resume: _from(RunEvent.resume),
    Act.requeue: _from(RunEvent.requeue),
    Act.fork: frozenset(RunStatus),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which runs. Times are wall-clock milliseconds of a run's end; of one that has not ended, of its submit."""

    statuses: frozenset[RunStatus]
    cause: Cause | None = None
    before_ms: int | None = None
    after_ms: int | None = None

    def admits(self, status: RunStatus, error: ErrorRecord | None, ended_ms: int) -> bool:
        """Whether a run is one of them."""
        return (
            status in self.statuses
            and (self.cause is None or (error is not None and error.detail.get("cause") == self.cause))
            and (self.before_ms is None or ended_ms < self.before_ms)
            and (self.after_ms is None or ended_ms >= self.after_ms)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a caller said about runs, unchecked; None says nothing. Spans are seconds since a run's end."""

    statuses: frozenset[RunStatus] | None = None
    cause: str | None = None
    older_than_s: float | None = None
    newer_than_s: float | None = None


def choice(act: Act, wish: Wish, now_ms: int) -> Choice:
    """The runs of a wish that an act can be done to; UsageError for what no run can be."""
    possible = POSSIBLE[act]
    wrong = sorted((wish.statuses or frozenset()) - possible)
    if wrong:
        raise UsageError(f"runs that are {wrong[0]} cannot be {act.done}, only those that are {_listed(possible)}")
    if wish.cause is not None and wish.cause not in CAUSES:
        raise UsageError(f"cause {wish.cause!r} must be one of {_listed(CAUSES)}")
    return Choice(
        statuses=wish.statuses or possible,
        cause=None if wish.cause is None else Cause(wish.cause),
        before_ms=_before(now_ms, wish.older_than_s, "older_than"),
        after_ms=_before(now_ms, wish.newer_than_s, "newer_than"),
    )


def act_of(word: str) -> Act:
    """The act that a word means; UsageError if it means none."""
    try:
        return Act(word)
    except ValueError:
        raise UsageError(f"{word!r} is nothing that can be done to runs; it is one of {', '.join(Act)}") from None


def _before(now_ms: int, span_s: float | None, name: str) -> int | None:
    if span_s is None:
        return None
    if not 0 <= span_s <= CENTURY_S:
        raise UsageError(f"{name}={span_s} must be a number of seconds from 0 to {CENTURY_S}")
    return now_ms - round(span_s * 1000)


def _listed(names: frozenset[RunStatus] | tuple[Cause, ...]) -> str:
    *first, last = sorted(names) if isinstance(names, frozenset) else names
    return f"{', '.join(first)} or {last}" if first else str(last)


def checked_rate(rate: float | None) -> float:
    """Runs a second, infinite for none given; UsageError for what is no speed."""
    if rate is None:
        return math.inf
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:  # NaN is in no range
        raise UsageError(f"rate={rate} must be from one run an hour ({LOWEST_RATE:.3g}) to {HIGHEST_RATE:g} a second")
    return rate


def next_due_s(due_s: float | None, rate: float, now_s: float) -> float:
    """When the next run is due, if the one before was due at `due_s` (None: it is the first)."""
    return now_s if due_s is None else max(due_s + 1 / rate, now_s)
