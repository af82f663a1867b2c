"""The end of a worker: what it means, who is told, and how soon the next one starts."""

from __future__ import annotations

from typing import Any

import pytest

from pyrula_runtime.wire import Blocked, Bury, Finding, Judged, Role
from pyrula_supervisor import exits, pace
from pyrula_supervisor.actions import Action, Send, Spawn
from pyrula_supervisor.model import Pace
from pyrula_supervisor.tables import ChildState
from tests.supervisor.fake_processes import SIGKILL, SIGSEGV, SIGTERM, World, running

CHANCES = (0.0, 0.999)


def crash(on: World, slot: int = 0, status: int = SIGSEGV) -> None:
    """The worker of a slot becomes ready and dies."""
    (worker,) = on.of(slot=slot)
    if not worker.born:
        on.be_born(worker)
    if not worker.ready:
        on.be_ready(worker)
    on.die(worker, status)


def test_the_pace() -> None:
    for chance in CHANCES:
        now, waits = Pace(), []
        for _ in range(8):
            now = pace.failed(now, 0, chance)
            waits.append(now.retry_ms)
        assert waits == [round(ms * (1 - chance / 5)) for ms in (0, 250, 500, 2_000, 8_000, 30_000, 30_000, 30_000)]
    assert pace.is_due(Pace(), -(10**9))


def test_a_death_after_a_healthy_life_is_repaired_at_once() -> None:
    on = running(procs=2)
    on.wait(60_000)
    worker = on.of(slot=1)[0]
    on.forget()
    on.die(worker, SIGKILL)
    order: list[Action] = [action for action in on.actions if isinstance(action, Send | Spawn)]
    finding = Finding(cause="killed", worker="worker 1", pid=102, exit="was killed by SIGKILL")
    bury = Bury(incarnation=worker.name, finding=finding)
    assert order[0] == Send(incarnation=on.state.clerk.incarnation, message=bury)  # type: ignore[union-attr]
    assert isinstance(order[1], Spawn)
    assert order[1].slot == 1
    assert on.incidents == [("death", 1)]
    assert "worker 1 (pid 102) was killed by SIGKILL after 60 s" in on.logged
    assert on.state.slots[1].restarts == 1
    assert on.state.slots[1].last_exit == "worker 1 (pid 102) was killed by SIGKILL after 60 s"


def test_a_crash_loop_slows_down_in_its_own_slot_only() -> None:
    on = running(procs=2)
    for _ in range(6):
        crash(on)
        on.wait(31_000 if not on.of(slot=0) else 0)
    assert on.state.slots[0].pace.failures == 6
    assert on.state.slots[1].pace == Pace()
    on.forget()
    on.die(on.of(slot=1)[0])
    assert [action.slot for action in on.done(Spawn)] == [1]


@pytest.mark.parametrize(
    ("verdict", "failures"),
    [({"marked": True, "suspect": True}, 3), ({"charged": 1, "quarantined": True}, 3), ({"marked": True}, 4)],
)
def test_a_death_for_which_a_run_is_taken_out_slows_no_slot(verdict: dict[str, Any], failures: int) -> None:
    on = running(procs=2)
    for _ in range(3):
        crash(on)
        on.wait(2_500)
    (worker,), (clerk,) = on.of(slot=0), on.of(Role.clerk)
    on.be_born(worker)
    on.be_ready(worker)
    on.die(worker)
    assert (on.state.slots[0].pace.failures, on.of(slot=0)) == (4, [])
    judged = Judged(
        incarnation=clerk.name, worker=worker.name, run_id="r1", workflow="order", cause="crashed", **verdict
    )
    on.say(clerk, judged)
    on.say(clerk, judged)  # one death may mean something for several runs
    on.settle()
    assert on.state.slots[0].pace.failures == failures
    assert bool(on.of(slot=0)) is (failures == 3), "then nothing is waited for"


def test_a_minute_of_health_is_a_new_start() -> None:
    on = running(procs=1)
    for _ in range(6):
        crash(on)
        on.wait(31_000)
    on.settle()
    on.wait(59_000)
    assert on.state.slots[0].pace.failures == 6
    on.wait(1_250)
    assert on.state.slots[0].pace == Pace()
    on.forget()
    on.die(on.of()[0])
    assert len(on.done(Spawn)) == 1


def test_it_recovers_by_itself_when_the_cause_goes() -> None:
    on = running(procs=3)
    for _ in range(10):
        for slot in range(3):
            if on.of(slot=slot):
                crash(on, slot)
        on.wait(10_000)
    on.wait(31_000)
    on.settle()
    assert on.state.ready_workers == 3
    assert on.goes_on


@pytest.mark.parametrize("status", [0, 143, SIGTERM])
def test_a_worker_told_to_leave_by_others_is_replaced_and_has_not_crashed(status: int) -> None:
    on = running(procs=2)
    on.die(on.of(slot=0)[0], status)
    assert on.incidents == []
    assert "which nobody here had asked for" in on.logged
    assert [action.slot for action in on.done(Spawn)] == [0]


