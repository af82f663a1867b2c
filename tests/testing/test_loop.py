"""The loop whose time its owner moves: quiet when nothing can happen, patient while somebody works outside of it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula.workflows import UsageError
from pyrula_runtime.testing.loop import Quiet, SkippingLoop


@pytest.fixture
def loop() -> Iterator[SkippingLoop]:
    loop = SkippingLoop()
    yield loop
    loop.close()


def quiet(loop: SkippingLoop, patience_s: float = 10.0) -> Quiet:
    """Run until nothing can happen at the present time."""

    async def until() -> Quiet:
        loop.deadline_s = time.monotonic() + patience_s
        return await loop.quiet()

    return loop.run_until_complete(until())


def test_it_is_quiet_when_only_time_can_bring_anything(loop: SkippingLoop) -> None:
    rung: list[str] = []
    loop.call_later(0.25, rung.append, "later")
    loop.call_soon(rung.append, "soon")
    began = loop.time()
    assert quiet(loop) == Quiet(timer_ms=250)
    assert (rung, loop.time()) == (["soon"], began)
    loop.clock.move(249)
    assert quiet(loop) == Quiet(timer_ms=1)
    loop.clock.move(1)
    assert quiet(loop) == Quiet(timer_ms=None)
    assert rung == ["soon", "later"]


def test_a_timer_that_was_cancelled_is_none(loop: SkippingLoop) -> None:
    loop.call_later(1, print).cancel()
    assert quiet(loop) == Quiet(timer_ms=None)


@given(st.lists(st.floats(0.0001, 50_000), min_size=1, max_size=8))
def test_timers_ring_in_their_order_and_never_early(delays: list[float]) -> None:
    loop, rung = SkippingLoop(), list[tuple[float, float]]()

    def ring(delay: float) -> None:
        rung.append((delay, loop.time() - began))

    try:
        began = loop.time()
        for delay in delays:
            loop.call_later(delay, ring, delay)
        while (told := quiet(loop)).timer_ms is not None:
            loop.clock.move(told.timer_ms)
    finally:
        loop.close()
    assert [delay for delay, _ in rung] == sorted(delays)
    assert all(-1e-6 <= at - delay < 0.0021 for delay, at in rung)


def test_two_cannot_wait_at_once_but_one_after_another_can(loop: SkippingLoop) -> None:
    async def twice() -> None:
        first = loop.quiet()
        with pytest.raises(UsageError, match="two at once"):
            await loop.quiet()
        first.cancel()
        await loop.quiet()

    loop.run_until_complete(twice())


def test_who_is_at_work_is_waited_for_and_no_time_passes(loop: SkippingLoop) -> None:
    at_work = [True]
    loop.is_at_work = lambda: bool(at_work)
    loop.call_later(3600, print)
    threading.Timer(0.02, lambda: loop.call_soon_threadsafe(at_work.clear)).start()
    began = loop.time()
    assert quiet(loop) == Quiet(timer_ms=3_600_000)
    assert loop.time() == began


def test_what_is_due_before_the_work_is_done_rings_although_others_are_heard_of_meanwhile(loop: SkippingLoop) -> None:
    at_work = [True]
    loop.is_at_work = lambda: bool(at_work)
    loop.call_later(0.05, at_work.clear)
    over = threading.Event()

    def chatter() -> None:
        while not over.wait(0.005):
            loop.call_soon_threadsafe(int)

    thread = threading.Thread(target=chatter)
    thread.start()
    began = loop.time()
    try:
        assert quiet(loop) == Quiet(timer_ms=None)
    finally:
        over.set()
        thread.join()
    assert round((loop.time() - began) * 1000) == 50


def test_patience_ends(loop: SkippingLoop) -> None:
    loop.is_at_work = lambda: True
    assert quiet(loop, patience_s=0.02) == Quiet(timer_ms=None, is_late=True)


def test_work_in_an_executor_is_known(loop: SkippingLoop) -> None:
    async def executed() -> tuple[bool, bool]:
        job = asyncio.ensure_future(asyncio.to_thread(int))
        await asyncio.sleep(0)
        during = loop.is_executing
        await job
        return during, loop.is_executing

    assert loop.run_until_complete(executed()) == (True, False)
    loop.run_until_complete(loop.shutdown_default_executor())


def test_what_is_due_now_is_done_now_however_long_the_simulation_is() -> None:
    loop = SkippingLoop()
    loop.clock.move(200 * 86_400_000)  # seconds of so many digits that asyncio's nanosecond changes nothing
    done: list[str] = []

    def look(left: int) -> None:
        if done or not left:
            loop.stop()
        else:
            loop.call_soon(look, left - 1)

    loop.call_at(loop.time(), done.append, "due")
    look(10)
    loop.run_forever()
    loop.close()
    assert done
