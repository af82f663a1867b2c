"""The watchdog names run, step and source line of whatever keeps the lane."""

from __future__ import annotations

import asyncio
import gc
import queue
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pyrula_runtime.blackbox import BlackBox, Glance, Peephole
from pyrula_runtime.core.entries import Json
from pyrula_runtime.engine.current import Current, current
from pyrula_runtime.engine.lane import Lane
from pyrula_runtime.engine.presence import Unrecorded
from pyrula_runtime.engine.program import Operations, Program
from pyrula_runtime.engine.watchdog import Block, Watchdog
from tests.engine.lanes import LIMIT_S, lane_at_work, same, step

WARN_S = 0.1


@contextmanager
def watching(lane: Lane) -> Iterator[tuple[queue.SimpleQueue[Block], queue.SimpleQueue[float]]]:
    """A watchdog whose reports the test takes."""
    blocks: queue.SimpleQueue[Block] = queue.SimpleQueue()
    ends: queue.SimpleQueue[float] = queue.SimpleQueue()
    watchdog = Watchdog(lane, WARN_S, blocks.put, ends.put)
    watchdog.start()
    try:
        yield blocks, ends
    finally:
        watchdog.stop()


def flow(make: Any) -> Program:
    """A workflow from a coroutine function of its operations."""

    def start(operations: Operations, _input: Json) -> Coroutine[Any, Any, Any]:
        return make(operations)  # type: ignore[no-any-return]

    return Program(name="flow", version=None, start=start, to_json=same)


async def blocked_by(tmp_path: Path, make: Any, release: threading.Event) -> tuple[Block, float, str]:
    """Run a workflow that blocks its lane until `release` is set; what the watchdog said and the run's id."""
    async with lane_at_work(tmp_path, [flow(make)]) as at_work:
        with watching(at_work.lane) as (blocks, ends):
            run_id = await at_work.submit("flow")
            await at_work.claim()
            block = await asyncio.to_thread(blocks.get, timeout=LIMIT_S)
            release.set()
            ended_after_s = await asyncio.to_thread(ends.get, timeout=LIMIT_S)
            await at_work.until_ended(run_id)
    return block, ended_after_s, run_id


class Words(Unrecorded):
    """Keeps what the watchdog wrote."""

    beats_ms: list[int]
    thread_id = 0

    def watch_thread(self, thread_id: int) -> None:
        self.thread_id = thread_id

    def beat_watch(self, ms: int) -> None:
        self.beats_ms.append(ms)


async def test_there_is_a_beat_before_any_turn_has_the_gil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = Words()
    words.beats_ms = []
    monkeypatch.setattr(Watchdog, "_watch", lambda watchdog: None)  # its thread does not come to anything
    async with lane_at_work(tmp_path, [], words) as at_work:
        with watching(at_work.lane):
            assert len(words.beats_ms) == 1
            assert words.thread_id > 0


async def test_a_blocking_step_is_named_with_its_line(tmp_path: Path) -> None:
    release = threading.Event()

    async def guilty() -> None:
        release.wait(LIMIT_S)  # the guilty line

    async def body(operations: Operations) -> Any:
        return await operations.ask(step(guilty))

    block, ended_after_s, run_id = await blocked_by(tmp_path, body, release)
    assert block.whose is not None
    assert (block.whose.run_id, block.whose.step) == (run_id, "guilty")
    assert "the guilty line" in block.line
    assert Path(__file__).name in block.line
    assert ended_after_s >= WARN_S


async def test_a_blocking_body_is_named(tmp_path: Path) -> None:
    release = threading.Event()

    async def body(_operations: Operations) -> None:
        release.wait(LIMIT_S)

    block, _, run_id = await blocked_by(tmp_path, body, release)
    assert block.whose is not None
    assert (block.whose.run_id, block.whose.step) == (run_id, "")


async def test_a_task_started_by_a_step_counts_as_the_step(tmp_path: Path) -> None:
    release = threading.Event()

    async def child() -> None:
        release.wait(LIMIT_S)

    async def parent() -> None:
        await asyncio.create_task(child())

    async def body(operations: Operations) -> Any:
        return await operations.ask(step(parent))

    block, _, _ = await blocked_by(tmp_path, body, release)
    assert block.whose is not None
    assert block.whose.step == "parent"


async def test_code_of_no_run_is_reported_without_blame(tmp_path: Path) -> None:
    release = threading.Event()
    async with lane_at_work(tmp_path, []) as at_work:
        with watching(at_work.lane) as (blocks, _):
            at_work.lane.post(release.wait, LIMIT_S)
            block = await asyncio.to_thread(blocks.get, timeout=LIMIT_S)
            release.set()
    assert block.whose is None


