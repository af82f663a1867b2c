"""Templates: first of all when workers are forked, given up where forking is unsafe, and not missed when they die."""

from __future__ import annotations

import pytest

from pyrula_runtime.wire import Role
from pyrula_supervisor.actions import Spawn
from pyrula_supervisor.starting import FORKS_AT_ONCE
from tests.supervisor.fake_processes import SIGKILL, SIGSEGV, Process, World, running, world

W, C, T = Role.worker, Role.clerk, Role.template


def forking(**policy: object) -> tuple[World, Process]:
    """A supervisor whose template exists, and that template."""
    begun = world(**{"start_method": "auto", **policy})
    begun.settle_clerk()
    (template,) = begun.of(T)
    begun.be_born(template)
    begun.forget()
    return begun, template


def test_the_template_comes_first_and_forks_all_workers() -> None:
    begun = world(start_method="auto", procs=3)
    assert begun.spawned == [(C, -1), (T, -1)]
    (template,) = begun.of(T)
    begun.be_born(template)
    begun.forget()
    begun.be_ready(template, note="2 native threads")
    assert begun.spawned == [(W, 0), (W, 1), (W, 2)]
    assert {action.by_template for action in begun.done(Spawn)} == {template.name}
    assert begun.child(template).note == "2 native threads"
    assert begun.state.generation.forks


def test_a_template_gets_no_more_orders_than_its_line_has_room_for() -> None:
    begun, template = forking(procs=100)
    begun.be_ready(template)
    most = 0
    while coming := [process for process in begun.of() if not process.born]:
        most = max(most, len(coming))
        begun.be_born(coming[0])
    assert most == FORKS_AT_ONCE
    assert {slot for _, slot in begun.spawned} == set(range(100))


def test_where_no_template_can_be_workers_are_spawned_and_it_says_why() -> None:
    begun = world(start_method="auto", no_template="only Linux has child subreapers")
    assert begun.of(T) == []
    assert len(begun.of()) == 2
    assert begun.state.generation.reason == "only Linux has child subreapers"


def test_auto_spawns_an_app_that_cannot_be_forked_and_keeps_the_reason() -> None:
    begun, template = forking()
    begun.refuse(template, reason="2 extra threads: set OPENBLAS_NUM_THREADS=1", unsafe_template=True)
    assert begun.spawned == [(W, 0), (W, 1)]
    assert {action.by_template for action in begun.done(Spawn)} == {""}
    assert not begun.state.generation.forks
    assert begun.state.generation.reason == "2 extra threads: set OPENBLAS_NUM_THREADS=1"
    begun.die(template, 78)
    assert begun.incidents == []
    begun.settle()
    assert (begun.quit, begun.state.failed_starts) == (None, 0)


def test_a_template_that_was_asked_for_must_be_safe() -> None:
    begun, template = forking(start_method="template")
    begun.refuse(template, reason="an open socket", unsafe_template=True)
    begun.wait(750)
    assert begun.quit == 78
    assert "template (pid 101) cannot start: an open socket" in begun.logged


def test_an_import_error_of_the_template_ends_the_start() -> None:
    begun, template = forking()
    begun.refuse(template, reason="no module app", traceback="ModuleNotFoundError")
    begun.wait(750)
    assert begun.quit == 78
    assert begun.done(Spawn) == []


def test_a_template_that_hangs_at_the_first_start_ends_it_after_one_timeout() -> None:
    begun, template = forking(startup_timeout_ms=10_000)
    begun.wait(10_000)
    assert begun.dumped == [template.name]
    begun.wait(1_000)
    assert begun.killed == [template.name]
    begun.die(template)
    begun.wait(500)
    assert begun.quit == 1
    assert "giving up: template (pid 101) was killed by SIGKILL after 11 s (killed by us because" in begun.logged


def test_a_template_that_crashes_at_the_first_start_is_tried_as_often_as_workers() -> None:
    begun, _ = forking()
    for _ in range(5):
        assert begun.goes_on
        begun.wait(31_000) if begun.of(T) == [] else None
        (template,) = begun.of(T)
        if not template.born:
            begun.be_born(template)
        begun.die(template, SIGSEGV)
    begun.wait(500)
    assert begun.quit == 1


