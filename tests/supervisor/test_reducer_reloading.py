"""Reload: one canary first, then slot by slot, new before old; any failure leaves the old generation."""

from __future__ import annotations

import pytest

from pyrula_runtime.wire import Role
from pyrula_supervisor.actions import Spawn
from pyrula_supervisor.events import ReloadAsked, RestartAsked
from pyrula_supervisor.tables import ReloadPhase
from tests.supervisor.fake_processes import SIGKILL, SIGSEGV, Process, World, running, world

W, T = Role.worker, Role.template
SETTLE_MS = 5_000


def reloading(**policy: object) -> World:
    """A supervisor with four workers that has just been asked to reload, by asker 1."""
    on = running(**{"procs": 4, "reload_settle_ms": SETTLE_MS, **policy})
    on.feed(ReloadAsked(now_ms=on.now_ms, asker=1))
    return on


def canary(on: World) -> Process:
    """The newest worker, come to life."""
    newest = on.of()[-1]
    assert newest.spawn.generation == on.state.generations
    on.be_born(newest)
    on.be_ready(newest)
    return newest


def new_template(on: World) -> Process:
    template = on.of(T)[-1]
    on.be_born(template)
    on.be_ready(template)
    return template


def generations(on: World) -> list[int]:
    """The generation of what serves, by slot."""
    return [child.generation for child in sorted(on.state.workers, key=lambda child: child.slot) if child.serving]


def phase(on: World) -> ReloadPhase | None:
    return on.state.reload.phase if on.state.reload else None


def test_all_slots_one_by_one_with_one_extra_process_at_most() -> None:
    on = reloading()
    most = 0
    for _ in range(200):
        for process in on.of():
            if not process.born:
                on.be_born(process)
            elif not process.ready:
                on.be_ready(process)
            elif process.drains:
                on.die(process, 0)
            most = max(most, len(on.of()))
            assert on.state.ready_workers == 4, "capacity is whole at every moment"
        on.tick(250)
    assert most == 5
    assert generations(on) == [2, 2, 2, 2]
    assert on.spawned == [(W, 0), (W, 0), (W, 1), (W, 2), (W, 3)][1:]
    assert on.answers == [(1, True, "reloaded: generation 2 serves in all slots")]
    assert on.notices == ["RELOADING=1", "READY=1"]
    assert on.killed == []
    assert on.state.generation.number == 2


def test_the_others_wait_until_the_canary_has_lived_long_enough() -> None:
    on = reloading()
    canary(on)
    assert phase(on) is ReloadPhase.settling
    on.wait(SETTLE_MS - 250)
    assert not any(process.drains for process in on.of())
    on.wait(250)
    assert phase(on) is ReloadPhase.rolling
    assert [process.spawn.slot for process in on.of() if process.drains] == [0]


def test_a_new_template_comes_first_and_the_old_one_stays_until_the_end() -> None:
    on = reloading(start_method="auto")
    (old, new) = on.of(T)
    assert on.spawned == [(T, -1)]
    new_template(on)
    assert on.of()[-1].spawn.by_template == new.name
    canary(on)
    on.wait(SETTLE_MS)
    assert old.stays
    for _ in range(4):
        on.settle()
        on.tick()
    assert generations(on) == [2, 2, 2, 2]
    assert on.of(T) == [new]
    assert old.drains


def test_meanwhile_the_old_generation_is_started_again_by_the_old_template() -> None:
    on = reloading(start_method="auto")
    (old, _) = on.of(T)
    on.die(on.of(slot=2)[0], SIGKILL)
    assert on.of(slot=2)[0].spawn.by_template == old.name
    assert on.of(slot=2)[0].spawn.generation == 1


def test_a_template_that_cannot_be_imported_changes_nothing() -> None:
    on = reloading(start_method="auto")
    (old, new) = on.of(T)
    on.be_born(new)
    on.refuse(new, reason="SyntaxError in app.py", traceback="line 7")
    assert on.answers == [
        (1, False, "not reloaded, generation 1 stays: template (pid 106) cannot start: SyntaxError in app.py\nline 7")
    ]
    assert on.logged.count("line 7") == 1
    assert on.notices == ["RELOADING=1", "READY=1"]
    assert new.drains
    on.die(new, 78)
    assert (on.incidents, on.quit) == ([], None)
    assert on.of(T) == [old]
    assert generations(on) == [1, 1, 1, 1]


def test_a_template_that_hangs_changes_nothing() -> None:
    on = reloading(start_method="auto", startup_timeout_ms=10_000)
    (old, new) = on.of(T)
    on.be_born(new)
    on.wait(11_000)
    assert on.killed == [new.name]
    on.die(new)
    assert on.answers[0][:2] == (1, False)
    assert "it was not ready within 10 s" in on.answers[0][2]
    assert on.of(T) == [old]