async def test_the_lag_of_the_lane_is_known_while_it_lasts_and_told_once(tmp_path: Path) -> None:
    release = threading.Event()
    async with lane_at_work(tmp_path, []) as at_work:
        blocks: queue.SimpleQueue[Block] = queue.SimpleQueue()
        ends: queue.SimpleQueue[float] = queue.SimpleQueue()
        watchdog = Watchdog(at_work.lane, WARN_S, blocks.put, ends.put)
        watchdog.start()
        at_work.lane.post(release.wait, LIMIT_S)
        await asyncio.to_thread(blocks.get, timeout=LIMIT_S)
        during_ms = watchdog.take_lag_ms()
        release.set()
        await asyncio.to_thread(ends.get, timeout=LIMIT_S)
        watchdog.stop()
        afterwards_ms, again_ms = watchdog.take_lag_ms(), watchdog.take_lag_ms()
    assert during_ms >= WARN_S * 1000
    assert afterwards_ms >= during_ms
    assert again_ms < during_ms


async def test_a_lane_that_leaves_a_question_open_is_told_once_each_time(tmp_path: Path) -> None:
    release, late = threading.Event(), queue.SimpleQueue[None]()
    async with lane_at_work(tmp_path, []) as at_work:
        blocks, ends = queue.SimpleQueue[Block](), queue.SimpleQueue[float]()
        watchdog = Watchdog(at_work.lane, 0.5, blocks.put, ends.put, late=lambda: late.put(None))
        watchdog.start()
        at_work.lane.post(release.wait, LIMIT_S)
        await asyncio.to_thread(late.get, timeout=LIMIT_S)
        await asyncio.to_thread(blocks.get, timeout=LIMIT_S)
        assert late.empty()
        release.set()
        await asyncio.to_thread(ends.get, timeout=LIMIT_S)
        watchdog.stop()


class Timer:
    """What a watchdog winds up each time it goes round."""

    def __init__(self) -> None:
        self.wound_up: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.is_stopped = False

    def wind_up(self, thread: int) -> None:
        self.wound_up.put(thread)

    def stop(self) -> None:
        self.is_stopped = True


async def test_the_last_word_is_put_off_as_long_as_the_watchdog_runs(tmp_path: Path) -> None:
    async with lane_at_work(tmp_path, []) as at_work:
        timer = Timer()
        watchdog = Watchdog(at_work.lane, WARN_S, last_word=timer)
        watchdog.start()
        threads = [await asyncio.to_thread(timer.wound_up.get, timeout=LIMIT_S) for _ in range(3)]
        assert not timer.is_stopped
        watchdog.stop()
        assert threads == [at_work.lane.thread.ident] * 3
    assert timer.is_stopped


async def test_the_box_hears_the_watchdog_and_the_garbage_collection(tmp_path: Path) -> None:
    box = BlackBox.create(tmp_path, incarnation="i", worker_id="w", store_identity="s", now_ms=1)
    peephole = Peephole.open(box.path)
    assert peephole is not None
    during: list[Glance] = []

    def look(_phase: str, _about: object) -> None:
        during.append(peephole.look())

    async with lane_at_work(tmp_path, [], box) as at_work:
        timer = Timer()
        watchdog = Watchdog(at_work.lane, WARN_S, last_word=timer)
        watchdog.start()
        gc.callbacks.append(look)
        try:
            gc.collect()
        finally:
            gc.callbacks.remove(look)
        for _ in range(2):  # between them it has beaten
            await asyncio.to_thread(timer.wound_up.get, timeout=LIMIT_S)
        seen = peephole.look()
        watchdog.stop()
    first, second = during[:2]
    assert (first.gc_since_ms or 0) > 0
    assert second.gc_since_ms == 0
    assert (second.gc_total_ms or 0) >= (first.gc_total_ms or 0)
    assert seen.watch_beat_ms
    assert seen.watch_thread
    assert not [each for each in gc.callbacks if "_Collections" in repr(each)]
    box.close()


async def test_many_short_pieces_of_code_in_a_row_are_no_block(tmp_path: Path) -> None:
    """The loop answers late, since much waits before the answer, but nobody keeps it."""
    box = BlackBox.create(tmp_path, incarnation="i", worker_id="w", store_identity="s", now_ms=1)
    over = threading.Event()
    async with lane_at_work(tmp_path, [], box) as at_work:
        with watching(at_work.lane) as (blocks, _):
            loop = at_work.lane.loop

            def short() -> None:
                ends_s = time.monotonic() + WARN_S / 10
                while time.monotonic() < ends_s:
                    pass

            def many() -> None:
                current.set(Current(run_id="r", workflow="flow"))
                for _ in range(60):
                    loop.call_soon(short)
                loop.call_soon(over.set)

            at_work.lane.post(many)
            assert await asyncio.to_thread(over.wait, LIMIT_S)
        assert blocks.empty()
    box.close()


async def test_a_hint_says_what_to_write_instead(tmp_path: Path) -> None:
    release = threading.Event()

    async def guilty() -> None:
        release.wait(LIMIT_S)

    async def body(operations: Operations) -> Any:
        return await operations.ask(step(guilty))

    block, _, _ = await blocked_by(tmp_path, body, release)
    assert "it waits for another thread" in block.hint
