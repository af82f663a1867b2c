"""What an operator may do to a run: the whole table of states, and what a requeue makes of a journal."""

from __future__ import annotations

import pytest

from pyrula_runtime.core.entries import CancelRequested, Entry, Requeued, Resumed
from pyrula_runtime.core.errors import IllegalTransition
from pyrula_runtime.core.operator import Change, Standing, cancel, pause, requeue, resume
from pyrula_runtime.core.status import RunStatus
from tests.core.journals import completed, failed


def run(
    status: RunStatus, *, fence: int = 1, cancel_requested: bool = False, start_at_ms: int | None = None
) -> Standing:
    return Standing(run_id="r", status=status, fence=fence, cancel_requested=cancel_requested, start_at_ms=start_at_ms)


CANCELS = {
    RunStatus.queued: Change(cancel_requested=True),
    RunStatus.running: Change(cancel_requested=True),
    RunStatus.waiting: Change(status=RunStatus.queued, cancel_requested=True),
    RunStatus.paused: Change(status=RunStatus.cancelled),
    RunStatus.cancelled: None,
}


@pytest.mark.parametrize("status", RunStatus)
def test_cancelling_in_every_state(status: RunStatus) -> None:
    if status in CANCELS:
        assert cancel(run(status)) == CANCELS[status]
    else:
        with pytest.raises(
            IllegalTransition, match=r"^run r has (been )?\w+ already; there is nothing left to cancel$"
        ):
            cancel(run(status))


@pytest.mark.parametrize("status", [RunStatus.queued, RunStatus.waiting])
def test_a_run_that_nobody_ever_took_is_dropped(status: RunStatus) -> None:
    assert cancel(run(status, fence=0)) == Change(status=RunStatus.cancelled)


@pytest.mark.parametrize("status", [RunStatus.queued, RunStatus.running, RunStatus.waiting])
def test_a_second_cancel_changes_nothing(status: RunStatus) -> None:
    assert cancel(run(status, cancel_requested=True)) is None


LIVE = [RunStatus.queued, RunStatus.running, RunStatus.waiting]


@pytest.mark.parametrize("status", RunStatus)
def test_pausing_in_every_state(status: RunStatus) -> None:
    if status.is_terminal:
        with pytest.raises(IllegalTransition, match=rf"^run r is {status}; there is nothing left to pause$"):
            pause(run(status))
    else:
        assert pause(run(status)) == (Change(status=RunStatus.paused) if status in LIVE else None)


@pytest.mark.parametrize("status", RunStatus)
def test_resuming_in_every_state(status: RunStatus) -> None:
    if status.is_terminal:
        with pytest.raises(IllegalTransition, match=rf"^run r is {status}; a run that has ended can only be requeued$"):
            resume(run(status), 7)
    else:
        goes_on = Change(status=RunStatus.queued, entries=(Resumed(at_ms=7),))
        assert resume(run(status), 7) == (None if status in LIVE else goes_on)


@pytest.mark.parametrize(("fence", "start_at_ms"), [(0, None), (0, 9), (1, 10)])
def test_a_paused_run_goes_on_at_once_if_its_start_is_past_or_made(fence: int, start_at_ms: int | None) -> None:
    paused = run(RunStatus.paused, fence=fence, start_at_ms=start_at_ms)
    assert resume(paused, 9) == Change(status=RunStatus.queued, entries=(Resumed(at_ms=9),) if fence else ())


def test_a_pause_does_not_bring_a_start_forward() -> None:
    paused = run(RunStatus.paused, fence=0, start_at_ms=10)
    assert resume(paused, 9) == Change(status=RunStatus.waiting, due_ms=10)


JOURNAL: list[Entry] = [completed("a#1"), failed("b#1"), completed("c#1")]


@pytest.mark.parametrize(
    ("journal", "failed_op", "void_from"),
    [
        (JOURNAL, "b#1", 1),
        (JOURNAL, None, 3),
        ([completed("a#1"), CancelRequested(at_ms=0)], None, 1),
        ([], None, 0),
    ],
)
def test_a_failed_run_goes_on_from_its_failure(journal: list[Entry], failed_op: str | None, void_from: int) -> None:
    assert requeue(run(RunStatus.failed), journal, failed_op, 9) == Change(
        status=RunStatus.queued,
        cancel_requested=False,
        entries=(Requeued(at_ms=9, void_from=void_from, has_ended=True),),
        is_fresh_start=True,
    )


@pytest.mark.parametrize("status", [RunStatus.quarantined, RunStatus.paused])
def test_other_runs_go_on_with_all_that_is_recorded(status: RunStatus) -> None:
    has_ended = status is RunStatus.quarantined
    assert requeue(run(status), JOURNAL, "b#1", 9).entries == (Requeued(at_ms=9, void_from=3, has_ended=has_ended),)


@pytest.mark.parametrize(
    "status", [RunStatus.queued, RunStatus.running, RunStatus.waiting, RunStatus.completed, RunStatus.cancelled]
)
def test_what_cannot_be_requeued(status: RunStatus) -> None:
    with pytest.raises(IllegalTransition, match=f"run r is {status}; only a run that failed"):
        requeue(run(status), [], None, 9)
