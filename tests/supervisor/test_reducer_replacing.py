"""Restart, recycling, scaling and dumps: what is asked of single slots, and that no capacity is lost by it."""

from __future__ import annotations

import pytest

from pyrula_runtime.core.standstill import Verdict
from pyrula_runtime.wire import Role, Stack
from pyrula_supervisor.actions import Spawn
from pyrula_supervisor.events import DumpAsked, ReloadAsked, RestartAsked, ScaleAsked, Weighed
from tests.supervisor.fake_processes import SIGKILL, SIGSEGV, World, running
from tests.supervisor.looks import look

W = Role.worker


def restart(on: World, slot: int, asker: int = 1) -> None:
    on.feed(RestartAsked(now_ms=on.now_ms, slot=slot, asker=asker))


def scale(on: World, procs: int, asker: int = 1) -> None:
    on.feed(ScaleAsked(now_ms=on.now_ms, procs=procs, asker=asker))


def dump(on: World, slot: int, asker: int = 1) -> None:
    on.feed(DumpAsked(now_ms=on.now_ms, slot=slot, asker=asker))


# restart


def test_a_restart_is_new_before_old() -> None:
    on = running(procs=2)
    old = on.of(slot=1)[0]
    restart(on, 1)
    assert on.spawned == [(W, 1)]
    new = on.of(slot=1)[-1]
    assert old.stays
    on.be_born(new)
    on.be_ready(new)
    assert old.drains
    assert on.answers == [(1, True, f"slot 1 has a new worker, pid {new.pid}")]
    on.die(old, 0)
    assert (on.incidents, on.state.slots[1].restarts) == ([], 0)
    assert on.state.slots[1].last_exit.startswith("worker 1 (pid 102) exited with code 0")


def test_a_restart_that_fails_keeps_the_old_worker() -> None:
    on = running(procs=2)
    old = on.of(slot=1)[0]
    restart(on, 1)
    new = on.of(slot=1)[-1]
    on.be_born(new)
    on.die(new, SIGSEGV)
    on.wait(5_000)
    assert on.answers[0][:2] == (1, False)
    assert on.answers[0][2].startswith("slot 1 keeps its worker: worker 1 (pid 103) was killed by SIGSEGV")
    assert old.stays
    assert [process.name for process in on.of(slot=1)] == [old.name]


def test_restarts_are_done_one_after_another() -> None:
    on = running(procs=3)
    for slot in range(3):
        restart(on, slot, asker=slot + 1)
    assert on.spawned == [(W, 0)]
    on.settle()
    assert on.spawned == [(W, 0), (W, 1), (W, 2)]
    assert [answer[:2] for answer in on.answers] == [(1, True), (2, True), (3, True)]
    assert len(on.of()) == 3


def test_the_next_waits_for_the_last_process_of_the_former() -> None:
    on = running(procs=3)
    restart(on, 0)
    restart(on, 1)
    new = on.of(slot=0)[-1]
    on.be_born(new)
    on.be_ready(new)
    on.wait(5_000)
    assert on.spawned == [(W, 0)]
    on.die(on.of(slot=0)[0], 0)
    assert on.spawned == [(W, 0), (W, 1)]


def test_a_restart_of_a_slot_that_waits_starts_it_now() -> None:
    on = running(procs=1)
    for _ in range(6):
        (worker,) = on.of()
        if not worker.born:
            on.be_born(worker)
        on.die(worker, SIGSEGV)
        on.wait(8_000)
    assert on.of() == []
    on.forget()
    restart(on, 0)
    assert on.spawned == [(W, 0)]
    assert on.answers == [(1, True, "slot 0 had no worker that serves; one is being started")]


def test_the_old_one_may_die_meanwhile() -> None:
    on = running(procs=1)
    old = on.of()[0]
    restart(on, 0)
    on.die(old, SIGKILL)
    assert on.spawned == [(W, 0)]
    on.settle()
    assert on.answers[0][:2] == (1, True)
    assert len(on.of()) == 1


@pytest.mark.parametrize("slot", [-1, 2, 1000])
def test_there_is_no_such_slot(slot: int) -> None:
    on = running(procs=2)
    restart(on, slot)
    assert on.answers == [(1, False, f"there is no slot {slot}; the slots are 0 to 1")]


def test_a_stop_answers_those_who_wait() -> None:
    on = running(procs=2)
    restart(on, 0, asker=1)
    restart(on, 1, asker=2)
    on.stop()
    restart(on, 0, asker=3)
    assert [answer[:2] for answer in on.answers] == [(1, False), (2, False), (3, False)]


