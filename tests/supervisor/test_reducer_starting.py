"""The start: what is begun, what counts as ready, and when a start that cannot succeed is given up."""

from __future__ import annotations

import logging

import pytest

from pyrula_runtime.wire import Role, Stack
from pyrula_supervisor.actions import Log, Quit, Spawn
from pyrula_supervisor.tables import ChildState, Phase
from tests.supervisor.fake_processes import SIGSEGV, world

W, C = Role.worker, Role.clerk


def test_it_begins_with_a_clerk_and_all_workers() -> None:
    begun = world(procs=3)
    assert begun.spawned == [(C, -1), (W, 0), (W, 1), (W, 2)]
    assert {action.generation for action in begun.done(Spawn)} == {1}
    names = [action.incarnation for action in begun.done(Spawn)]
    assert len(set(names)) == 4
    assert all(len(name) == 16 and int(name, 16) >= 0 for name in names)


def test_ready_is_said_once_when_enough_are() -> None:
    begun = world(procs=3, min_ready=2)
    for process in begun.of():
        begun.be_born(process)
    first, second, third = begun.of()
    begun.be_ready(first)
    assert begun.notices == []
    begun.be_ready(second)
    assert begun.state.phase is Phase.running
    begun.be_ready(third)
    begun.die(third)
    begun.die(second)
    begun.settle()
    assert begun.notices == ["READY=1"]


def test_news_may_overtake_each_other() -> None:
    begun = world(procs=1)
    (worker,) = begun.of()
    begun.be_ready(worker)
    begun.be_born(worker)
    assert begun.child(worker).state is ChildState.ready
    assert begun.child(worker).pid == worker.pid


def test_one_that_is_not_ready_in_time_shows_its_stack_and_is_killed() -> None:
    begun = world(procs=1, startup_timeout_ms=10_000)
    begun.settle_clerk()
    (worker,) = begun.of()
    begun.be_born(worker)
    begun.wait(9_750)
    assert begun.dumped == begun.killed == []
    begun.wait(250)
    assert begun.dumped == [worker.name]
    begun.say(worker, Stack(incarnation=worker.name, text="in lock.acquire()"))
    assert "worker 0 (pid 101) is stuck before it is ready:\nin lock.acquire()" in begun.logged
    begun.wait(1_000)
    assert begun.killed == [worker.name]
    assert "worker 0 (pid 101) was not ready within 10 s; it is killed" in begun.logged
    begun.die(worker)
    assert begun.incidents == [("start_failed", 0)]
    assert "(killed by us because it was not ready within 10 s)" in begun.state.slots[0].last_exit
    assert begun.state.slots[0].pace.failures == begun.state.failed_starts == 1


def test_wrong_setup_ends_the_first_start_once_with_78() -> None:
    begun = world(procs=4)
    for process in begun.of():
        begun.be_born(process)
    first, second, *_ = begun.of()
    begun.refuse(first, reason="app cannot be imported", traceback="Traceback: boom")
    begun.refuse(second, reason="app cannot be imported", traceback="Traceback: boom")
    for process in begun.of():
        begun.die(process, 78)
    assert begun.goes_on  # the clerk has yet to go
    begun.fail_to_spawn(begun.of(C)[0])
    assert begun.quit == 78
    assert begun.logged.count("Traceback: boom") == 1
    assert "worker 0 (pid 101) cannot start: app cannot be imported" in begun.logged
    assert [each.level for each in begun.done(Log) if "boom" in each.text] == [logging.CRITICAL]
    assert len(begun.done(Spawn)) == 5, "one attempt"
    assert begun.notices == []


def test_a_wrong_setup_of_the_clerk_ends_the_first_start_too() -> None:
    begun = world()
    (clerk,) = begun.of(C)
    begun.be_born(clerk)
    begun.refuse(clerk, reason="the store is refused")
    begun.wait(750)
    assert begun.quit == 78


def test_it_does_not_wait_for_one_that_will_not_die() -> None:
    begun = world(procs=1)
    (worker,) = begun.of()
    begun.be_born(worker)
    begun.refuse(worker, reason="no app")
    begun.wait(500)
    assert begun.quit == 78
    assert "not waiting any longer for clerk, worker 0 (pid 101)" in begun.logged


def test_another_exit_code_is_a_failed_start_like_others() -> None:
    begun = world(procs=1)
    (worker,) = begun.of()
    begun.be_born(worker)
    begun.refuse(worker, reason="the store is away", exit_code=1)
    assert begun.killed == []
    begun.die(worker, 1)
    assert begun.state.slots[0].last_exit == "worker 0 (pid 101) exited with code 1 after 0 s (the store is away)"
    assert begun.goes_on
    assert len(begun.of()) == 1


def test_one_that_says_that_it_will_exit_and_does_not_is_killed() -> None:
    begun = world(procs=1)
    (worker,) = begun.of()
    begun.be_born(worker)
    begun.refuse(worker, reason="the store is away", exit_code=1)
    begun.wait(2_000)
    assert begun.killed == [worker.name]
    assert begun.dumped == []


def test_wrong_setup_after_a_first_success_is_a_failed_start() -> None:
    begun = world(procs=2)
    good, bad = begun.of()
    begun.be_born(good)
    begun.be_ready(good)
    begun.be_born(bad)
    begun.refuse(bad, reason="import failed", traceback="boom")
    begun.die(bad, 78)
    assert begun.goes_on
    assert "boom" in begun.logged
    assert begun.incidents == [("start_failed", 1)]
    assert [process.spawn.slot for process in begun.of()] == [0, 1]


@pytest.mark.parametrize("status", [1, 0, SIGSEGV])
def test_a_burst_of_failed_starts_before_any_success_gives_up(status: int) -> None:
    begun = world(procs=4)
    begun.settle_clerk()
    for left in range(5, 0, -1):
        assert begun.goes_on
        begun.wait(1_000)
        worker = begun.of()[0]
        begun.be_born(worker)
        begun.die(worker, status)
        assert begun.state.failed_starts == 6 - left
    assert "giving up: 5 starts failed and none succeeded; the last: worker" in begun.logged
    begun.wait(500)
    assert begun.quit == 1
    assert begun.done(Quit) == [Quit(exit_code=1)]


def test_once_a_worker_was_ready_it_never_gives_up() -> None:
    begun = world(procs=1)
    begun.settle()
    for _ in range(20):
        (worker,) = begun.of()
        if not worker.born:
            begun.be_born(worker)
        begun.die(worker, 1)
        begun.wait(31_000)
    assert begun.goes_on
    assert begun.state.phase is Phase.running
    assert begun.state.slots[0].restarts == 20


def test_one_that_cannot_be_made_is_a_failed_start() -> None:
    begun = world(procs=1)
    begun.fail_to_spawn(begun.of()[0], "too many open files")
    assert begun.incidents == [("start_failed", 0)]
    assert begun.state.slots[0].last_exit == "worker 0 could not be made: too many open files"
    assert len(begun.of()) == 1


def test_one_that_comes_after_it_was_given_up_is_killed_and_buried() -> None:
    begun = world(procs=1)
    (worker,) = begun.of()
    begun.fail_to_spawn(worker)
    begun.forget()
    begun.be_born(worker)
    assert begun.killed == [worker.name]
    begun.die(worker)
    assert worker.name in begun.state.burials
