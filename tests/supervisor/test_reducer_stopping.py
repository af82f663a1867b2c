"""The end: bounded, in order, nothing started, and what a second signal does."""

from __future__ import annotations

import pytest

from pyrula_runtime.wire import Drain, Role
from pyrula_supervisor.actions import Kill, Notify, Quit, Send, Spawn, Terminate
from pyrula_supervisor.events import Tick
from pyrula_supervisor.reducer import step
from tests.supervisor.fake_processes import SIGKILL, SIGTERM, World, running, world

C, T = Role.clerk, Role.template
DRAIN_MS = 20_000


def stopping(**policy: object) -> World:
    on = running(**{"procs": 2, "drain_ms": DRAIN_MS, **policy})
    on.stop()
    return on


def drained(on: World) -> list[str]:
    return [action.incarnation for action in on.done(Send) if isinstance(action.message, Drain)]


def test_all_workers_drain_at_once_the_template_first_the_clerk_last() -> None:
    on = stopping(start_method="auto")
    (template,), (clerk,), workers = on.of(T), on.of(C), on.of()
    assert drained(on) == [template.name, *(worker.name for worker in workers)]
    assert on.notices == ["STOPPING=1"]
    on.die(template, 0)
    for worker in workers:
        on.die(worker, 0)
    assert clerk.stays
    on.bury(workers[0].name, final=False)
    assert clerk.stays
    on.bury(workers[1].name, final=False)
    assert clerk.drains, "one look is enough for those that left in order"
    on.die(clerk, 0)
    assert on.quit == 0
    assert (on.killed, on.incidents) == ([], [])


def test_one_that_was_killed_is_looked_at_twice_before_the_clerk_goes() -> None:
    on = stopping(procs=1)
    (clerk,), (worker,) = on.of(C), on.of()
    on.die(worker, SIGKILL)
    assert on.incidents == [("death", 0)]
    on.bury(worker.name, final=False)
    assert clerk.stays
    on.bury(worker.name)
    assert clerk.drains


def test_a_clerk_that_buries_nothing_does_not_hold_up_the_end() -> None:
    on = stopping()
    (clerk,) = on.of(C)
    for worker in on.of():
        on.die(worker, 0)
    on.wait(DRAIN_MS + 2_750)
    assert clerk.stays
    on.wait(250)
    assert clerk.drains
    on.wait(1_000)
    assert on.killed == [clerk.name]
    on.die(clerk)
    assert on.quit == 0


def test_without_a_clerk_nothing_is_waited_for() -> None:
    on = stopping()
    on.die(on.of(C)[0])
    for worker in on.of():
        on.die(worker, 0)
    assert on.done(Spawn) == []
    assert on.quit == 0
    assert on.state.burials != {}, "the next start finds them by their boxes"


def test_those_that_do_not_show_that_they_drain_get_a_signal() -> None:
    on = stopping()
    first, second = on.of()
    on.report(first, draining=True)
    on.wait(1_750)
    assert on.done(Terminate) == []
    on.wait(250)
    assert on.done(Terminate) == [Terminate(incarnation=second.name)]
    on.wait(5_000)
    assert len(on.done(Terminate)) == 1


def test_those_that_are_left_at_the_sum_are_killed_and_buried() -> None:
    on = stopping()
    first, second = on.of()
    on.die(first, 0)
    on.wait(DRAIN_MS - 250)
    assert on.killed == []
    on.wait(250)
    assert on.killed == [second.name]
    assert on.incidents == [("death", 1)]
    assert "worker 1 (pid 102) was told to leave (the supervisor stops) and did not in time; it is killed" in on.logged
    on.die(second)
    assert second.name in on.told
    on.settle()
    assert on.quit == 0


def test_the_end_comes_whatever_the_kernel_does() -> None:
    on = stopping(start_method="auto")
    on.wait(DRAIN_MS + 4_750)
    assert on.goes_on
    on.wait(250)
    assert on.quit == 0
    assert "not waiting any longer for clerk (pid 100), template (pid 101), worker 0" in on.logged
    assert isinstance(on.actions[-1], Quit)


def test_the_service_manager_is_asked_for_more_time_while_it_lasts() -> None:
    on = stopping()
    on.wait(10_000)
    asked = [action for action in on.done(Notify) if action.extend_ms]
    assert 9 <= len(asked) <= 11
    assert {action.extend_ms for action in asked} == {10_000}


