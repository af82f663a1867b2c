"""Threads for user code: so many at a time, and code that was given up keeps nobody from having one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.program import Program, SyncOperations
from pyrula_runtime.engine.threads import Job, Threads
from tests.engine.lanes import CAPACITY, LIMIT_S, lane_at_work, same, step


@pytest.fixture
def threads() -> Iterator[Threads]:
    made = Threads(1, "test")
    yield made
    made.shutdown()


class Held:
    """Work that stays until it is let go."""

    def __init__(self, threads: Threads) -> None:
        self.began, self._gate = threading.Event(), threading.Event()
        self.job: Job = threads.submit(self._work)

    def _work(self) -> str:
        self.began.set()
        self._gate.wait(LIMIT_S)
        return threading.current_thread().name

    def let_go(self) -> None:
        self._gate.set()
        self.job.result(LIMIT_S)


def test_values_and_errors_come_back(threads: Threads) -> None:
    assert threads.submit(lambda: 7).result(LIMIT_S) == 7
    with pytest.raises(SystemExit):
        threads.submit(lambda: exit(3)).result(LIMIT_S)
    assert threads.submit(threading.get_ident).result(LIMIT_S) == threads.submit(threading.get_ident).result(LIMIT_S)


def test_no_more_than_so_many_run_at_once(threads: Threads) -> None:
    first, second = Held(threads), Held(threads)
    assert first.began.wait(LIMIT_S)
    assert not second.began.is_set()
    first.let_go()
    assert second.began.wait(LIMIT_S)
    second.let_go()


def test_given_up_work_frees_its_place_once(threads: Threads) -> None:
    first = Held(threads)
    assert first.began.wait(LIMIT_S)
    first.job.give_up()
    first.job.give_up()
    second, third = Held(threads), Held(threads)
    assert second.began.wait(LIMIT_S)
    assert not third.began.is_set()
    first.let_go()  # its thread ends, and does not take the third in
    second.let_go()
    assert third.began.wait(LIMIT_S)
    third.let_go()


def test_given_up_before_it_began_it_never_begins(threads: Threads) -> None:
    first, second, third = Held(threads), Held(threads), Held(threads)
    assert first.began.wait(LIMIT_S)
    second.job.give_up()
    first.let_go()
    assert third.began.wait(LIMIT_S)
    third.let_go()
    assert second.job.cancelled()
    assert not second.began.is_set()


def test_given_up_when_it_is_done_it_changes_nothing(threads: Threads) -> None:
    first = threads.submit(lambda: 1)
    assert first.result(LIMIT_S) == 1
    first.give_up()
    assert threads.submit(lambda: 2).result(LIMIT_S) == 2


def test_what_waits_at_the_end_is_cancelled_and_what_runs_is_left_alone(threads: Threads) -> None:
    first, second = Held(threads), Held(threads)
    assert first.began.wait(LIMIT_S)
    threads.shutdown()
    with pytest.raises(CancelledError):
        second.job.result(LIMIT_S)
    assert Held(threads).job.cancelled()
    first.let_go()


async def test_the_wait_for_a_thread_is_not_the_steps_time(tmp_path: Path) -> None:
    gate = threading.Event()

    def hold() -> None:
        gate.wait(LIMIT_S)

    def quick() -> int:
        return 1

    def run(ops: SyncOperations, _input: object) -> int:
        holds = [step(hold) for _ in range(CAPACITY)]
        return int(ops.ask([*holds, step(quick, timeout_s=0.1)])[-1])

    async with lane_at_work(tmp_path, [Program(name="flow", version=None, run=run, to_json=same)]) as at_work:
        run_id = await at_work.submit("flow")
        await at_work.claim()
        at_work.lane.post(at_work.lane.loop.call_later, 0.3, gate.set)
        assert (await at_work.until_ended(run_id)).status is RunStatus.completed
