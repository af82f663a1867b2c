"""Cells: how many are started, when, and what becomes of them; and what people hear of verdicts."""

from __future__ import annotations

from typing import Any

import pytest

from pyrula_runtime.core.standstill import Verdict
from pyrula_runtime.wire import Bury, Evacuated, Judged, Queue, Role
from pyrula_supervisor.actions import Incident, Send
from pyrula_supervisor.events import LaneSeen, ReloadAsked
from tests.supervisor.fake_processes import SIGSEGV, Process, World, running
from tests.supervisor.looks import look


def count(on: World, suspects: int) -> None:
    """The clerk has counted the suspects that wait."""
    (clerk,) = on.of(Role.clerk)
    counts = {"suspects": suspects}
    on.say(clerk, Queue(incarnation=clerk.name, store_ok=True, store_url="sqlite:///x", counts=counts))


def judge(on: World, **facts: Any) -> None:
    """The clerk has buried somebody."""
    (clerk,) = on.of(Role.clerk)
    base = {
        "worker": "dead",
        "run_id": "r1",
        "workflow": "order",
        "cause": "crashed",
        "step": "charge",
        "line": "a.py:7",
    }
    on.say(clerk, Judged(incarnation=clerk.name, **{**base, **facts}))


def cells(on: World) -> list[Process]:
    return on.of(Role.cell)


def done(on: World, cell: Process) -> None:
    """It has run its suspect and leaves by itself."""
    on.report(cell, turns_done=1, draining=True)
    on.die(cell, 0)


@pytest.mark.parametrize(("procs", "suspects", "started"), [(2, 0, 0), (2, 1, 1), (2, 2, 2), (2, 50, 2), (4, 3, 3)])
def test_there_are_as_many_cells_as_suspects_but_never_more_than_workers(
    procs: int, suspects: int, started: int
) -> None:
    on = running(procs=procs)
    count(on, suspects)
    assert on.spawned == [(Role.cell, -1)] * started
    count(on, suspects)
    assert len(cells(on)) == started, "those that come will take them"


def test_a_cell_that_is_done_makes_room_for_the_next_and_is_no_incident() -> None:
    on = running(procs=1)
    count(on, 3)
    for left in (2, 1, 0):
        (cell,) = cells(on)
        on.settle()
        on.report(cell, turns_running=1)
        count(on, left)
        assert cells(on) == [cell], "it is at work, and there may be one"
        done(on, cell)
    assert cells(on) == []
    assert on.incidents == []
    assert "nobody here had asked" not in on.logged
    assert len(on.spawned) == 3


def test_a_cell_at_work_is_not_taken_for_one_that_will_take_the_next() -> None:
    on = running(procs=2)
    count(on, 1)
    on.settle()
    (first,) = cells(on)
    on.report(first, turns_running=1)
    on.wait(2_000)
    count(on, 1)
    assert len(cells(on)) == 2


def test_a_burial_that_makes_a_suspect_starts_a_cell_at_once() -> None:
    on = running(procs=1)
    judge(on, marked=True, suspect=True)
    assert on.spawned == [(Role.cell, -1)]
    assert on.incidents == [("mark", -1)]
    (incident,) = on.done(Incident)
    assert (incident.run_id, incident.workflow, incident.step) == ("r1", "order", "charge")
    assert (incident.line, incident.verdict) == ("a.py:7", "crashed")
    assert "run r1 (order, step charge) at a.py:7 is a suspect of the end of a worker (crashed)" in on.logged


def test_a_cell_that_dies_is_buried_as_a_cell_and_the_next_one_comes_at_once() -> None:
    on = running(procs=1)
    count(on, 1)
    on.settle()
    (cell,) = cells(on)
    on.report(cell, turns_running=1)
    on.die(cell, SIGSEGV)
    assert cells(on) == []
    told = [action.message for action in on.done(Send) if isinstance(action.message, Bury)]
    assert [(each.incarnation, each.finding.in_cell, each.finding.cause) for each in told] == [
        (cell.name, True, "crashed")
    ]
    assert on.incidents == [("death", -1)]
    judge(on, worker=cell.name, charged=2, suspect=True)
    assert len(cells(on)) == 1
    assert "is charged, 2 times for the end of cell (crashed)" in on.logged


