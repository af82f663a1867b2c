"""Around the ladder: standing in for the mute, the store's lock, memory, and stuck workers in reloads and stops."""

from __future__ import annotations

import selectors

import pytest

from pyrula_runtime.core.standstill import Verdict
from pyrula_runtime.wire import Blocked, Report, Role, Stack, Stage
from pyrula_supervisor.actions import Spawn, TakeStack
from pyrula_supervisor.events import ScaleAsked, Weighed
from pyrula_supervisor.sentences import LOOK_MS
from pyrula_supervisor.tables import ChildState
from tests.supervisor.fake_processes import SIGKILL, running
from tests.supervisor.looks import FREE, HELD, STACK, finding_of, look, stand_ins, stuck


def test_the_clerk_stands_in_for_the_mute() -> None:
    on = running(procs=1)
    (worker,) = on.of()
    stuck(on, worker, 750, HELD)
    assert stand_ins(on) == [(worker.name, Stage.hand_on, "")], "its neighbours can begin what it cannot"
    on.forget()
    stuck(on, worker, 29_750, HELD)
    assert set(stand_ins(on)) == {(worker.name, Stage.hand_on, "")}
    assert 10 <= len(stand_ins(on)) <= 15, "it is told again"
    on.forget()
    stuck(on, worker, 31_000, HELD)
    assert set(stand_ins(on)) == {(worker.name, Stage.evacuate, "r1")}
    on.forget()
    on.tick()
    look(on, worker, 31_000, Verdict.starved)
    assert stand_ins(on) == [], "a moment without a CPU is not over"
    look(on, worker, 0, Verdict.healthy)
    assert stand_ins(on) == [(worker.name, Stage.over, "")]
    on.wait(5_000)
    assert len(stand_ins(on)) == 1


def test_where_locks_are_short_the_clerk_is_told_again_before_one_lapses() -> None:
    on = running(procs=1, lock_ttl_ms=1_500, evacuate_after_ms=4_000)
    (worker,) = on.of()
    stuck(on, worker, 3_500, HELD)
    assert len(stand_ins(on)) >= (3_500 - 500) // 750
    assert on.state.policy.stand_in_ms < on.state.policy.lock_ttl_ms / 3, "before its own renewal is due"


def test_nobody_stands_in_for_those_that_can_speak_or_are_dead() -> None:
    on = running(procs=1)
    (worker,) = on.of()
    stuck(on, worker, 40_000, FREE)
    assert stand_ins(on) == []
    stuck(on, worker, 41_000, HELD)
    on.forget()
    on.die(worker)
    assert stand_ins(on) == [(worker.name, Stage.over, "")]


def test_a_new_clerk_is_told_again() -> None:
    on = running(procs=1)
    (worker,) = on.of()
    stuck(on, worker, 3_000, HELD)
    on.die(on.of(Role.clerk)[0])
    on.forget()
    on.settle_clerk()
    assert stand_ins(on) == [(worker.name, Stage.hand_on, "")]


def test_the_locks_of_the_silent_are_renewed_by_the_clock_on_the_wall() -> None:
    """On a starved host hardly any time counts, and locks lapse all the same."""
    on = running(procs=1)
    (worker,) = on.of()
    for silent_ms, verdict, told in (
        (7_250, Verdict.starved, []),
        (7_500, Verdict.starved, [Stage.renew]),
        (9_000, Verdict.observer_late, [Stage.renew]),
        (9_500, Verdict.collecting, [Stage.renew]),
        (10_000, HELD, [Stage.renew, Stage.hand_on]),
        (60_000, Verdict.starved, [Stage.renew, Stage.hand_on]),
        (0, Verdict.healthy, [Stage.renew, Stage.hand_on, Stage.over]),
    ):
        look(on, worker, 0, verdict, silent_ms=silent_ms)
        assert stand_ins(on) == [(worker.name, stage, "") for stage in told]
    assert on.child(worker).state is ChildState.ready
    assert on.child(worker).blocked is None


