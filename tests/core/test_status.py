"""The states of a run: the whole product of states and events against a list written by hand."""

from __future__ import annotations

from itertools import product

import pytest

from pyrula_runtime.core.errors import IllegalTransition
from pyrula_runtime.core.status import (
    CANCELLATION,
    DELIVERY,
    DUE,
    TERMINAL,
    TRANSITIONS,
    RunEvent,
    RunStatus,
    after,
    diagram,
)

# Written from the design, not from the table: what may happen in each state, and what comes of it.
ALLOWED = """
    queued: claim running, pause paused, drop cancelled
    running: release queued, again queued, suspend waiting, mismatch paused, pause paused
    running: complete completed, fail failed, cancelled cancelled, quarantine quarantined
    waiting: wake queued, pause paused, drop cancelled
    paused: resume queued, delay waiting, requeue queued, drop cancelled
    completed:
    failed: requeue queued
    cancelled:
    quarantined: requeue queued
"""

DIAGRAM = """\
stateDiagram-v2
    [*] --> queued
    [*] --> waiting: delay
    queued --> running: claim
    queued --> paused: pause
    queued --> cancelled: drop
    running --> queued: release
    running --> queued: again
    running --> waiting: suspend
    running --> paused: mismatch
    running --> paused: pause
    running --> completed: complete
    running --> failed: fail
    running --> cancelled: cancelled
    running --> quarantined: quarantine
    waiting --> queued: wake
    waiting --> paused: pause
    waiting --> cancelled: drop
    paused --> queued: resume
    paused --> waiting: delay
    paused --> cancelled: drop
    failed --> queued: requeue
    quarantined --> queued: requeue
    paused --> queued: requeue
    completed --> [*]
    failed --> [*]
    cancelled --> [*]
    quarantined --> [*]"""


def allowed() -> dict[tuple[str, str], str]:
    rows = [line.strip().partition(":") for line in ALLOWED.strip().splitlines()]
    cells = [(state, *cell.split()) for state, _, cells in rows for cell in cells.split(",") if cell]
    return {(state, event): target for state, event, target in cells}


@pytest.mark.parametrize(("status", "event"), list(product(RunStatus, RunEvent)))
def test_each_event_in_each_state(status: RunStatus, event: RunEvent) -> None:
    target = allowed().get((status, event))
    if target is not None:
        assert after(status, event) == target
        return
    with pytest.raises(IllegalTransition) as refusal:
        after(status, event)
    assert str(refusal.value) == f"a run that is {status} cannot {event}"


def test_the_written_list_has_every_state_and_event_of_the_table() -> None:
    assert {line.split(":")[0].strip() for line in ALLOWED.strip().splitlines()} == set(RunStatus)
    assert {event for _, event in allowed()} == set(RunEvent)
    assert len(allowed()) == len(TRANSITIONS)


def test_the_published_words() -> None:
    assert [str(status) for status in RunStatus] == [
        "queued",
        "running",
        "waiting",
        "paused",
        "completed",
        "failed",
        "cancelled",
        "quarantined",
    ]


@pytest.mark.parametrize("status", RunStatus)
def test_four_states_are_terminal(status: RunStatus) -> None:
    assert status.is_terminal == (status in ("completed", "failed", "cancelled", "quarantined"))
    assert (status in TERMINAL) == status.is_terminal


def test_terminal_states_absorb_everything_but_a_requeue() -> None:
    assert {event for status, event in TRANSITIONS if status.is_terminal} == {RunEvent.requeue}


def test_only_a_held_run_can_end_by_its_code() -> None:
    by_code = {RunEvent.complete, RunEvent.fail, RunEvent.cancelled, RunEvent.quarantine, RunEvent.mismatch}
    assert {status for status, event in TRANSITIONS if event in by_code} == {RunStatus.running}


def test_every_state_can_be_reached_from_the_first() -> None:
    reached = {RunStatus.queued}
    for _ in RunStatus:
        reached |= {target for (source, _), target in TRANSITIONS.items() if source in reached}
    assert reached == set(RunStatus)


def test_only_a_waiting_run_can_become_due() -> None:
    assert DUE == {"waiting": "queued"}


def test_every_live_run_keeps_a_message_and_one_that_waits_goes_on() -> None:
    assert DELIVERY == {"queued": "queued", "running": "running", "waiting": "queued", "paused": "paused"}


def test_a_run_that_is_not_at_work_is_sent_to_be_unwound() -> None:
    assert CANCELLATION == {"queued": "queued", "running": "running", "waiting": "queued", "paused": "queued"}


def test_the_diagram() -> None:
    assert diagram() == DIAGRAM
