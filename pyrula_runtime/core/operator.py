"""What a person may do to a run, as changes to be written if the run is still as it was looked at.

Cancelling asks: a run whose code has begun is unwound by a worker, so that its own compensation can run. Only a run
without code anywhere, never started or paused, is dropped on the spot. Requeueing sends an ended or paused run on after
a fix: what was recorded in the light of the failure counts no more, the charges are forgiven, and the clock of the
workflow's timeout starts anew, which the `Requeued` entry dates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyrula_runtime.core.entries import Entry, Requeued, requeue_from
from pyrula_runtime.core.errors import IllegalTransition
from pyrula_runtime.core.status import TRANSITIONS, RunEvent, RunStatus, after


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What an operator's act looks at in a run. `fence` 0 means that no worker ever took it."""

    run_id: str
    status: RunStatus
    fence: int
    cancel_requested: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to be written; None leaves a field as it is. `is_fresh_start` clears outcome and charges."""

    status: RunStatus | None = None
    cancel_requested: bool | None = None
    entries: tuple[Entry, ...] = ()
    is_fresh_start: bool = False


def cancel(run: Standing) -> Change | None:
    """How to cancel a run; None if that has been done. IllegalTransition if it has ended otherwise."""
    if run.status is RunStatus.cancelled:
        return None
    if run.status.is_terminal:
        raise IllegalTransition(f"run {run.run_id} has {_WORDS[run.status]} already; there is nothing left to cancel")
    if run.status is RunStatus.paused or (run.status is RunStatus.queued and run.fence == 0):
        return Change(status=after(run.status, RunEvent.drop))
    if run.status is RunStatus.waiting:
        return Change(status=after(run.status, RunEvent.wake), cancel_requested=True)
    return None if run.cancel_requested else Change(cancel_requested=True)


def requeue(run: Standing, journal: Sequence[Entry], failed_op: object, now_ms: int) -> Change:
    """How to send a run on. `failed_op` is the operation whose failure ended it. IllegalTransition if it cannot be."""
    if (run.status, RunEvent.requeue) not in TRANSITIONS:
        raise IllegalTransition(
            f"run {run.run_id} is {run.status}; only a run that failed, was quarantined or is paused can be requeued"
        )
    ended_by = failed_op if run.status is RunStatus.failed and isinstance(failed_op, str) else None
    void_from = requeue_from(journal, ended_by)
    return Change(
        status=after(run.status, RunEvent.requeue),
        cancel_requested=False,
        entries=(Requeued(at_ms=now_ms, void_from=void_from),),
        is_fresh_start=True,
    )


_WORDS = {RunStatus.completed: "completed", RunStatus.failed: "failed", RunStatus.quarantined: "been quarantined"}