def test_the_death_of_a_template_leaves_its_workers_alone() -> None:
    on = running(start_method="auto", procs=3)
    (template,) = on.of(T)
    on.die(template, SIGKILL)
    on.wait(5_000)
    assert on.done(Spawn) == []
    assert on.killed == []
    assert on.incidents == [("death", -1)]
    assert on.state.ready_workers == 3


def test_the_next_start_after_it_makes_a_template_first() -> None:
    on = running(start_method="auto", procs=3)
    on.die(on.of(T)[0], SIGKILL)
    on.die(on.of()[1], SIGKILL)
    assert on.spawned == [(T, -1)]
    on.settle()
    assert on.spawned == [(T, -1), (W, 1)]
    assert on.of(slot=1)[0].spawn.by_template == on.of(T)[0].name


def test_twenty_deaths_of_templates_lose_no_slot() -> None:
    on = running(start_method="auto", procs=3)
    for turn in range(20):
        on.die(on.of(T)[0], SIGKILL)
        on.die(on.of()[turn % 3], SIGKILL)
        on.wait(31_000)
        on.settle()
        assert sorted(process.spawn.slot for process in on.of()) == [0, 1, 2]


def test_templates_that_keep_dying_slow_down() -> None:
    on = running(start_method="auto", procs=1)
    on.die(on.of(T)[0])
    on.die(on.of()[0])
    on.forget()
    for _ in range(240):
        for template in on.of(T):
            if not template.born:
                on.be_born(template)
                on.die(template, 1)
        on.wait(250)
    assert len(on.done(Spawn)) <= 8
    assert on.goes_on


def test_forks_that_a_dying_template_leaves_undone_are_asked_of_the_next() -> None:
    begun, template = forking(procs=2)
    begun.be_ready(template)
    first, second = begun.of()
    begun.be_born(first)
    begun.die(template, SIGKILL)
    assert list(begun.state.of_slot(0)) != []
    assert list(begun.state.of_slot(1)) == []
    assert "worker 1 was lost with its template" in begun.logged
    second.dead = True
    begun.settle()
    assert begun.state.ready_workers == 2
    assert begun.state.slots[1].pace.failures == 0


def test_a_template_that_does_not_take_the_order_is_replaced_at_no_cost_to_the_slot() -> None:
    on = running(start_method="auto", procs=2)
    (template,) = on.of(T)
    on.die(on.of()[0])
    failures = on.state.slots[0].pace.failures
    on.fail_to_spawn(on.of(slot=0)[0], "its template does not listen")
    assert (template.doomed, on.state.slots[0].pace.failures) == (True, failures)
    on.die(template)
    assert on.spawned == [(W, 0), (T, -1)]
    on.settle()
    assert on.state.ready_workers == 2


@pytest.mark.parametrize("method", ["auto", "template"])
def test_a_template_that_does_not_fork_is_replaced(method: str) -> None:
    on = running(start_method=method, procs=1, startup_timeout_ms=10_000)
    (template,) = on.of(T)
    on.die(on.of()[0])
    on.wait(10_000)
    assert template.doomed
    on.die(template)
    on.wait(5_000)
    assert on.spawned == [(W, 0), (T, -1)]
    (fork, *_) = on.of()
    fork.dead = True
    on.settle()
    assert on.state.ready_workers == 1


def test_a_later_import_error_of_a_template_is_shown_and_tried_again_later() -> None:
    on = running(start_method="auto", procs=2)
    on.die(on.of(T)[0])
    on.die(on.of()[0])
    (template,) = on.of(T)
    on.be_born(template)
    on.refuse(template, reason="no module app", traceback="boom")
    on.die(template, 78)
    assert on.goes_on
    assert "boom" in on.logged
    on.wait(31_000)
    on.settle()
    assert on.state.ready_workers == 2
