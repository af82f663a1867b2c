"""The ladder as the reducer walks it: what each look at a stuck lane leads to, and what never does."""

from __future__ import annotations

from typing import Any

import pytest

from pyrula_runtime.core.standstill import Verdict
from pyrula_runtime.wire import Blocked, Role, Stack, Stage, Unblocked
from pyrula_supervisor.actions import BlockOver, Incident, Spawn, TakeStack
from pyrula_supervisor.events import DumpAsked
from pyrula_supervisor.ladder import Rung
from pyrula_supervisor.tables import ChildState
from tests.supervisor.fake_processes import SIGKILL, running
from tests.supervisor.looks import HELD, STACK, WHOSE, drained, finding_of, look, stand_ins, stuck


def test_a_block_that_is_short_is_nobodys_business() -> None:
    on = running(procs=1)
    (worker,) = on.of()
    stuck(on, worker, 1_750)
    look(on, worker, 0, Verdict.healthy)
    assert on.child(worker).state is ChildState.ready
    assert (on.incidents, on.logged, on.done(Spawn)) == ([], "", [])


def test_the_parents_look_and_the_childs_word_are_one_block() -> None:
    on = running(procs=1)
    (worker,) = on.of()
    stuck(on, worker, 2_000)
    assert on.child(worker).state is ChildState.blocked
    assert on.incidents == [], "the child is listened to first"
    said = Blocked(incarnation=worker.name, **_told("app.py:7"))
    on.say(worker, said)
    stuck(on, worker, 3_000)
    (incident,) = on.done(Incident)
    assert (incident.kind, incident.run_id, incident.workflow, incident.step) == ("block", "r1", "order", "charge")
    assert (incident.line, incident.verdict) == ("app.py:7", "blocked")
    shown = on.child(worker).blocked
    assert shown is not None
    assert (shown.line, shown.hint, shown.for_s, shown.gil_held) == ("app.py:7", "write it so", 3.0, False)
    on.say(worker, Unblocked(incarnation=worker.name, after_s=3.1))
    look(on, worker, 0, Verdict.healthy)
    assert on.done(BlockOver) == [BlockOver(for_ms=3_100)]
    assert on.child(worker).blocked is None
    assert on.child(worker).rung is Rung.ground


def _told(line: str) -> dict[str, Any]:
    facts = {key: WHOSE[key] for key in ("run_id", "workflow", "step")}
    return {**facts, "for_s": 2.0, "line": line, "stack": "...", "hint": "write it so"}


def test_a_child_that_says_nothing_of_its_block_is_asked() -> None:
    on = running(procs=1)
    (worker,) = on.of()
    stuck(on, worker, 2_000)
    assert on.dumped == [worker.name]
    stuck(on, worker, 2_250)
    assert on.incidents == [("block", 0)]
    on.say(worker, Stack(incarnation=worker.name, text=STACK))
    assert "is stuck at /srv/app.py:9 in slow" in on.logged
    shown = on.child(worker).blocked
    assert shown is not None
    assert (shown.line, shown.stack) == ("/srv/app.py:9 in slow", STACK)


def test_a_mute_child_is_looked_at_by_signal_and_named_with_its_line() -> None:
    on = running(procs=1)
    (worker,) = on.of()
    stuck(on, worker, 2_000, HELD, thread_id=77)
    assert on.done(TakeStack) == [TakeStack(incarnation=worker.name, thread_id=77)]
    on.say(worker, Stack(incarnation=worker.name, text=STACK))
    (incident,) = on.done(Incident)
    assert (incident.line, incident.verdict) == ("/srv/app.py:9 in slow", "held_on_cpu")
    assert "with the GIL held by run r1 (order, step charge) at /srv/app.py:9" in on.logged
    # awake again it tells of what is over
    look(on, worker, 0, Verdict.healthy)
    on.say(worker, Blocked(incarnation=worker.name, **_told("app.py:7")))
    on.say(worker, Unblocked(incarnation=worker.name, after_s=2.1))
    assert len(on.incidents) == 1
    assert on.child(worker).state is ChildState.ready


