"""What the service manager hears, and what a pause of the supervisor itself does: nothing but wait."""

from __future__ import annotations

from pyrula_runtime.wire import Role
from pyrula_supervisor.actions import Notify
from pyrula_supervisor.events import Exited, ReloadAsked, Tick
from pyrula_supervisor.telling import status_text
from tests.supervisor.fake_processes import SIGKILL, World, running, world


def statuses(on: World) -> list[str]:
    return [action.state.removeprefix("STATUS=") for action in on.done(Notify) if action.state.startswith("STATUS=")]


def test_the_status_line_of_every_phase() -> None:
    on = world(procs=3, min_ready=2)
    assert status_text(on.state) == "starting: 0/3 ready"
    on.settle()
    for process in on.of():
        on.report(process, turns_running=4)
    assert status_text(on.state) == "3/3 ready, 12 turns running"
    on.feed(ReloadAsked(now_ms=on.now_ms))
    assert status_text(on.state) == "reloading: 3/3 ready, 12 turns running"
    on.die(on.of(slot=2)[0])
    assert status_text(on.state) == "reloading: 2/3 ready, 8 turns running"
    on.stop()
    assert status_text(on.state) == "draining: 4 processes left, 8 turns running"
    for process in on.of()[1:]:
        on.die(process, 0)
    on.report(on.of()[0], turns_running=1)
    assert status_text(on.state) == "draining: 1 process left, 1 turn running"


def test_the_status_line_is_told_when_it_changes_at_most_once_a_second() -> None:
    on = running(procs=1)
    (worker,) = on.of()
    on.wait(5_000)
    on.forget()
    for turns in range(8):
        on.report(worker, turns_running=turns)
        on.wait(250)
    assert statuses(on) == ["1/1 ready, 1 turn running", "1/1 ready, 4 turns running"]
    on.wait(5_000)
    assert statuses(on)[-1] == "1/1 ready, 7 turns running"
    assert len(statuses(on)) == 3


def test_a_supervisor_that_slept_judges_nobody_and_moves_every_deadline() -> None:
    on = running(procs=2, startup_timeout_ms=10_000)
    on.die(on.of(slot=0)[0])
    starting = on.of(slot=0)[0]
    on.be_born(starting)
    on.wait(9_000)
    on.tick(late_ms=60_000)
    assert on.killed == on.dumped == []
    assert "resumed after 60 s" in on.logged
    on.wait(500)
    assert on.dumped == []
    on.wait(500)
    assert on.dumped == [starting.name]


def test_news_that_come_before_the_late_tick_judge_nobody_either() -> None:
    on = running(procs=2, drain_ms=10_000)
    on.stop()
    first, second = on.of()
    on.wait(9_000)
    on.now_ms += 60_000
    on.feed(Exited(now_ms=on.now_ms, incarnation=first.name, pid=first.pid, status=0))
    first.dead = True
    on.report(second)
    on.feed(Tick(now_ms=on.now_ms, late_ms=60_000))
    assert (on.killed, on.quit) == ([], None)
    on.wait(1_000)
    assert on.killed == [second.name]


def test_a_little_late_is_no_pause() -> None:
    on = running(procs=1, startup_timeout_ms=10_000)
    on.die(on.of()[0])
    on.be_born(on.of()[0])
    for _ in range(40):
        on.tick(50, late_ms=200)
    assert on.dumped != []
    assert on.state.paused_ms == 0


def test_a_starved_supervisor_still_judges() -> None:
    on = running(procs=1, startup_timeout_ms=10_000)
    on.die(on.of()[0])
    on.be_born(on.of()[0])
    for _ in range(45):
        on.tick(250, late_ms=300)
    assert on.dumped != []
    assert "resumed" not in on.logged


def test_a_starved_supervisor_stops_in_time() -> None:
    on = running(procs=1, drain_ms=20_000)
    on.stop()
    end_ms = on.now_ms + 25_000 + 2_250
    while on.now_ms < end_ms:
        on.tick(250, late_ms=2_000)
    assert on.quit == 0


def test_a_suspended_supervisor_gives_the_drain_its_full_time() -> None:
    on = running(procs=1, drain_ms=20_000)
    on.stop()
    on.tick(late_ms=3_600_000)
    on.tick(late_ms=3_600_000)
    on.wait(19_250)
    assert (on.killed, on.quit) == ([], None)
    on.wait(250)
    assert on.killed != []


def test_a_pause_moves_the_end_of_a_drain_and_of_a_backoff() -> None:
    on = running(procs=1)
    for _ in range(4):
        (worker,) = on.of()
        if not worker.born:
            on.be_born(worker)
        on.die(worker, 1)
        on.wait(0 if on.of() else 250)
        on.wait(0 if on.of() else 250)
    assert on.of() == []
    on.tick(late_ms=60_000)
    assert on.of() == []
    on.wait(2_250)
    assert len(on.of()) == 1


def test_killed_by_nobody_here() -> None:
    on = running(procs=1)
    on.die(on.of()[0], SIGKILL)
    on.settle()
    assert on.killed == []
    assert on.of(Role.clerk)[0].ready


def test_no_pause_of_several_is_one_in_which_to_judge() -> None:
    on = running(procs=1, startup_timeout_ms=10_000)
    on.die(on.of()[0])
    on.be_born(on.of()[0])
    on.tick(late_ms=60_000)
    on.wait(9_500)
    on.tick(late_ms=60_000)
    assert on.dumped == []
    on.tick()
    assert len(on.dumped) == 1
