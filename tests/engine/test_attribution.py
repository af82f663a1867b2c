"""Whatever a step has started and wherever it blocks: run, step and line are named, on every kind of event loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from pyrula_runtime.blackbox import BlackBox, Executing, read_box
from pyrula_runtime.core.entries import Json
from pyrula_runtime.engine.body import AsyncBody
from pyrula_runtime.engine.current import Current, current
from pyrula_runtime.engine.lane import Lane
from pyrula_runtime.engine.on_lane import OnLane
from pyrula_runtime.engine.presence import DrivenBody, Unrecorded
from pyrula_runtime.engine.program import Operations, Program
from pyrula_runtime.engine.watchdog import Block, Watchdog
from tests.engine.lanes import LIMIT_S, LaneAtWork, lane_at_work, same, step
from tests.engine.places import PLACES, Gate

WARN_S = 0.1


class OtherLoop(asyncio.SelectorEventLoop):
    """What an application may have made of asyncio's loop."""


@pytest.fixture(
    params=[asyncio.SelectorEventLoop, uvloop.new_event_loop, OtherLoop], ids=["asyncio", "uvloop", "other"]
)
def new_loop(request: pytest.FixtureRequest) -> Callable[[], Any]:
    return request.param  # type: ignore[no-any-return]


def flow(make: Callable[[Operations], Coroutine[Any, Any, Any]]) -> Program:
    """A workflow from a coroutine function of its operations."""

    def start(operations: Operations, _input: Json) -> Coroutine[Any, Any, Any]:
        return make(operations)

    return Program(name="flow", version=None, start=start, to_json=same)


class Scene:
    """A lane at work, watched, with its black box."""

    def __init__(self, at_work: LaneAtWork, box: BlackBox) -> None:
        self.at_work = at_work
        self.lane: Lane = at_work.lane
        self.box = box
        self.blocks: queue.SimpleQueue[Block] = queue.SimpleQueue()
        self.ends: queue.SimpleQueue[float] = queue.SimpleQueue()

    async def block(self) -> Block:
        """What the watchdog reports."""
        return await asyncio.to_thread(self.blocks.get, timeout=LIMIT_S)

    def on_lane(self) -> tuple[str, str] | None:
        """Run and step that the box has on the lane."""
        view = read_box(self.box.path)
        assert view is not None
        assert view.lane is not None
        return (view.lane.run_id, view.lane.step) if isinstance(view.lane, Executing) else None

    def in_threads(self) -> list[tuple[str, str]]:
        """The same of its threads."""
        view = read_box(self.box.path)
        assert view is not None
        return [(each.run_id, each.step) for each in view.threads]


@asynccontextmanager
async def scene(folder: Path, new_loop: Callable[[], Any], programs: list[Program]) -> AsyncIterator[Scene]:
    box = BlackBox.create(folder, incarnation="i", worker_id="w", store_identity="s", now_ms=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio, "new_event_loop", new_loop)
        opening = lane_at_work(folder, programs, box)
        at_work = await opening.__aenter__()
    watched = Scene(at_work, box)
    watchdog = Watchdog(watched.lane, WARN_S, watched.blocks.put, watched.ends.put)
    watchdog.start()
    try:
        yield watched
    finally:
        watchdog.stop()
        await opening.__aexit__(None, None, None)
        box.close()


@pytest.mark.parametrize("place", PLACES)
async def test_the_run_is_named_wherever_its_step_blocks(
    tmp_path: Path, new_loop: Callable[[], Any], place: str
) -> None:
    gate = Gate()

    async def guilty() -> None:
        await PLACES[place](gate.blocks)

    async def body(operations: Operations) -> Any:
        return await operations.ask(step(guilty))

    async with scene(tmp_path, new_loop, [flow(body)]) as on:
        run_id = await on.at_work.submit("flow")
        await on.at_work.claim()
        block = await on.block()
        on_lane = on.on_lane()
        gate.passed.set()
        await asyncio.to_thread(on.ends.get, timeout=LIMIT_S)
        await on.at_work.until_ended(run_id)
    assert block.whose is not None
    assert (block.whose.run_id, block.whose.step, block.whose.op_id) == (run_id, "guilty", "guilty#1")
    assert "# the guilty line" in block.line
    assert on_lane == (run_id, "guilty")


async def test_a_body_is_named_too(tmp_path: Path, new_loop: Callable[[], Any]) -> None:
    gate = Gate()

    async def body(_operations: Operations) -> None:
        gate.blocks()

    async with scene(tmp_path, new_loop, [flow(body)]) as on:
        run_id = await on.at_work.submit("flow")
        await on.at_work.claim()
        block = await on.block()
        on_lane = on.on_lane()
        gate.passed.set()
        await on.at_work.until_ended(run_id)
    assert block.whose is not None
    assert (block.whose.run_id, block.whose.step) == (run_id, "")
    assert on_lane == (run_id, "")


async def test_code_of_no_run_is_nobodys(tmp_path: Path, new_loop: Callable[[], Any]) -> None:
    gate = Gate()
    async with scene(tmp_path, new_loop, []) as on:
        on.lane.post(lambda: on.lane.loop.call_later(0.001, gate.blocks))
        block = await on.block()
        on_lane = on.on_lane()
        gate.passed.set()
        await asyncio.to_thread(on.ends.get, timeout=LIMIT_S)
    assert block.whose is None
    assert on_lane is None
    assert "# the guilty line" in block.line