def test_cells_that_find_nothing_to_do_come_ever_more_slowly() -> None:
    on = running(procs=1)
    started = 0
    for _ in range(240):
        count(on, 1)
        on.settle()
        for cell in cells(on):
            started += 1
            on.report(cell, draining=True)
            on.die(cell, 0)
        on.wait(250)
    assert 4 <= started <= 8
    assert on.incidents == []


def test_cells_that_cannot_start_come_ever_more_slowly_and_end_nothing() -> None:
    on = running(procs=1)
    count(on, 1)
    for _ in range(240):
        for cell in cells(on):
            on.fail_to_spawn(cell)
        on.wait(250)
    assert len(on.spawned) <= 8
    assert on.goes_on


def test_cells_outlive_a_reload_and_leave_with_the_supervisor() -> None:
    on = running(procs=1, reload_settle_ms=0)
    count(on, 1)
    on.settle()
    (cell,) = cells(on)
    on.report(cell, turns_running=1)
    on.feed(ReloadAsked(now_ms=on.now_ms))
    for _ in range(10):
        on.settle()
        on.tick(1_000)
    assert on.state.reload is None
    assert cells(on) == [cell]
    on.stop()
    assert cell.drains
    on.settle()
    assert on.quit == 0


def test_a_cell_whose_lane_is_stuck_makes_room_for_another_and_is_ended_at_the_limit() -> None:
    on = running(procs=1)
    count(on, 1)
    on.settle()
    (cell,) = cells(on)
    on.report(cell, turns_running=1)
    on.wait(2_000)
    for stuck_ms in (5_000, 90_000):
        event = LaneSeen(
            now_ms=on.now_ms, incarnation=cell.name, verdict=Verdict.blocked, stuck_ms=stuck_ms, run_id="r1"
        )
        on.feed(event)
        count(on, 1)
        assert cells(on)[0] == cell
        assert len(cells(on)) == 2
    on.wait(500)
    assert on.killed == [cell.name]
    assert (Role.surge, -1) not in on.spawned


@pytest.mark.parametrize("turns_running", [0, 1])
def test_cells_that_are_starved_in_their_suspects_keep_no_other_suspect_waiting(turns_running: int) -> None:
    """Their locks may have lapsed, so what they run may wait again as well; nothing that counts leads to their end."""
    on = running(procs=2)
    count(on, 2)
    on.settle()
    starved = cells(on)
    for cell in starved:
        on.report(cell, turns_running=turns_running)
    on.wait(2_000)
    count(on, 11)
    assert cells(on) == starved
    for cell in starved:
        look(on, cell, 0, Verdict.starved, silent_ms=60_000)
    count(on, 11)
    assert len(cells(on)) == 4
    for cell in starved:
        look(on, cell, 0, Verdict.healthy)
    count(on, 11)
    assert len(cells(on)) == 4


@pytest.mark.parametrize(
    ("facts", "kinds"),
    [
        ({"marked": True}, []),
        ({"charged": 1}, ["charge"]),
        ({"charged": 1, "suspect": True}, ["charge"]),
        ({"charged": 4, "quarantined": True}, ["charge", "quarantine"]),
    ],
)
def test_what_people_hear_of_a_verdict(facts: dict[str, Any], kinds: list[str]) -> None:
    on = running(procs=1)
    judge(on, **facts)
    assert [kind for kind, _ in on.incidents] == kinds


def test_an_evacuation_is_told_by_whoever_did_it() -> None:
    on = running(procs=1)
    (worker,), (clerk,) = on.of(), on.of(Role.clerk)
    on.say(worker, Evacuated(incarnation=worker.name, worker=worker.name, run_ids=("a",)))
    on.say(clerk, Evacuated(incarnation=clerk.name, worker=worker.name, run_ids=("b", "c")))
    on.say(clerk, Evacuated(incarnation=clerk.name, worker="gone", run_ids=("d",)))
    on.say(clerk, Evacuated(incarnation=clerk.name, worker=worker.name, run_ids=()))
    assert on.incidents == [("evacuation", 0), ("evacuation", 0), ("evacuation", -1)]
    assert "1 run of worker 0 (pid 101) was handed back, uncharged" in on.logged
    assert "2 runs of worker 0 (pid 101) were handed back, uncharged" in on.logged
