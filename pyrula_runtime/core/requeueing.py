"""Sending many runs on after a fix: which of them, and how fast.

A rate spaces them evenly, because whatever was mended is rarely at its full strength yet. Time that is lost on the way
is not made up for by a burst.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pyrula_runtime.core.blame import Cause
from pyrula_runtime.core.errors import ErrorRecord, UsageError
from pyrula_runtime.core.status import TRANSITIONS, RunEvent, RunStatus

REQUEUEABLE = frozenset(status for status, event in TRANSITIONS if event is RunEvent.requeue)
# what a run can be quarantined for
CAUSES = tuple(cause for cause in Cause if cause is not Cause.blameless)
# runs a second
LOWEST_RATE, HIGHEST_RATE = 1 / 3600, 10_000.0
# at most as many at once; more are sent on in several calls (runs)
MOST = 1_000_000
# no run is older (s)
CENTURY_S = 100 * 366 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which runs. Times are wall-clock milliseconds of a run's end; of a paused run, of its submit."""

    statuses: frozenset[RunStatus] = REQUEUEABLE
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


def choice(
    statuses: frozenset[RunStatus] | None,
    cause: str | None,
    older_than_s: float | None,
    newer_than_s: float | None,
    now_ms: int,
) -> Choice:
    """A choice from what a caller said; UsageError for what no run can be."""
    wrong = sorted((statuses or frozenset()) - REQUEUEABLE)
    if wrong:
        raise UsageError(f"runs that are {wrong[0]} cannot be requeued, only those that are {_listed(REQUEUEABLE)}")
    if cause is not None and cause not in CAUSES:
        raise UsageError(f"cause {cause!r} must be one of {_listed(CAUSES)}")
    return Choice(
        statuses=statuses or REQUEUEABLE,
        cause=None if cause is None else Cause(cause),
        before_ms=_before(now_ms, older_than_s, "older_than"),
        after_ms=_before(now_ms, newer_than_s, "newer_than"),
    )


def _before(now_ms: int, span_s: float | None, name: str) -> int | None:
    if span_s is None:
        return None
    if not 0 <= span_s <= CENTURY_S:
        raise UsageError(f"{name}={span_s} must be a number of seconds from 0 to {CENTURY_S}")
    return now_ms - round(span_s * 1000)


def _listed(names: frozenset[RunStatus] | tuple[Cause, ...]) -> str:
    *first, last = sorted(names) if isinstance(names, frozenset) else names
    return f"{', '.join(first)} or {last}"


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