def test_a_template_that_cannot_be_had_answers_those_who_wait() -> None:
    on = running(start_method="auto", procs=2)
    (template,) = on.of(Role.template)
    on.die(template)
    restart(on, 1)
    (template,) = on.of(Role.template)
    on.be_born(template)
    on.die(template, 1)
    assert on.answers[0][:2] == (1, False)
    on.settle()
    on.wait(2_000)
    assert on.state.ready_workers == len(on.of()) == 2


# recycling


def test_a_worker_that_has_done_its_turns_is_replaced() -> None:
    on = running(procs=2, max_turns=100)
    old = on.of(slot=0)[0]
    on.report(old, turns_done=99)
    assert on.done(Spawn) == []
    on.report(old, turns_done=100)
    assert on.spawned == [(W, 0)]
    assert old.stays
    on.settle()
    assert old.dead
    assert (on.incidents, on.killed, on.state.slots[0].restarts) == ([], [], 0)
    assert on.state.slots[0].pace.failures == 0
    assert "is to be replaced: it has done 100 turns of 100" in on.logged


def test_a_worker_that_has_grown_is_replaced() -> None:
    on = running(procs=2, max_rss_bytes=512 << 20)
    old = on.of(slot=1)[0]
    on.feed(Weighed(now_ms=on.now_ms, incarnation=old.name, rss_bytes=512 << 20))
    assert on.done(Spawn) == []
    on.feed(Weighed(now_ms=on.now_ms, incarnation=old.name, rss_bytes=513 << 20))
    assert on.spawned == [(W, 1)]
    assert "it has 513 MiB of memory, more than 512 MiB" in on.logged
    on.feed(Weighed(now_ms=on.now_ms, incarnation="gone", rss_bytes=1))


@pytest.mark.parametrize("rss_mb", [30, 50])
def test_a_limit_of_memory_that_nobody_can_keep_starts_no_processes_without_end(rss_mb: int) -> None:
    on = running(procs=1, max_rss_bytes=20 << 20)
    for _ in range(240):
        for process in on.of():
            on.feed(Weighed(now_ms=on.now_ms, incarnation=process.name, rss_bytes=rss_mb << 20))
        on.settle()
        on.wait(250)
    assert 6 <= len(on.done(Spawn)) <= 8
    assert ("raise the limit" if rss_mb == 30 else "far more than 20 MiB") in on.logged
    if rss_mb == 30:
        on.die(on.of()[0])  # it has no part in that
        assert len(on.of()) == 1


def test_workers_that_grow_slowly_are_all_replaced_as_soon_as_they_have() -> None:
    on = running(procs=1, max_rss_bytes=512 << 20)
    for _ in range(10):
        on.wait(60_000)
        (old,) = on.of()
        on.feed(Weighed(now_ms=on.now_ms, incarnation=old.name, rss_bytes=513 << 20))
        on.settle()
        assert old.dead
    assert "raise the limit" not in on.logged


def test_a_worker_whose_background_work_has_ended_is_replaced() -> None:
    on = running(procs=1)
    on.report(on.of()[0], loop_failed="renewals")
    assert on.spawned == [(W, 0)]


def test_worn_workers_are_replaced_one_at_a_time() -> None:
    on = running(procs=3, max_turns=10)
    for process in on.of():
        on.report(process, turns_done=10)
    assert on.spawned == [(W, 0)]
    on.settle()
    assert on.spawned == [(W, 0), (W, 1), (W, 2)]


def test_a_worn_worker_stays_while_its_successors_fail_and_those_slow_down() -> None:
    on = running(procs=1, max_turns=10)
    old = on.of()[0]
    on.report(old, turns_done=10)
    for _ in range(240):
        for process in on.of():
            if not process.born:
                on.be_born(process)
                on.die(process, 1)
        on.wait(250)
    assert on.child(old).serving
    assert 4 <= len(on.done(Spawn)) <= 9


def test_nothing_is_recycled_without_limits() -> None:
    on = running(procs=1)
    on.report(on.of()[0], turns_done=10**9)
    on.feed(Weighed(now_ms=on.now_ms, incarnation=on.of()[0].name, rss_bytes=1 << 50))
    assert on.done(Spawn) == []


# scale


def test_up_is_at_once() -> None:
    on = running(procs=2)
    scale(on, 4)
    assert on.spawned == [(W, 2), (W, 3)]
    assert on.answers == [(1, True, "scaled from 2 to 4 workers")]
    on.settle()
    assert on.state.ready_workers == 4


def test_down_drains_the_highest_slots() -> None:
    on = running(procs=4)
    scale(on, 2)
    assert [process.spawn.slot for process in on.of() if process.drains] == [2, 3]
    on.settle()
    assert [process.spawn.slot for process in on.of()] == [0, 1]
    assert (on.done(Spawn), on.incidents, on.killed) == ([], [], [])
    assert set(on.buried) == set(on.graves)