@pytest.mark.parametrize("verdict", [Verdict.starved, Verdict.collecting, Verdict.observer_late])
def test_a_look_that_cannot_tell_does_not_unsay_that_the_gil_is_held(verdict: Verdict) -> None:
    on = running(procs=1)
    (worker,) = on.of()
    stuck(on, worker, 1_500, HELD, thread_id=77)
    stuck(on, worker, 2_000, verdict, thread_id=77)
    assert on.done(TakeStack) == [TakeStack(incarnation=worker.name, thread_id=77)]
    stuck(on, worker, 2_250, verdict, thread_id=77)
    assert "with the GIL held by run r1 (order, step charge)" in on.logged
    stuck(on, worker, 30_000, verdict, thread_id=77)
    assert "the clerk hands back its other turns" in on.logged


def test_a_surge_comes_beside_a_stuck_worker_and_takes_its_place() -> None:
    on = running(procs=2)
    worker = on.of(slot=1)[0]
    stuck(on, worker, 4_750)
    assert on.done(Spawn) == []
    stuck(on, worker, 5_000)
    assert on.spawned == [(Role.surge, 1)]
    assert [kind for kind, _ in on.incidents] == ["block", "surge"]
    assert on.state.ready_workers == 1, "a stuck one is no capacity"
    on.settle()
    (surge,) = on.of(Role.surge)
    assert on.state.ready_workers == 2
    on.wait(5_000)
    stuck(on, worker, 20_000)
    assert (drained(on), on.spawned) == ([], [(Role.surge, 1)])
    look(on, worker, 0, Verdict.healthy)
    assert drained(on) == [worker.name]
    assert on.child(surge).role is Role.worker
    on.settle()
    assert [child.incarnation for child in on.state.of_slot(1)] == [surge.name]
    assert (on.state.ready_workers, on.state.extras) == (2, 0)


def test_a_dump_shows_the_stuck_worker_and_not_its_stand_in() -> None:
    on = running(procs=1)
    worker = on.of(slot=0)[0]
    stuck(on, worker, 5_000)
    on.settle()
    assert len(on.of(Role.surge)) == 1
    before = list(on.dumped)
    on.feed(DumpAsked(now_ms=on.now_ms, slot=0, asker=1))
    assert on.dumped == [*before, worker.name]


def test_a_lane_that_goes_round_before_the_surge_is_there_serves_until_then() -> None:
    on = running(procs=1)
    (worker,) = on.of()
    stuck(on, worker, 5_000)
    look(on, worker, 0, Verdict.healthy)
    assert drained(on) == []
    on.settle()
    assert drained(on) == [worker.name]


def test_if_no_surge_can_start_the_worker_stays_and_another_is_tried() -> None:
    on = running(procs=1)
    (worker,) = on.of()
    stuck(on, worker, 5_000)
    (surge,) = on.of(Role.surge)
    on.fail_to_spawn(surge)
    on.wait(500)
    assert on.spawned == [(Role.surge, 0)] * 2
    on.fail_to_spawn(on.of(Role.surge)[0])
    look(on, worker, 0, Verdict.healthy)
    on.fail_to_spawn(on.of(Role.surge)[0]) if on.of(Role.surge) else None
    on.wait(60_000)
    on.settle()
    assert on.state.ready_workers == 1


def test_more_stuck_workers_than_slots_cost_the_one_that_is_stuck_longest() -> None:
    on = running(procs=1)
    (first,) = on.of()
    stuck(on, first, 8_000)
    on.settle()
    (second,) = on.of(Role.surge)
    for at_ms in range(250, 5_001, 250):
        on.tick()
        look(on, first, 8_000 + at_ms)
        look(on, second, at_ms, run_id="r2", entries=3)
    assert on.killed == []
    on.wait(500)
    assert on.killed == [first.name]
    on.die(first, SIGKILL)
    found = finding_of(on, first.name)
    assert (found.cause, found.guilty, found.entries) == ("loop_blocked", "r1", 7)
    on.settle()
    assert on.state.ready_workers == 1


def test_at_the_limit_a_last_look_is_taken_and_the_run_is_guilty() -> None:
    on = running(procs=1)
    (worker,) = on.of()
    stuck(on, worker, 89_750, HELD)
    on.say(worker, Stack(incarnation=worker.name, text=STACK))
    on.forget()
    stuck(on, worker, 90_000, HELD)
    assert on.done(TakeStack)
    assert on.killed == []
    on.say(worker, Stack(incarnation=worker.name, text=STACK.replace("9", "10")))
    assert on.killed == [worker.name]
    on.settle()
    found = finding_of(on, worker.name)
    assert (found.cause, found.guilty, found.entries, found.for_ms) == ("loop_blocked", "r1", 7, 90_000)
    assert (found.line, found.in_cell, found.worker) == ("/srv/app.py:10 in slow", False, "worker 0")
    assert "10 in slow" in found.stack
    assert found.exit == "was killed by SIGKILL"
    (death,) = [each for each in on.done(Incident) if each.kind == "death"]
    assert (death.run_id, death.verdict, death.step) == ("r1", "loop_blocked", "charge")