def test_new_code_that_cannot_be_forked_is_spawned_under_auto() -> None:
    on = reloading(start_method="auto")
    (_, new) = on.of(T)
    on.be_born(new)
    on.refuse(new, reason="3 extra threads", unsafe_template=True)
    assert on.of()[-1].spawn.by_template == ""
    assert on.state.reload is not None
    assert not on.state.reload.new.forks
    canary(on)
    for _ in range(30):
        on.settle()
        on.tick()
    assert generations(on) == [2, 2, 2, 2]
    assert not on.state.generation.forks
    assert on.state.generation.reason == "3 extra threads"
    assert on.of(T) == []


def test_new_code_that_cannot_be_forked_is_refused_where_a_template_is_asked_for() -> None:
    on = reloading(start_method="template")
    (_, new) = on.of(T)
    on.be_born(new)
    on.refuse(new, reason="3 extra threads", unsafe_template=True)
    assert on.answers[0][1] is False
    assert on.goes_on


@pytest.mark.parametrize("end", ["not made", "refuses", "dies", "hangs"])
def test_a_canary_that_does_not_start_changes_nothing(end: str) -> None:
    on = reloading(startup_timeout_ms=10_000)
    newest = on.of()[-1]
    if end == "not made":
        on.fail_to_spawn(newest)
    else:
        on.be_born(newest)
    if end == "refuses":
        on.refuse(newest, reason="no such table", traceback="line 9")
        assert "no such table\nline 9" in on.answers[0][2]
        assert newest.doomed
        on.die(newest, 78)
    elif end == "dies":
        on.die(newest, SIGSEGV)
    elif end == "hangs":
        on.wait(11_000)
        assert newest.doomed
        on.die(newest)
    assert [answer[:2] for answer in on.answers] == [(1, False)]
    on.wait(1_000)
    assert generations(on) == [1, 1, 1, 1]
    assert len(on.of()) == 4
    assert on.goes_on


@pytest.mark.parametrize("status", [1, 0, SIGSEGV])
def test_a_canary_that_does_not_live_long_enough_changes_nothing(status: int) -> None:
    on = reloading(start_method="auto")
    template = new_template(on)
    newest = canary(on)
    on.wait(SETTLE_MS - 250)
    on.die(newest, status)
    assert on.answers[0][:2] == (1, False)
    assert newest.name in on.state.burials
    assert template.drains
    assert generations(on) == [1, 1, 1, 1]
    assert on.state.generation.number == 1


def test_a_canary_that_is_told_to_leave_proves_nothing() -> None:
    on = reloading()
    newest = canary(on)
    on.report(newest, draining=True)
    on.wait(SETTLE_MS * 2)
    assert phase(on) is ReloadPhase.settling
    on.die(newest, 0)
    assert on.answers[0][:2] == (1, False)


def test_a_canary_that_serves_is_drained_not_killed_when_its_template_dies() -> None:
    on = reloading(start_method="auto")
    template = new_template(on)
    newest = canary(on)
    on.die(template, SIGKILL)
    assert on.answers[0][:2] == (1, False)
    assert (newest.drains, newest.doomed) == (True, False)


def rolled_to(on: World, slot: int) -> Process:
    """The successor in a slot, just asked for, when those before it are replaced."""
    canary(on)
    on.wait(SETTLE_MS)
    while on.of()[-1].spawn.slot < slot or on.of()[-1].born:
        for process in on.of():
            if process.drains:
                on.die(process, 0)
            elif not process.ready:
                on.be_born(process)
                on.be_ready(process)
        on.tick()
    assert on.of()[-1].spawn.slot == slot
    return on.of()[-1]


@pytest.mark.parametrize("method", ["spawn", "auto"])
def test_a_failure_half_way_rolls_back_without_loss_of_capacity(method: str) -> None:
    on = reloading(start_method=method)
    old, new = on.of(T) if method == "auto" else (None, None)
    if new:
        new_template(on)
    third = rolled_to(on, 2)
    assert generations(on) == [2, 2, 1, 1]
    on.be_born(third)
    on.die(third, 1)
    assert on.answers[0][:2] == (1, False)
    assert on.state.generation.number == 1
    assert not any(process.doomed for process in on.of())
    for _ in range(200):
        assert on.state.ready_workers == 4
        for process in on.of():
            if process.drains:
                on.die(process, 0)
            elif not process.ready:
                on.be_born(process)
                on.be_ready(process)
        on.tick()
    on.settle()
    assert generations(on) == [1, 1, 1, 1]
    assert on.of(T) == ([old] if old else [])