@pytest.mark.parametrize("way", ["to_thread", "run_in_executor"])
async def test_code_in_the_loops_own_threads_is_the_steps(
    tmp_path: Path, new_loop: Callable[[], Any], way: str
) -> None:
    gate, seen = Gate(), []

    def works() -> None:
        whose = current.get()
        seen.append(whose.step if whose else None)
        gate.blocks()

    async def step_with_thread() -> None:
        if way == "to_thread":
            await asyncio.to_thread(works)
        else:
            await asyncio.get_running_loop().run_in_executor(None, works)

    async def body(operations: Operations) -> Any:
        return await operations.ask(step(step_with_thread))

    async with scene(tmp_path, new_loop, [flow(body)]) as on:
        run_id = await on.at_work.submit("flow")
        await on.at_work.claim()
        assert await asyncio.to_thread(gate.come.wait, LIMIT_S)
        threads = on.in_threads()
        gate.passed.set()
        await on.at_work.until_ended(run_id)
        assert on.in_threads() == []
    assert threads == [(run_id, "step_with_thread")]
    assert seen == ["step_with_thread"]


async def test_an_error_in_a_callback_is_its_runs_and_harms_no_lane(
    tmp_path: Path, new_loop: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def careless() -> None:
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        loop.call_soon(lambda: 1 / 0)
        loop.call_soon(over.set)
        await over.wait()

    async def body(operations: Operations) -> Any:
        return await operations.ask(step(careless))

    async with scene(tmp_path, new_loop, [flow(body)]) as on:
        record = await on.at_work.run("flow")
        assert on.at_work.failures.empty()
    assert [each.__dict__["run_id"] for each in caplog.records if each.exc_info] == [record.run_id]


async def test_an_order_comes_before_any_more_code(tmp_path: Path, new_loop: Callable[[], Any]) -> None:
    gate, order = Gate(), list[str]()

    async with scene(tmp_path, new_loop, []) as on:
        loop, over = on.lane.loop, threading.Event()

        def blocks() -> None:
            gate.blocks()
            order.append("what blocked")

        def in_run() -> None:
            current.set(Current(run_id="r", workflow="flow", step="s"))
            loop.call_soon(blocks)
            loop.call_soon(order.append, "a callback")
            loop.call_later(0, order.append, "a timer")
            loop.call_later(0.001, over.set)

        on.lane.post(in_run)
        assert await asyncio.to_thread(gate.come.wait, LIMIT_S)
        on.lane.post(order.append, "posted before")
        on.lane._home.urgent(lambda: order.append("the order"))
        gate.passed.set()
        assert await asyncio.to_thread(over.wait, LIMIT_S)
    assert order[:2] == ["what blocked", "the order"]
    assert sorted(order[2:]) == ["a callback", "a timer", "posted before"]


async def test_an_order_that_fails_is_told_and_the_next_is_obeyed(
    tmp_path: Path, new_loop: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    async with scene(tmp_path, new_loop, []) as on:
        obeyed = threading.Event()
        on.lane._home.urgent(lambda: 1 / 0)
        on.lane._home.urgent(obeyed.set)
        assert await asyncio.to_thread(obeyed.wait, LIMIT_S)
    assert "an order to the lane failed" in caplog.text


class FakeBody:
    """A body that only tells what is done to it."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def start(self) -> None:
        self.done.append("start")

    def suspend(self) -> None:
        self.done.append("suspend")


def test_an_order_comes_before_a_body_is_driven_and_may_end_it() -> None:
    on_lane, fake = OnLane(), FakeBody()
    driven = DrivenBody(cast(AsyncBody, fake), Current(run_id="r", workflow="w"), on_lane, Unrecorded())
    on_lane.orders.append(lambda: fake.done.append("the order"))
    driven.start()
    on_lane.orders.append(driven.suspend)
    driven.start()
    assert fake.done == ["the order", "start", "suspend"]


def test_code_driven_within_code_is_told_apart_from_it(tmp_path: Path) -> None:
    box = BlackBox.create(tmp_path, incarnation="i", worker_id="w", store_identity="s", now_ms=1)
    on_lane, seen = OnLane(), list[str]()
    outer, inner = (Current(run_id=name, workflow="w") for name in ("outer", "inner"))

    def look() -> None:
        view = read_box(box.path)
        assert view is not None
        assert isinstance(view.lane, Executing)
        assert on_lane.whose is not None
        assert on_lane.whose.run_id == view.lane.run_id
        seen.append(view.lane.run_id)

    def drives(whose: Current, act: Callable[[], None]) -> None:
        body = FakeBody()
        body.start = act  # type: ignore[method-assign]
        DrivenBody(cast(AsyncBody, body), whose, on_lane, box).start()

    def looks_and_drives() -> None:
        look()
        drives(inner, look)
        look()

    drives(outer, looks_and_drives)
    assert seen == ["outer", "inner", "outer"]
    assert on_lane.whose is None
    assert box.lane_busy_since_ms() == 0
    box.close()
