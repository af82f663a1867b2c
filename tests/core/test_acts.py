"""Which runs something is done to, and how fast."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pyrula_runtime.core.acts import CAUSES, POSSIBLE, Act, Choice, Wish, act_of, checked_rate, choice, next_due_s
from pyrula_runtime.core.blame import Cause
from pyrula_runtime.core.errors import ErrorRecord, UsageError
from pyrula_runtime.core.status import RunStatus

NOW_MS = 10_000_000
BLOCKED = ErrorRecord(type="EventLoopBlocked", message="", detail={"cause": "loop_blocked"})
BROKEN = ErrorRecord(type="ValueError", message="")


def chosen(act: Act = Act.requeue, **given: Any) -> Choice:
    return choice(act, Wish(**given), NOW_MS)


LIVE = {RunStatus.queued, RunStatus.running, RunStatus.waiting}
ABLE = {
    Act.cancel: LIVE | {RunStatus.paused},
    Act.pause: LIVE,
    Act.resume: {RunStatus.paused},
    Act.requeue: {RunStatus.failed, RunStatus.paused, RunStatus.quarantined},
    Act.fork: set(RunStatus),
}


@pytest.mark.parametrize("status", RunStatus)
@pytest.mark.parametrize("act", Act)
def test_without_a_filter_every_run_is_chosen_that_it_can_be_done_to(act: Act, status: RunStatus) -> None:
    assert chosen(act).admits(status, None, NOW_MS) is (status in ABLE[act])
    assert ABLE[act] == POSSIBLE[act]


def test_a_word_is_an_act() -> None:
    assert act_of("fork") is Act.fork
    assert act_of(Act.pause) is Act.pause
    with pytest.raises(UsageError, match="'drop' is nothing that can be done to runs; it is one of cancel, pause"):
        act_of("drop")
    with pytest.raises(UsageError, match="runs that are failed cannot be resumed, only those that are paused"):
        chosen(Act.resume, statuses=frozenset({RunStatus.failed}))


def test_filters_hold_together() -> None:
    one = chosen(statuses=frozenset({RunStatus.quarantined}), cause="loop_blocked", older_than_s=60, newer_than_s=3600)
    ended_ms = NOW_MS - 61_000
    assert one.admits(RunStatus.quarantined, BLOCKED, ended_ms)
    assert not one.admits(RunStatus.failed, BLOCKED, ended_ms)
    assert not one.admits(RunStatus.quarantined, BROKEN, ended_ms)
    assert not one.admits(RunStatus.quarantined, None, ended_ms)
    assert not one.admits(RunStatus.quarantined, BLOCKED, NOW_MS - 60_000)
    assert one.admits(RunStatus.quarantined, BLOCKED, NOW_MS - 3_600_000)
    assert not one.admits(RunStatus.quarantined, BLOCKED, NOW_MS - 3_600_001)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"statuses": frozenset({RunStatus.running})}, "runs that are running cannot be requeued, only those that are"),
        ({"statuses": frozenset(RunStatus)}, "only those that are failed, paused or quarantined"),
        ({"cause": "blameless"}, "cause 'blameless' must be one of loop_blocked, crashed, "),
        ({"cause": "bad luck"}, "cause 'bad luck' must be one of"),
        ({"older_than_s": -1}, "older_than=-1 must be a number of seconds"),
        ({"newer_than_s": math.nan}, "newer_than=nan must be a number of seconds"),
        ({"older_than_s": 1e30}, "older_than=1e"),
    ],
)
def test_what_no_run_can_be_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        chosen(**given)


def test_every_cause_that_convicts_can_be_chosen() -> None:
    assert set(CAUSES) == set(Cause) - {Cause.blameless}


def test_a_rate_is_a_speed() -> None:
    assert checked_rate(None) == math.inf
    assert checked_rate(2) == 2
    for wrong in (0, -1, math.nan, math.inf, 1e9, 1e-9):
        with pytest.raises(UsageError, match=r"must be from one run an hour \(0\.000278\) to 10000 a second"):
            checked_rate(wrong)


def test_runs_are_spaced_evenly_and_never_in_bursts() -> None:
    assert next_due_s(None, 2, 100.0) == 100.0
    assert next_due_s(100.0, 2, 100.1) == 100.5  # what the act took is part of the pause
    assert next_due_s(100.0, 2, 107.0) == 107.0
    assert next_due_s(107.0, 2, 107.0) == 107.5  # what was lost is lost
    assert next_due_s(100.0, checked_rate(None), 100.1) == 100.1