def test_one_that_dies_young_half_way_is_a_failure_too() -> None:
    on = reloading()
    second = rolled_to(on, 1)
    on.be_born(second)
    on.be_ready(second)
    on.die(second, SIGSEGV)
    assert on.answers[0][:2] == (1, False)


def test_the_death_of_one_that_has_proved_itself_is_no_failure_of_the_reload() -> None:
    on = reloading()
    rolled_to(on, 1)
    first = on.of(slot=0)[0]
    on.wait(SETTLE_MS)
    on.die(first, SIGSEGV)
    for _ in range(30):
        on.settle()
        on.tick()
    assert generations(on) == [2, 2, 2, 2]
    assert on.answers[0][:2] == (1, True)


def test_many_hangups_make_one_reload_and_one_more() -> None:
    on = running(procs=2)
    for asker in range(50):
        on.feed(ReloadAsked(now_ms=on.now_ms, asker=asker))
    assert on.state.generations == 2
    for _ in range(100):
        on.settle()
        on.tick()
    assert on.state.generations == 3
    assert generations(on) == [3, 3]
    assert on.notices == ["RELOADING=1", "READY=1"] * 2
    assert sorted(asker for asker, ok, _ in on.answers if ok) == list(range(1, 50))


def test_a_queued_reload_follows_a_failed_one() -> None:
    on = reloading()
    on.feed(ReloadAsked(now_ms=on.now_ms, asker=2))
    on.fail_to_spawn(on.of()[-1])
    assert [answer[:2] for answer in on.answers] == [(1, False)]
    assert phase(on) is ReloadPhase.proving
    assert on.of()[-1].spawn.generation == 3
    for _ in range(100):
        on.settle()
        on.tick()
    assert [answer[:2] for answer in on.answers] == [(1, False), (2, True)]


def test_before_any_worker_was_ready_there_is_nothing_to_reload() -> None:
    begun = world()
    begun.feed(ReloadAsked(now_ms=begun.now_ms, asker=4))
    assert begun.answers[0][:2] == (4, False)
    assert "no worker has been ready yet" in begun.answers[0][2]
    begun.feed(ReloadAsked(now_ms=begun.now_ms))
    assert len(begun.answers) == 1


def test_a_reload_cures_slots_that_cannot_start_the_old_code() -> None:
    on = running(procs=2)
    for _ in range(6):
        for process in on.of():
            if not process.born:
                on.be_born(process)
            on.die(process, 1)
        on.wait(1_000)
    on.wait(9_000)
    on.forget()
    on.feed(ReloadAsked(now_ms=on.now_ms, asker=1))
    for _ in range(200):
        on.settle()
        on.tick()
    assert generations(on) == [2, 2]
    assert on.answers[0][:2] == (1, True)


def test_a_restart_asked_meanwhile_is_done_in_its_turn() -> None:
    on = reloading()
    on.feed(RestartAsked(now_ms=on.now_ms, slot=3, asker=9))
    for _ in range(200):
        on.settle()
        on.tick()
    assert sorted(answer[:2] for answer in on.answers) == [(1, True), (9, True)]
    assert [action.slot for action in on.done(Spawn)].count(3) == 2 or generations(on) == [2, 2, 2, 2]


def test_a_stop_ends_a_reload_and_answers() -> None:
    on = reloading(start_method="auto")
    on.feed(ReloadAsked(now_ms=on.now_ms, asker=2))
    new_template(on)
    on.forget()
    on.stop()
    assert on.answers == [
        (1, False, "not reloaded: the supervisor stops"),
        (2, False, "not reloaded: the supervisor stops"),
    ]
    assert on.done(Spawn) == []
    on.settle()
    on.tick()
    assert on.quit == 0
    on.feed(ReloadAsked(now_ms=on.now_ms, asker=3))


def test_a_stopping_supervisor_refuses() -> None:
    on = running()
    on.stop()
    on.feed(ReloadAsked(now_ms=on.now_ms, asker=3))
    assert on.answers[0][:2] == (3, False)


def test_a_reload_during_the_start_does_not_end_it_for_the_service_manager() -> None:
    on = world(min_ready=2)
    first, second = on.of()
    on.be_born(first)
    on.be_ready(first)
    on.feed(ReloadAsked(now_ms=on.now_ms, asker=1))
    new = on.of()[-1]
    on.be_born(new)
    on.refuse(new, reason="SyntaxError in app.py")
    assert [ok for _, ok, _ in on.answers] == [False]
    assert on.notices == []
    on.be_born(second)
    on.be_ready(second)
    assert on.notices == ["READY=1"]
