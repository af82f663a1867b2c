"""The parent's eye on real processes with real boxes: what it tells of whom, and that it keeps quiet about the rest.

Time is told by the test; the kernel says what it likes of threads that the test has stopped, or that sleep.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pyrula_runtime.blackbox import BlackBox
from pyrula_runtime.core.standstill import Verdict
from pyrula_supervisor.events import LaneSeen
from pyrula_supervisor.observing import Observer
from pyrula_supervisor.options import Policy
from tests.blackbox.conftest import directory, holder, start  # noqa: F401
from tests.blackbox.holder import Holder
from tests.supervisor.household import stat_of
from tests.supervisor.states import worker

T = 5_000_000
PLACE = "Place(run_id='R1', workflow='orders', step='charge', op_id='charge#1')"


class Eye:
    """An observer of one worker, and a clock."""

    def __init__(self, holder: Holder, folder: Path) -> None:  # noqa: F811
        holder.create("w0")
        holder.do("box.lane_thread(os.getpid()); box.watch_thread(os.getpid())")
        self.holder = holder
        self.now_ms = T
        self.observer = Observer(folder, Policy())
        self.child = worker(0, pid=holder.pid)
        self.lane_beats = self.watch_beats = True

    def do(self, code: str) -> None:
        self.holder.do(code)

    def enters(self, at_ms: int) -> None:
        """Code of a run gets the lane."""
        self.do(f"box.enter_lane({PLACE}, {at_ms * 1_000_000})")

    def look(self, ms: int = 250, late_ms: int = 0) -> LaneSeen | None:
        """Time passes, then a look: what was told."""
        self.now_ms += ms + late_ms
        if stat_of(self.holder.pid) != "T":
            if self.watch_beats:
                self.do(f"box.beat_watch({self.now_ms - 10})")
            if self.lane_beats:
                self.do(f"box.beat_lane({self.now_ms - 10})")
        while stat_of(self.holder.pid) == "R":  # still on its way to the next order: in told time that is starved
            os.sched_yield()
        told = list(self.observer.look([self.child], self.now_ms, late_ms))
        assert len(told) <= 1
        return told[0] if told else None

    def over(self) -> LaneSeen:
        """What was told when nothing was stuck any more; in a look in which it was starved nobody knows."""
        while (told := self.look()) is None or told.stuck_ms:
            pass
        return told

    def looks(self, count: int) -> list[LaneSeen | None]:
        return [self.look() for _ in range(count)]


@pytest.fixture
def eye(holder: Holder, directory: Path) -> Iterator[Eye]:  # noqa: F811
    made = Eye(holder, directory)
    yield made
    made.observer.close()


def test_a_well_worker_is_not_told_of(eye: Eye) -> None:
    assert eye.look(1_000) is None
    assert not eye.observer.sees_oddities
    eye.enters(eye.now_ms + 990)
    assert eye.look(1_000) is None
    eye.do("box.leave_lane()")
    assert eye.look(1_000) is None
    assert not eye.observer.sees_oddities
    assert eye.observer.next_ms(250) == 250


def test_code_that_keeps_the_lane_counts_from_its_own_beginning(eye: Eye) -> None:
    eye.look(1_000)
    eye.enters(eye.now_ms + 10)
    first = eye.look(1_000)
    assert first is not None
    assert (first.run_id, first.workflow, first.step, first.op_id) == ("R1", "orders", "charge", "charge#1")
    assert (first.verdict, first.entries > 0) == (Verdict.blocked, True)
    assert first.stuck_ms == pytest.approx(990, abs=80)
    assert eye.observer.sees_oddities
    due_ms = eye.observer.next_ms(2_000)
    assert due_ms == 2_000 - first.stuck_ms + 5, "when it may be worth a warning"
    second = eye.look(due_ms)
    assert second is not None
    assert second.stuck_ms == pytest.approx(2_005, abs=80)
    eye.do("box.leave_lane()")
    assert eye.over().run_id == ""
    assert eye.look() is None


def test_a_lane_that_stands_still_by_nobodys_doing_is_told_of_as_unknown(eye: Eye) -> None:
    eye.look()
    eye.enters(eye.now_ms + 10)
    while (first := eye.look()) is None:
        pass
    # as if threads that are gone by now had had the GIL in between
    (watched,) = eye.observer._watched.values()
    kept = replace(watched.stuck.lane, former_ms=4_000, since_ms=0, still_ms=30_000)
    watched.stuck = replace(watched.stuck, lane=kept)
    while (told := eye.look()) is None:
        pass
    assert (told.run_id, told.entries, told.unknown) == ("", 0, True)
    assert 30_000 < told.stuck_ms < 40_000
    eye.do("box.leave_lane()")
    assert not eye.over().unknown
    assert (first.run_id, first.unknown) == ("R1", False)


def test_steps_that_follow_each_other_are_no_block(eye: Eye) -> None:
    for _ in range(20):
        eye.enters(eye.now_ms + 100)
        assert eye.look() is None


def test_code_of_no_run_is_seen_by_a_lane_that_does_not_answer(eye: Eye) -> None:
    eye.look()
    eye.lane_beats = False
    told = [event for event in eye.looks(12) if event]
    assert told
    assert {(event.run_id, event.verdict) for event in told} == {("", Verdict.blocked)}
    assert told[-1].stuck_ms >= 2_400
    eye.lane_beats = True
    eye.over()


def test_a_watchdog_that_is_late_does_not_free_a_lane_that_has_not_answered(eye: Eye) -> None:
    eye.look()
    eye.lane_beats = False
    assert any(eye.looks(12))
    eye.watch_beats = False
    late = [event for event in eye.looks(8) if event]
    assert all(event.stuck_ms >= 2_400 for event in late)
    eye.watch_beats = True
    told = [event for event in eye.looks(4) if event]
    assert told[-1].stuck_ms >= 3_000
    eye.lane_beats = True
    eye.over()


def test_a_look_that_comes_late_counts_for_nothing(eye: Eye) -> None:
    eye.look()
    eye.enters(eye.now_ms + 10)
    assert eye.look() is None
    assert eye.look(250, late_ms=60_000) is None
    told = eye.looks(3)
    assert told[-1] is not None
    assert told[-1].stuck_ms < 1_500


def test_a_stopped_worker_is_shown_as_that(eye: Eye) -> None:
    eye.look()
    eye.enters(eye.now_ms + 10)
    stopped(eye.holder)
    told = eye.looks(20)
    assert told[0] is not None
    assert (told[0].verdict, told[0].stuck_ms) == (Verdict.stopped, 0)
    assert set(told[1:]) == {None}, "it is told once"
    os.kill(eye.holder.pid, signal.SIGCONT)


@pytest.mark.parametrize(("first", "count"), [(0, 1), (1, 1), (0, 2)])
def test_a_stopped_worker_with_the_stores_lock_is_found_in_time(
    eye: Eye, first: int, count: int, tmp_path: Path
) -> None:
    eye.look(1_000)
    eye.do(f"kept = open({str(tmp_path / 'lock')!r}, 'w')")
    eye.do(f"__import__('fcntl').lockf(kept, 2, {count}, {first})")
    eye.do(f"box.lock_tenure({eye.now_ms + 10})")
    stopped(eye.holder)
    told = [eye.look(1_000), *eye.looks(4)]
    last = told[-1]
    assert last is not None
    assert (last.verdict, last.lock_ms) == (Verdict.stopped, 1_990)
    assert eye.observer.sees_oddities
    os.kill(eye.holder.pid, signal.SIGCONT)


def test_a_stopped_worker_that_only_wanted_the_lock_is_in_nobodys_way(eye: Eye) -> None:
    eye.look(1_000)
    eye.do(f"box.lock_tenure({eye.now_ms + 10})")
    stopped(eye.holder)
    told = [eye.look(1_000), *eye.looks(4)]
    assert {each.lock_ms for each in told if each is not None} == {0}
    os.kill(eye.holder.pid, signal.SIGCONT)


def test_a_worker_that_writes_for_long_does_not_stand_still(eye: Eye) -> None:
    eye.look()
    eye.do(f"box.lock_tenure({eye.now_ms})")
    assert set(eye.looks(20)) == {None}


def test_whoever_is_gone_or_has_no_box_is_not_looked_at(eye: Eye) -> None:
    eye.look()
    assert list(eye.observer.look([], eye.now_ms, 0)) == []
    strangers = [worker(1, incarnation="none", pid=os.getpid()), worker(2, pid=0)]
    assert list(eye.observer.look(strangers, eye.now_ms, 0)) == []
    assert not eye.observer.sees_oddities


def test_a_box_of_this_process_is_no_obstacle(directory: Path) -> None:  # noqa: F811
    own = BlackBox.create(directory, incarnation="w0", worker_id="w", store_identity="s", now_ms=1)
    observer = Observer(directory, Policy())
    assert list(observer.look([worker(0, pid=os.getpid())], T, 0)) == []
    observer.close()
    own.close()


def stopped(holder: Holder) -> None:  # noqa: F811
    """Stop it, and wait until it is."""
    os.kill(holder.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, holder.pid, os.WSTOPPED | os.WNOWAIT)
    assert stat_of(holder.pid) == "T"


def test_a_watchdog_that_does_not_run_is_told_of_by_the_clock_on_the_wall(eye: Eye) -> None:
    """Whatever the reason: from outside a worker that is starved and one that is mute may look alike."""
    eye.look()
    eye.watch_beats = False
    told = [event for event in eye.looks(32) if event]
    assert told[0].silent_ms == pytest.approx(7_510, abs=250)
    assert told[-1].silent_ms > told[0].silent_ms
    eye.watch_beats = True
    while (last := eye.look()) is not None:
        told.append(last)
    assert (told[-1].silent_ms, told[-1].stuck_ms) == (0, 0)