def test_a_workflow_with_a_long_timeout_may_block_that_long() -> None:
    on = running(procs=1)
    (worker,) = on.of()
    on.be_ready_with_limits(worker, {"order": 120_000})
    stuck(on, worker, 5_000)
    on.settle()
    stuck(on, worker, 119_000)
    assert on.killed == []
    stuck(on, worker, 120_000)
    on.wait(500)
    assert on.killed == [worker.name]


def test_a_lane_that_goes_on_at_the_last_moment_is_pardoned() -> None:
    on = running(procs=1)
    (worker,) = on.of()
    stuck(on, worker, 5_000)
    on.settle()
    stuck(on, worker, 90_000)
    look(on, worker, 0, Verdict.busy)
    on.say(worker, Stack(incarnation=worker.name, text=STACK))
    on.wait(1_000)
    assert on.killed == []


def test_code_of_no_run_is_ended_at_the_limit_and_nobody_is_guilty() -> None:
    on = running(procs=1)
    (worker,) = on.of()
    nobody: dict[str, Any] = dict.fromkeys(("run_id", "workflow", "step", "op_id"), "") | {"entries": 0}
    stuck(on, worker, 5_000, **nobody)
    on.settle()
    stuck(on, worker, 90_000, **nobody)
    assert "is blocked for 2.25 s by code of no run" in on.logged
    on.wait(500)
    on.settle()
    assert on.killed == [worker.name]
    assert finding_of(on, worker.name).cause == "blameless"


def test_while_nobody_can_tell_who_keeps_the_gil_all_stay_where_they_are() -> None:
    on = running(procs=1)
    (worker,) = on.of()
    unknown: dict[str, Any] = dict.fromkeys(("run_id", "workflow", "step", "op_id"), "")
    unknown |= {"entries": 0, "unknown": True, "thread_id": 77}
    stuck(on, worker, 5_000, Verdict.held_elsewhere, **unknown)
    on.settle()
    stuck(on, worker, 90_000, Verdict.held_elsewhere, **unknown)
    assert {stage for _, stage, _ in stand_ins(on)} == {Stage.hand_on}
    assert "hands back" not in on.logged
    assert on.done(TakeStack)[-1] == TakeStack(incarnation=worker.name, thread_id=77)
    on.say(worker, Stack(incarnation=worker.name, text=STACK))
    on.settle()
    assert "is killed: a thread of which nobody can tell whose it is blocked it for 90 s, at /srv/app.py:9" in on.logged
    found = finding_of(on, worker.name)
    assert (found.cause, found.guilty, found.for_ms) == ("loop_blocked", "", 90_000)
    assert "/srv/app.py:9" in found.line


@pytest.mark.parametrize(
    "verdict", [Verdict.stopped, Verdict.frozen, Verdict.starved, Verdict.collecting, Verdict.observer_late]
)
def test_nothing_follows_while_it_could_not_run(verdict: Verdict) -> None:
    on = running(procs=1)
    (worker,) = on.of()
    for _ in range(400):
        on.tick()
        look(on, worker, 0, verdict)
    stuck(on, worker, 1_750)
    for _ in range(400):
        on.tick()
        look(on, worker, 1_750, verdict)
    assert (on.incidents, on.killed, on.done(Spawn)) == ([], [], [])
    assert on.child(worker).state is ChildState.ready


def test_other_code_on_the_lane_is_another_block() -> None:
    on = running(procs=1)
    (worker,) = on.of()
    stuck(on, worker, 4_000)
    on.tick()
    look(on, worker, 1_000, run_id="r2", entries=8)
    assert on.child(worker).state is ChildState.ready
    assert len(on.done(BlockOver)) == 1
    stuck(on, worker, 2_250, run_id="r2", entries=8)
    assert [each.run_id for each in on.done(Incident)] == ["r1", "r2"]