def test_a_silence_is_not_the_end_of_a_block() -> None:
    on = running(procs=1)
    (worker,) = on.of()
    on.say(
        worker,
        Blocked(
            incarnation=worker.name,
            run_id="r1",
            workflow="order",
            step="charge",
            for_s=2.0,
            line="app.py:7",
            stack="...",
        ),
    )
    look(on, worker, 0, Verdict.starved, silent_ms=7_500)
    assert on.child(worker).state is ChildState.blocked
    look(on, worker, 0, Verdict.healthy, silent_ms=7_750)
    assert on.child(worker).state is ChildState.ready


def test_nobody_vouches_for_ever_for_a_worker_of_which_nothing_is_known() -> None:
    on = running(procs=1)
    (worker,) = on.of()
    look(on, worker, 0, Verdict.starved, silent_ms=89_750)
    look(on, worker, 0, Verdict.starved, silent_ms=90_000)
    assert stand_ins(on) == [(worker.name, Stage.renew, ""), (worker.name, Stage.over, "")]


@pytest.mark.parametrize("verdict", [HELD, Verdict.held_waiting])
@pytest.mark.parametrize("shows_stack", [True, False])
def test_whoever_keeps_the_gil_with_the_stores_lock_is_looked_at_and_killed(
    verdict: Verdict, *, shows_stack: bool
) -> None:
    on = running(procs=1)
    (worker,) = on.of()
    look(on, worker, 1_750, verdict, lock_ms=1_750)
    assert on.done(TakeStack) == []
    look(on, worker, 2_000, verdict, lock_ms=2_000)
    assert on.killed == []
    assert on.done(TakeStack)
    if shows_stack:
        on.say(worker, Stack(incarnation=worker.name, text=STACK))
        assert on.killed == [worker.name]
    else:
        on.wait(LOOK_MS)
        look(on, worker, 2_250, verdict, lock_ms=2_250)
    on.settle()
    assert on.killed == [worker.name]
    assert on.incidents == [("store_frozen", 0)]
    found = finding_of(on, worker.name)
    assert (found.cause, found.line) == ("store_frozen", "/srv/app.py:9 in slow" if shows_stack else "")


@pytest.mark.parametrize("verdict", [Verdict.stopped, Verdict.frozen])
def test_whoever_stands_still_with_the_stores_lock_is_killed_at_once(verdict: Verdict) -> None:
    on = running(procs=1)
    (worker,) = on.of()
    look(on, worker, 0, verdict, lock_ms=1_750)
    assert on.killed == []
    look(on, worker, 0, verdict, lock_ms=2_000)
    assert on.killed == [worker.name]
    assert on.incidents == [("store_frozen", 0)]
    on.settle()
    assert finding_of(on, worker.name).cause == "store_frozen"


def test_whoever_is_starved_with_the_stores_lock_and_the_gil_is_told_of_by_the_clock_on_the_wall() -> None:
    on = running(procs=1)
    (worker,) = on.of()
    look(on, worker, 0, HELD, lock_ms=500, lock_wall_ms=2_000)
    look(on, worker, 0, Verdict.starved, lock_ms=1_990, lock_wall_ms=7_960)
    assert on.done(TakeStack) == []
    look(on, worker, 0, Verdict.starved, lock_ms=2_040, lock_wall_ms=8_160)
    on.say(worker, Stack(incarnation=worker.name, text=STACK))
    assert on.killed == [worker.name]
    assert "is killed: it stood still for 8.2 s with the store's write lock, at /srv/app.py:9 in slow" in on.logged


def test_a_stop_between_does_not_make_a_worker_forgotten_whose_gil_is_held() -> None:
    on = running(procs=1)
    (worker,) = on.of()
    look(on, worker, 0, HELD, lock_ms=500, lock_wall_ms=500)
    look(on, worker, 0, Verdict.stopped, lock_ms=1_500, lock_wall_ms=1_500)
    look(on, worker, 0, Verdict.starved, lock_ms=1_600, lock_wall_ms=1_900)
    assert on.done(TakeStack) == []
    look(on, worker, 0, Verdict.starved, lock_ms=2_100, lock_wall_ms=3_900)
    assert on.done(TakeStack)
    on.say(worker, Stack(incarnation=worker.name, text=STACK))
    assert on.killed == [worker.name]


