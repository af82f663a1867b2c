"""Real workers whose workflows are begun by schedules and events."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from pyrula.workflows import OnEvent, RunStatus, Schedule, WorkflowClient, WorkflowContext, open_store, workflow
from tests.store.samples import until
from tests.workflows.serving import LIMIT_S, served, url_in, worker_in

T = TypeVar("T")

SECOND = timedelta(seconds=1)
times: SimpleQueue[datetime] = SimpleQueue()


@workflow(schedule=Schedule(every=1, timezone="Europe/Berlin"))
async def begun_each_second(ctx: WorkflowContext, scheduled_at: datetime) -> None:
    times.put(scheduled_at)


async def next_of(queue: SimpleQueue[T]) -> T:
    """What a lane's thread puts there next."""
    return await asyncio.to_thread(queue.get, timeout=LIMIT_S)


async def test_a_schedule_begins_runs_in_their_time(tmp_path: Path) -> None:
    async with served(tmp_path, begun_each_second) as client:
        first, second = await next_of(times), await next_of(times)
        assert (second - first) % SECOND == timedelta()
        assert second > first
        assert first.utcoffset() in (timedelta(hours=1), timedelta(hours=2))
        await client.schedules.pause("begun_each_second")
    runs = await ended(tmp_path)
    assert {run.schedule for run in runs} == {"begun_each_second"}


async def ended(folder: Path) -> Any:
    async with WorkflowClient(open_store(url_in(folder))) as client:
        return await client.list("begun_each_second", RunStatus.completed)


async def test_two_workers_begin_one_run_for_each_time(tmp_path: Path) -> None:
    while not times.empty():
        times.get()
    async with worker_in(tmp_path, begun_each_second), worker_in(tmp_path, begun_each_second):
        found = [await next_of(times) for _ in range(3)]
    assert len(set(found)) == 3


orders: SimpleQueue[tuple[str, int]] = SimpleQueue()


@workflow(on_event=["order.paid", OnEvent("order.created", filter=lambda told: told["total"] > 9)])
async def begun_by_events(ctx: WorkflowContext, total: int) -> int:
    orders.put((ctx.run_id, total))
    return total


@workflow(on_event="order.paid")
def begun_by_payment(ctx: Any, total: int) -> int:
    return total


async def test_events_begin_runs_once(tmp_path: Path) -> None:
    async with served(tmp_path, begun_by_events, begun_by_payment) as client, worker_in(tmp_path, begun_by_events):
        for total in (5, 15):
            await client.emit("order.created", {"total": total}, id=f"created {total}")
            await client.emit("order.created", {"total": total}, id=f"created {total}")
        run_id, total = await next_of(orders)
        assert total == 15
        assert await client.result(run_id, LIMIT_S) == 15
        await client.emit("order.paid", {"total": 7})
        assert (await next_of(orders))[1] == 7
    async with WorkflowClient(open_store(url_in(tmp_path))) as client:
        assert len(await client.list(begun_by_events)) == 2
        assert len(await client.list(begun_by_payment)) == 1
        assert await client.waiting_events() == ()
    assert orders.empty()


async def test_a_payload_that_fits_no_parameter_is_a_run_that_failed(tmp_path: Path) -> None:
    async with served(tmp_path, begun_by_payment) as client:
        await client.emit("order.paid", {"sum": 7})

        async def has_failed() -> bool:
            return bool(await client.list(begun_by_payment, RunStatus.failed))

        await until(has_failed)
        (run,) = await client.list(begun_by_payment)
    assert "'total' is missing" in str(run.error)