@pytest.mark.parametrize("exit_code", [143, 130])
def test_a_second_signal_kills_everything_and_leaves_with_its_code(exit_code: int) -> None:
    on = stopping(start_method="auto")
    left = [*on.of(), *on.of(C), *on.of(T)]
    on.stop(exit_code=exit_code)
    assert sorted(on.killed) == sorted(process.name for process in left)
    for process in left:
        assert on.goes_on
        on.die(process)
    assert on.quit == exit_code
    assert on.incidents == []


def test_a_second_signal_does_not_wait_for_long() -> None:
    on = stopping()
    on.stop()
    on.wait(250)
    assert on.goes_on
    on.stop()
    on.wait(250)
    assert on.quit == 143


def test_the_command_is_no_second_signal() -> None:
    on = stopping()
    on.stop(is_signal=False)
    on.stop(is_signal=False)
    assert on.killed == []
    on.stop()
    assert on.killed != []


def test_one_signal_after_the_command_is_the_first() -> None:
    on = running()
    on.stop(is_signal=False)
    on.stop()
    assert on.killed == []
    on.stop()
    assert on.killed != []


def test_a_stop_during_the_start_starts_nothing_more() -> None:
    begun = world(start_method="auto", procs=4)
    (template,) = begun.of(T)
    begun.be_born(template)
    begun.forget()
    begun.stop()
    begun.be_ready(template)
    assert template.drains
    assert begun.done(Spawn) == []
    begun.die(template, SIGTERM)
    begun.settle()
    assert begun.quit == 0
    assert begun.notices == ["STOPPING=1"]


def test_forks_that_are_still_to_come_are_drained_when_they_do() -> None:
    begun = world(start_method="auto", procs=2)
    begun.settle_clerk()
    (template,) = begun.of(T)
    begun.be_born(template)
    begun.be_ready(template)
    begun.stop()
    first, second = begun.of()
    begun.be_born(first)
    begun.be_ready(first)
    assert first.drains
    begun.die(template, 0)
    begun.be_born(second)
    assert second.doomed, "nobody expects it any more"
    begun.die(second)
    begun.die(first, 0)
    begun.settle()
    assert begun.quit == 0


def test_a_stop_during_backoff_starts_nothing_more() -> None:
    on = running(procs=2)
    for _ in range(4):
        worker = on.of(slot=0)[0]
        if not worker.born:
            on.be_born(worker)
        on.die(worker, 1)
        on.wait(500)
    on.forget()
    on.stop()
    on.wait(10_000)
    assert on.done(Spawn) == []


def test_failures_of_a_stopping_start_do_not_change_its_exit_code() -> None:
    begun = world(procs=1)
    (worker,) = begun.of()
    begun.be_born(worker)
    begun.stop()
    begun.refuse(worker, reason="no app")
    begun.die(worker, 78)
    begun.settle()
    assert begun.quit == 0


def test_after_the_end_nothing_happens() -> None:
    on = stopping()
    on.settle()
    state = on.state
    assert step(state, Tick(now_ms=on.now_ms + 10**6), b"x" * 16) == (state, ())


def test_one_that_will_not_die_is_killed_again() -> None:
    on = running(procs=1, startup_timeout_ms=5_000)
    on.die(on.of()[0])
    (worker,) = on.of()
    on.be_born(worker)
    on.wait(6_000)
    on.wait(5_000)
    assert on.done(Kill) == [Kill(incarnation=worker.name)] * 2


def test_nobody_is_signalled_before_it_exists() -> None:
    begun = world(procs=1)
    begun.settle_clerk()
    (worker,) = begun.of()
    begun.stop()
    begun.wait(5_000)
    assert begun.done(Terminate) == []
    begun.be_born(worker)
    begun.tick()
    assert begun.done(Terminate) == [Terminate(incarnation=worker.name)]


def test_one_that_comes_to_life_after_it_was_killed_is_killed_again() -> None:
    begun = world(procs=1, startup_timeout_ms=5_000)
    begun.settle_clerk()
    (worker,) = begun.of()
    begun.wait(5_000)
    assert begun.killed == [worker.name]
    begun.be_born(worker)
    assert begun.killed == [worker.name] * 2