def test_down_and_up_again_does_not_wait() -> None:
    on = running(procs=2)
    scale(on, 1)
    scale(on, 2)
    assert on.spawned == [(W, 1)]
    on.settle()
    assert on.state.ready_workers == len(on.of()) == 2


def test_down_drains_what_is_still_starting() -> None:
    on = running(procs=1)
    scale(on, 3)
    (_, second, third) = on.of()
    on.be_born(second)
    scale(on, 1)
    assert second.drains
    assert third.drains
    on.settle()
    assert [process.spawn.slot for process in on.of()] == [0]


def test_down_answers_who_waits_for_a_slot_that_goes() -> None:
    on = running(procs=3)
    restart(on, 2, asker=7)
    scale(on, 2)
    assert on.answers[0] == (7, False, "slot 2 is not restarted: there are only 2 slots now")
    on.settle()
    assert len(on.of()) == 2


@pytest.mark.parametrize("procs", [0, 1, 129, -4])
def test_there_are_limits(procs: int) -> None:
    on = running(procs=3, min_ready=2)
    scale(on, procs)
    assert on.answers == [(1, False, f"there can be from 2 (min_ready) to 128 workers, not {procs}")]
    assert on.state.procs == 3


def test_scaled_while_it_reloads() -> None:
    on = running(procs=2)
    on.feed(ReloadAsked(now_ms=on.now_ms))
    scale(on, 3)
    for _ in range(100):
        on.settle()
        on.tick()
    assert [child.generation for child in on.state.workers] == [2, 2, 2]


def test_a_stopping_supervisor_is_not_scaled() -> None:
    on = running()
    on.stop()
    scale(on, 4)
    assert on.answers[0][:2] == (1, False)


# dump


def test_the_stack_of_a_slot() -> None:
    on = running(procs=2)
    worker = on.of(slot=1)[0]
    dump(on, 1, asker=1)
    dump(on, 1, asker=2)
    assert on.dumped == [worker.name] * 2
    on.say(worker, Stack(incarnation=worker.name, text="File app.py, line 3"))
    assert on.answers == [(1, True, "File app.py, line 3"), (2, True, "File app.py, line 3")]
    on.wait(10_000)
    assert len(on.answers) == 2


def test_a_stopped_process_shows_none() -> None:
    on = running(procs=1)
    dump(on, 0)
    on.wait(4_750)
    assert on.answers == []
    on.wait(250)
    assert on.answers == [(1, False, "slot 0 has shown no stack within 5 s: its process may be stopped")]


def test_a_dead_process_shows_none() -> None:
    on = running(procs=1)
    dump(on, 0)
    on.die(on.of()[0])
    assert on.answers[0][:2] == (1, False)
    assert "was killed by SIGKILL" in on.answers[0][2]


def test_a_slot_without_worker_shows_none() -> None:
    on = running(procs=1)
    dump(on, 5)
    assert on.answers == [(1, False, "slot 5 has no worker now, so there is no stack")]


def test_a_successor_waits_while_a_canary_is_the_extra_process() -> None:
    on = running(start_method="auto", procs=2)
    on.die(on.of(Role.template)[0])
    restart(on, 1)
    on.feed(ReloadAsked(now_ms=on.now_ms, asker=2))
    old, new = on.of(Role.template)
    for template in (new, old):
        on.be_born(template)
        on.be_ready(template)
    assert on.spawned == [(Role.template, -1), (Role.template, -1), (W, 0)]
    for _ in range(40):
        on.settle()
        on.tick()
        assert on.state.extras <= 1
    assert sorted(answer[:2] for answer in on.answers) == [(1, True), (2, True)]


def test_nothing_is_recycled_that_a_reload_replaces() -> None:
    on = running(procs=2, max_turns=10)
    on.feed(ReloadAsked(now_ms=on.now_ms))
    on.forget()
    on.report(on.of(slot=1)[0], turns_done=10)
    on.fail_to_spawn(on.of(slot=0)[-1])
    assert on.spawned == [(W, 1)], "it comes when the reload is over"


def test_a_worker_that_was_stuck_does_not_stay_beside_its_surge_because_a_reload_fails() -> None:
    on = running(procs=2, start_method="auto")
    (worker,) = on.of(slot=1)
    look(on, worker, 5_000)
    restart(on, 0)
    look(on, worker, 0, Verdict.healthy)
    on.feed(ReloadAsked(now_ms=on.now_ms))
    on.fail_to_spawn(on.of(Role.template)[-1])
    assert on.state.reload is None
    assert on.of(Role.surge, 1)
    assert on.child(worker).outdated
    assert on.state.extras <= 1
    on.settle()
    on.settle()
    assert worker.drains
