"""The black box says who executes: in bodies, steps, their tasks and callbacks, and threads, and nobody else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyrula_runtime.blackbox import NOBODY, BlackBox, BoxView, Executing, Nobody, read_box
from pyrula_runtime.core.entries import Json
from pyrula_runtime.engine.program import Operations, Program, SyncOperations
from tests.engine.lanes import LIMIT_S, LaneAtWork, lane_at_work, same, step


@contextmanager
def box_in(folder: Path) -> Iterator[BlackBox]:
    box = BlackBox.create(folder, incarnation="i", worker_id="w", store_identity="s", now_ms=1)
    try:
        yield box
    finally:
        box.close()


def seen(box: BlackBox) -> BoxView:
    view = read_box(box.path)
    assert view is not None
    return view


def where(place: Executing | Nobody | None) -> tuple[str, str] | None:
    """Run and step of what executes; None for nobody."""
    return (place.run_id, place.step) if isinstance(place, Executing) else None


def flow(body: Any) -> Program:
    def start(operations: Operations, _input: Json) -> Coroutine[Any, Any, Any]:
        return body(operations)  # type: ignore[no-any-return]

    return Program(name="flow", version=None, start=start, to_json=same)


async def run(folder: Path, box: BlackBox, program: Program) -> str:
    """Run it once; the run's id."""
    at_work: LaneAtWork
    async with lane_at_work(folder, [program], box) as at_work:
        record = await at_work.run("flow")
        assert record.result is not None, record
        async with asyncio.timeout(LIMIT_S):
            while at_work.lane.held():  # the store tells of the end before the lane hears the store's answer
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asyncio.sleep(0), at_work.lane.loop))
    return record.run_id


async def test_bodies_steps_and_what_steps_start_are_on_the_lane(tmp_path: Path) -> None:
    found: dict[str, BoxView] = {}
    with box_in(tmp_path) as box:

        def look(what: str) -> None:
            found[what] = seen(box)

        async def child() -> None:
            await asyncio.sleep(0)
            look("task of the step")

        async def works() -> None:
            look("step")
            await asyncio.create_task(child())
            loop, timed = asyncio.get_running_loop(), asyncio.Event()
            loop.call_soon(look, "callback of the step")
            loop.call_later(0.001, look, "timer of the step")
            loop.call_later(0.002, timed.set)
            await timed.wait()

        async def body(operations: Operations) -> int:
            look("body")
            await operations.ask(step(works))
            look("body again")
            return 1

        run_id = await run(tmp_path, box, flow(body))
        after = seen(box)
    lanes = {what: where(view.lane) for what, view in found.items()}
    in_step, in_body = (run_id, "works"), (run_id, "")
    assert lanes == {
        "body": in_body,
        "step": in_step,
        "task of the step": in_step,
        "callback of the step": in_step,
        "timer of the step": in_step,
        "body again": in_body,
    }
    assert [held.run_id for held in found["body"].in_flight] == [run_id]
    assert (after.lane, after.in_flight, after.threads) == (NOBODY, (), ())


async def test_the_time_of_entry_and_its_count_tell_a_long_step_from_many_short_ones(tmp_path: Path) -> None:
    views: list[BoxView] = []
    with box_in(tmp_path) as box:

        async def works() -> None:
            for _ in range(3):
                views.append(seen(box))
                await asyncio.sleep(0)

        async def body(operations: Operations) -> int:
            await operations.ask(step(works))
            return 1

        await run(tmp_path, box, flow(body))
    spans = [view.lane for view in views]
    assert all(isinstance(span, Executing) for span in spans)
    entries = [span.entries for span in spans if isinstance(span, Executing)]
    assert entries == sorted(set(entries))
    assert all(span.since_ms > 0 for span in spans if isinstance(span, Executing))


async def test_a_plain_step_is_on_its_thread_and_not_on_the_lane(tmp_path: Path) -> None:
    views: list[BoxView] = []
    with box_in(tmp_path) as box:

        def works() -> None:
            views.append(seen(box))

        async def body(operations: Operations) -> int:
            await operations.ask(step(works))
            return 1

        run_id = await run(tmp_path, box, flow(body))
        assert seen(box).threads == ()
    assert [where(span) for span in views[0].threads] == [(run_id, "works")]


async def test_a_plain_body_executes_but_for_the_times_it_waits_for_a_step(tmp_path: Path) -> None:
    views: list[BoxView] = []
    with box_in(tmp_path) as box:

        async def works() -> None:
            views.append(seen(box))

        def body(operations: SyncOperations, _input: Json) -> int:
            views.append(seen(box))
            operations.ask([step(works)])
            views.append(seen(box))
            return 1

        run_id = await run(tmp_path, box, Program(name="flow", version=None, run=body, to_json=same))
        assert seen(box).threads == ()
    threads = [[where(span) for span in view.threads] for view in views]
    assert threads == [[(run_id, "")], [], [(run_id, "")]]


async def test_a_step_that_ends_by_an_exit_leaves_the_lane(tmp_path: Path) -> None:
    with box_in(tmp_path) as box:

        async def exits() -> None:
            raise SystemExit(3)

        async def body(operations: Operations) -> int:
            try:
                await operations.ask(step(exits))
            except Exception as error:  # noqa: BLE001 - whatever it becomes, the run goes on
                return len(str(error))
            return 0

        await run(tmp_path, box, flow(body))
        assert seen(box).lane is NOBODY


async def test_the_box_knows_the_lanes_thread(tmp_path: Path) -> None:
    ids: list[int] = []
    with box_in(tmp_path) as box:

        async def body(_operations: Operations) -> int:
            ids.append(threading.get_native_id())
            return 1

        await run(tmp_path, box, flow(body))
        assert seen(box).lane_thread == ids[0]
