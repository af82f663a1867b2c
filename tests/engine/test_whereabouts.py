"""What is told of runs that do not have the lane: where their steps wait, and where their threads are."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from pyrula_runtime.core.frames import frames_of, run_of, stacks_of
from pyrula_runtime.engine import whereabouts
from tests.engine.isolated import flow
from tests.engine.lanes import CAPACITY, LIMIT_S, LaneAtWork, lane_at_work, step


def told_of(at_work: LaneAtWork, run_id: str) -> tuple[str, ...]:
    """The stacks of this run."""
    return tuple(stack for stack in stacks_of(at_work.lanes.stack()) if run_of(stack) == run_id)


async def test_a_step_that_waits_is_told_with_its_own_line(tmp_path: Path) -> None:
    began, over = threading.Event(), asyncio.Event()

    async def inner() -> None:
        asyncio.get_running_loop().call_soon(began.set)  # when it waits
        await over.wait()

    async def waits() -> int:
        await inner()
        return 1

    async with lane_at_work(tmp_path, [flow(step(waits), isolation="lane")]) as at_work:
        run_id = await at_work.submit("flow")
        await at_work.claim()
        await asyncio.to_thread(began.wait, LIMIT_S)
        (stack,) = told_of(at_work, run_id)
        ours = [frame for frame in frames_of(stack) if frame.file == __file__]
        assert [frame.source for frame in ours] == ["await inner()", "await over.wait()"]
        at_work.lanes.shared.post(over.set)
        await at_work.until_ended(run_id)
        assert told_of(at_work, run_id) == ()


async def test_a_step_in_a_thread_is_told_with_its_own_line(tmp_path: Path) -> None:
    began, over = threading.Event(), threading.Event()

    def works() -> bool:
        began.set()
        return over.wait(LIMIT_S)

    async with lane_at_work(tmp_path, [flow(step(works), isolation="lane")]) as at_work:
        run_id = await at_work.submit("flow")
        await at_work.claim()
        await asyncio.to_thread(began.wait, LIMIT_S)
        (stack,) = told_of(at_work, run_id)
        assert stack.startswith(f"run {run_id} (flow, step works) has a thread at\n")
        assert [frame.source for frame in frames_of(stack) if frame.file == __file__][-1] in (
            "began.set()",
            "return over.wait(LIMIT_S)",
        )
        over.set()
        await at_work.until_ended(run_id)


async def test_of_more_runs_than_anybody_reads_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    all_wait, over = threading.Barrier(CAPACITY + 1, timeout=LIMIT_S), threading.Event()

    def works() -> None:
        all_wait.wait()
        over.wait(LIMIT_S)

    async with lane_at_work(tmp_path, [flow(step(works), isolation="lane")]) as at_work:
        runs = [await at_work.submit("flow") for _ in range(CAPACITY)]
        await at_work.claim()
        await asyncio.to_thread(all_wait.wait)
        monkeypatch.setattr(whereabouts, "_MOST", 100_000)
        assert {run_of(stack) for stack in stacks_of(at_work.lanes.stack())} == {"", *runs}
        monkeypatch.setattr(whereabouts, "_MOST", 1_000)
        assert {run_of(stack) for stack in stacks_of(at_work.lanes.stack())} == {""}, "none, or it would seem alone"
        over.set()
        for run_id in runs:
            await at_work.until_ended(run_id)
