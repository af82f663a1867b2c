"""What a person may do to a run, as changes to be written if the run is still as it was looked at.

Cancelling asks: a run whose code has begun is unwound by a worker, so that its own compensation can run. Only a run
without code anywhere, never started or paused, is dropped on the spot; no turn of it tells its parent and cancels its
children (core.tree), so whoever writes such a change does, in the same write. Pausing takes a run from whoever has it:
a step that is being performed is performed again later. Resuming sends it on, or back to a start that is still to come;
the `Resumed` entry dates that for code that unwinds, whose time stood still meanwhile. Requeueing sends an ended or
paused run on after a fix: what was recorded in the light of the failure counts no more, the charges are forgiven, and
the clock of the workflow's timeout starts anew, which the `Requeued` entry dates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyrula_runtime.core.entries import Entry, Requeued, Resumed, requeue_from
from pyrula_runtime.core.errors import IllegalTransition
from pyrula_runtime.core.status import TRANSITIONS, RunEvent, RunStatus, after


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What an operator's act looks at in a run. `fence` 0 means that no worker ever took it.

    `start_at_ms` is the start that was asked for, if it was to be later than the submit.
    """

    run_id: str
    status: RunStatus
    fence: int
    cancel_requested: bool
    start_at_ms: int | None = None

    @property
    def has_begun(self) -> bool:
        """Whether any code of it may have run."""
        return self.fence > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to be written; None leaves a field as it is. `is_fresh_start` clears outcome and charges."""

    status: RunStatus | None = None
    cancel_requested: bool | None = None
    due_ms: int | None = None
    entries: tuple[Entry, ...] = ()
    is_fresh_start: bool = False


def cancel(run: Standing) -> Change | None:
    """How to cancel a run; None if that has been done. IllegalTransition if it has ended otherwise."""
    if run.status is RunStatus.cancelled:
        return None
    if run.status.is_terminal:
        raise IllegalTransition(f"run {run.run_id} has {_WORDS[run.status]} already; there is nothing left to cancel")
    if run.status is RunStatus.paused or not run.has_begun:
        return Change(status=after(run.status, RunEvent.drop))
    if run.cancel_requested:
        return None
    is_waiting = run.status is RunStatus.waiting
    return Change(status=after(run.status, RunEvent.wake) if is_waiting else None, cancel_requested=True)


def pause(run: Standing) -> Change | None:
    """How to pause a run; None if it is paused. IllegalTransition if it has ended."""
    if run.status is RunStatus.paused:
        return None
    if run.status.is_terminal:
        raise IllegalTransition(f"run {run.run_id} is {run.status}; there is nothing left to pause")
    return Change(status=after(run.status, RunEvent.pause))


def resume(run: Standing, now_ms: int) -> Change | None:
    """How to send a paused run on; None if it is not paused. IllegalTransition if it has ended."""
    if run.status.is_terminal:
        raise IllegalTransition(f"run {run.run_id} is {run.status}; a run that has ended can only be requeued")
    if run.status is not RunStatus.paused:
        return None
    start_ms = run.start_at_ms
    if not run.has_begun and start_ms is not None and start_ms > now_ms:
        return Change(status=after(run.status, RunEvent.delay), due_ms=start_ms)
    entries = (Resumed(at_ms=now_ms),) if run.has_begun else ()
    return Change(status=after(run.status, RunEvent.resume), entries=entries)


def requeue(run: Standing, journal: Sequence[Entry], failed_op: str | None, now_ms: int) -> Change:
    """How to send a run on. `failed_op` is the operation whose failure ended it. IllegalTransition if it cannot be."""
    if (run.status, RunEvent.requeue) not in TRANSITIONS:
        raise IllegalTransition(
            f"run {run.run_id} is {run.status}; only a run that failed, was quarantined or is paused can be requeued"
        )
    void_from = requeue_from(journal, failed_op if run.status is RunStatus.failed else None)
    return Change(
        status=after(run.status, RunEvent.requeue),
        cancel_requested=False,
        entries=(Requeued(at_ms=now_ms, void_from=void_from, has_ended=run.status.is_terminal),),
        is_fresh_start=True,
    )


_WORDS = {RunStatus.completed: "completed", RunStatus.failed: "failed", RunStatus.quarantined: "been quarantined"}