def test_workers_that_leave_by_themselves_as_soon_as_they_are_ready_are_a_crash_loop_too() -> None:
    on = running(procs=1)
    for failures in range(1, 5):
        on.wait(3_000)
        (worker,) = on.of(slot=0)
        if not worker.ready:
            on.be_born(worker)
            on.be_ready(worker)
        on.report(worker, draining=True)
        assert on.state.slots[0].pace.failures == failures, "counted when it leaves"
        on.die(worker, 1)
        assert on.state.slots[0].pace.failures == failures, "and but once"
    assert on.of(slot=0) == [], "it is waited for now"


def test_a_worker_that_drains_by_itself_is_replaced_while_it_drains() -> None:
    on = running(procs=2)
    old = on.of(slot=0)[0]
    on.report(old, draining=True)
    assert on.child(old).state is ChildState.draining
    assert [action.slot for action in on.done(Spawn)] == [0]
    on.settle()
    on.report(old, draining=True)
    on.die(old, 0)
    assert (on.incidents, on.killed, old.terminated) == ([], [], False)
    assert on.state.ready_workers == 2


def test_one_that_drains_by_itself_for_ever_is_killed_at_the_sum() -> None:
    on = running(procs=1, drain_ms=20_000)
    old = on.of()[0]
    on.report(old, draining=True)
    on.settle()
    on.wait(20_000)
    assert on.killed == [old.name]
    assert on.incidents == [("death", 0)]
    on.die(old)
    assert on.incidents == [("death", 0)], "told once"


def test_one_killed_by_us_says_so() -> None:
    on = running(procs=1, startup_timeout_ms=5_000)
    on.die(on.of()[0])
    (worker,) = on.of()
    on.be_born(worker)
    on.wait(6_000)
    on.die(worker, SIGKILL)
    assert on.state.slots[0].last_exit == (
        "worker 0 (pid 102) was killed by SIGKILL after 6 s (killed by us because it was not ready within 5 s)"
    )


def test_one_that_went_before_we_could_kill_it_says_so() -> None:
    on = running(procs=1, startup_timeout_ms=5_000)
    on.die(on.of()[0])
    (worker,) = on.of()
    on.be_born(worker)
    on.wait(6_000)
    on.die(worker, 78)
    assert on.state.slots[0].last_exit == (
        "worker 0 (pid 102) exited with code 78 after 6 s "
        "(just before it was killed by us because it was not ready within 5 s)"
    )


def test_blocked_is_shown_once_and_changes_nothing_else() -> None:
    on = running(procs=1)
    (worker,) = on.of()
    facts = {"workflow": "order", "step": "charge", "for_s": 2.0, "line": "app.py:7", "stack": "..."}
    said = Blocked(incarnation=worker.name, run_id="r1", **facts)  # type: ignore[arg-type]
    on.say(worker, said)
    on.say(worker, Blocked(incarnation=worker.name, run_id="r1", **{**facts, "for_s": 4.0}))  # type: ignore[arg-type]
    assert on.child(worker).state is ChildState.blocked
    assert on.child(worker).blocked is not None
    assert on.child(worker).blocked.for_s == 4.0  # type: ignore[union-attr]
    assert on.incidents == [("block", 0)]
    assert "is blocked for 2 s by run r1 (order, step charge) at app.py:7" in on.logged
    assert on.state.ready_workers == 1
    on.unblock(worker)
    assert on.child(worker).state is ChildState.ready
    assert on.child(worker).blocked is None
    on.wait(2_250)
    on.say(worker, Blocked(incarnation=worker.name, run_id="", **facts))  # type: ignore[arg-type]
    assert "by code of no run at app.py:7" in on.logged
    assert on.incidents == [("block", 0)] * 2
    assert on.done(Spawn) == []


def test_the_dead_say_nothing() -> None:
    on = running(procs=1)
    (worker,) = on.of()
    on.die(worker)
    before = on.state
    on.report(worker, turns_running=3)
    on.unblock(worker)
    assert on.state == before


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "exited with code 0"),
        (7, "exited with code 7"),
        (-9, "was killed by SIGKILL"),
        (-11, "was killed by SIGSEGV"),
        (-99, "was killed by signal 99"),
    ],
)
def test_exits_in_words(status: int, words: str) -> None:
    assert exits.words(status) == words


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (-5, "0 s"),
        (0, "0 s"),
        (40, "0.04 s"),
        (1_500, "1.5 s"),
        (119_000, "119 s"),
        (120_000, "2 min"),
        (7_200_000, "2 h"),
    ],
)
def test_times_in_words(ms: int, words: str) -> None:
    assert exits.lasted(ms) == words


def test_sizes_in_words() -> None:
    assert exits.sized(1536 << 20) == "1,536 MiB"
