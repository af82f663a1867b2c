"""The clerk: always one, and whatever dies is told to it until it has seen to it."""

from __future__ import annotations

from pyrula_runtime.wire import Buried, Queue, Role
from pyrula_supervisor.actions import Spawn
from pyrula_supervisor.events import Said
from pyrula_supervisor.model import NEVER
from tests.supervisor.fake_processes import SIGKILL, Process, World, running, world

C = Role.clerk


def clerk_of(on: World) -> Process:
    (clerk,) = on.of(C)
    return clerk


def test_there_is_always_one_clerk() -> None:
    on = running()
    for _ in range(3):
        on.forget()
        on.die(clerk_of(on))
        on.wait(31_000)
        assert on.spawned == [(C, -1)]
        on.settle()
    assert on.goes_on
    assert [kind for kind, _ in on.incidents] == ["death"]


def test_a_clerk_that_keeps_dying_slows_down_and_harms_nobody() -> None:
    on = running()
    on.die(clerk_of(on))
    for _ in range(240):
        for clerk in on.of(C):
            if not clerk.born:
                on.be_born(clerk)
                on.die(clerk, 1)
        on.wait(250)
    assert 4 <= len(on.done(Spawn)) <= 8
    assert on.state.ready_workers == 2
    assert on.goes_on


def test_the_dead_are_told_at_once_and_again_until_it_is_done() -> None:
    on = running()
    worker = on.of()[0]
    on.die(worker)
    assert on.told == [worker.name]
    on.wait(4_750)
    assert on.told == [worker.name]
    on.wait(500)
    assert on.told == [worker.name] * 2
    on.bury(worker.name, final=False)
    on.wait(4_750)
    assert on.told == [worker.name] * 2
    on.wait(500)
    assert on.told == [worker.name] * 3
    on.bury(worker.name)
    assert on.state.burials == {}
    on.wait(20_000)
    assert on.told == [worker.name] * 3
    on.bury(worker.name)
    on.bury(worker.name, final=False)
    assert on.state.burials == {}


def test_a_new_clerk_hears_of_all_that_is_not_done() -> None:
    on = running(procs=3)
    first, second, third = on.of()
    for worker in (first, second, third):
        on.die(worker)
    on.bury(second.name)
    on.told.clear()
    clerk = clerk_of(on)
    on.die(clerk)
    assert on.told == []
    on.settle_clerk()
    assert on.told == [first.name, third.name]


def test_a_clerk_that_is_not_ready_is_not_told() -> None:
    begun = world()
    worker = begun.of()[0]
    begun.be_born(worker)
    begun.be_ready(worker)
    begun.die(worker)
    assert begun.told == []
    begun.settle_clerk()
    assert begun.told == [worker.name]


def test_the_last_burial_of_a_dead_clerk_counts() -> None:
    on = running()
    worker = on.of()[0]
    on.die(worker)
    clerk = clerk_of(on)
    on.die(clerk)
    message = Buried(incarnation=worker.name, run_ids=("r1",), final=True)
    on.feed(Said(now_ms=on.now_ms, incarnation=clerk.name, message=message))
    assert on.state.burials == {}


def test_one_that_was_never_ready_is_buried_too() -> None:
    on = running(procs=1)
    on.die(on.of()[0])
    (worker,) = on.of()
    on.be_born(worker)
    on.die(worker, SIGKILL)
    assert worker.name in on.state.burials


def test_processes_without_turns_are_not_buried() -> None:
    on = running(start_method="auto")
    on.die(clerk_of(on))
    on.die(on.of(Role.template)[0])
    assert on.state.burials == {}


def test_what_it_says_of_the_store_is_kept_with_its_time() -> None:
    on = running()
    clerk = clerk_of(on)
    assert (on.state.queue, on.state.queue_ms) == (None, NEVER)
    first_ms = on.now_ms
    on.say(clerk, Queue(incarnation=clerk.name, store_ok=True, store_url="sqlite:///x", counts={"queued": 3}))
    on.wait(2_000)
    on.say(clerk, Queue(incarnation=clerk.name, store_ok=True, store_url="sqlite:///x", counts={"queued": 2}))
    assert on.state.queue is not None
    assert on.state.queue.counts == {"queued": 2}
    assert (on.state.queue_ms, on.state.store_ms) == (on.now_ms, first_ms)
    on.wait(2_000)
    on.say(clerk, Queue(incarnation=clerk.name, store_ok=False, store_url="sqlite:///x", store_fault="disk full"))
    assert on.state.store_ms == on.now_ms