def test_what_was_seen_of_a_block_goes_into_the_finding_of_a_frozen_store() -> None:
    on = running(procs=1)
    (worker,) = on.of()
    stuck(on, worker, 2_250, HELD)
    on.say(worker, Stack(incarnation=worker.name, text=STACK))
    look(on, worker, 2_500, HELD, lock_ms=2_000)
    on.settle()
    found = finding_of(on, worker.name)
    assert (found.cause, found.line, found.stack) == ("store_frozen", "/srv/app.py:9 in slow", STACK)


def test_a_lane_that_waits_is_no_line_to_blame_for_memory() -> None:
    on = running(procs=1, max_rss_bytes=100 << 20)
    (worker,) = on.of()
    on.feed(Weighed(now_ms=on.now_ms, incarnation=worker.name, rss_bytes=250 << 20))
    waits = f'Thread 0x1 (most recent call first):\n  File "{selectors.__file__}", line 468 in select\n'
    on.say(worker, Stack(incarnation=worker.name, text=waits))
    on.settle()
    assert (finding_of(on, worker.name).line, finding_of(on, worker.name).cause) == ("", "out_of_memory")


def test_far_past_its_memory_a_worker_is_looked_at_and_killed() -> None:
    on = running(procs=1, max_rss_bytes=100 << 20)
    (worker,) = on.of()
    on.feed(Weighed(now_ms=on.now_ms, incarnation=worker.name, rss_bytes=250 << 20))
    assert on.dumped == [worker.name]
    look(on, worker, 0, Verdict.healthy)
    on.say(worker, Stack(incarnation=worker.name, text=STACK))
    assert on.killed == [worker.name]
    assert on.incidents == [("memory", 0)]
    on.settle()
    found = finding_of(on, worker.name)
    assert (found.cause, found.rss_bytes, found.limit_bytes) == ("out_of_memory", 250 << 20, 100 << 20)
    assert found.line == "/srv/app.py:9 in slow"


def test_a_draining_worker_climbs_too_but_gets_no_surge() -> None:
    on = running(procs=2)
    worker = on.of(slot=1)[0]
    on.feed(ScaleAsked(now_ms=on.now_ms, procs=1))
    stuck(on, worker, 31_000, HELD)
    assert on.done(Spawn) == []
    assert stand_ins(on)[-1] == (worker.name, Stage.evacuate, "r1")
    assert on.incidents == [("block", 1)]
    shown = on.child(worker).blocked
    assert shown is not None
    assert on.child(worker).state is ChildState.draining


def test_a_reload_does_not_wait_for_the_stuck() -> None:
    on = running(procs=2, reload_settle_ms=1_000)
    worker = on.of(slot=1)[0]
    stuck(on, worker, 6_000)
    on.settle()
    on.reload()
    for _ in range(20):
        on.settle()
        on.tick(1_000)
    assert on.state.reload is None
    assert on.state.generation.number == 2
    assert worker.name in on.state.children, "it leaves when it can"
    look(on, worker, 0, Verdict.healthy)
    on.settle()
    assert {child.generation for child in on.state.workers} == {2}


def test_it_stops_with_stuck_workers() -> None:
    on = running(procs=1, drain_ms=4_000)
    (worker,) = on.of()
    stuck(on, worker, 6_000, HELD)
    on.settle()
    on.stop()
    for _ in range(60):
        on.tick()
        for process in on.of(Role.surge) + on.of(Role.clerk):
            if process.drains:
                on.die(process, 0)
        if worker.doomed and not worker.dead:
            on.die(worker, SIGKILL)
    assert on.quit == 0
    assert finding_of(on, worker.name).cause == "blameless"


def test_reports_of_a_surge_count_in_its_slot() -> None:
    on = running(procs=1)
    (worker,) = on.of()
    stuck(on, worker, 5_000)
    on.settle()
    (surge,) = on.of(Role.surge)
    on.report(surge, turns_running=3)
    assert isinstance(on.child(surge).report, Report)
