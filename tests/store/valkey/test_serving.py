"""Real workers on a Valkey server: what is begun ends, whatever happens to the server meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pyrula.workflows import RunNotFound, WorkflowClient, WorkflowContext, open_store, step, workflow
from pyrula_runtime.options import WorkerOptions
from pyrula_runtime.stores.valkey.address import Address
from pyrula_runtime.worker import Worker, WorkerSetup
from pyrula_runtime.workflows.programs import program_of
from tests.store.samples import until
from tests.store.valkey.servers import Server, shared

LIMIT_S = 30.0  # only a failing test waits so long
begun = asyncio.Event()


@step
async def add(number: int) -> int:
    begun.set()
    await asyncio.sleep(0.01)
    return number + 1


@workflow
async def count_to(ctx: WorkflowContext, last: int) -> int:
    number = 0
    while number < last:
        number = await ctx.step(add, number)
    return number


@asynccontextmanager
async def working(url: str, folder: Path, retention: float = 0) -> AsyncIterator[None]:
    setup = WorkerSetup(
        programs=[program_of(count_to)],
        store=open_store(url),
        options=WorkerOptions(shutdown_grace=5, cancel_timeout=2, lock_ttl=6, retention=retention),
        runtime_dir=folder / "run",
    )
    worker = Worker(setup)
    at_work = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.request_stop()
        assert await asyncio.wait_for(at_work, LIMIT_S) == 0


async def test_many_runs_on_two_workers(tmp_path: Path) -> None:
    url = shared("valkey").url("serving")
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    async with (
        WorkflowClient(open_store(url)) as client,
        working(url, tmp_path / "one"),
        working(url, tmp_path / "other"),
    ):
        handles = [await client.submit(count_to, number) for number in range(40)]
        results = await asyncio.wait_for(asyncio.gather(*[handle.result() for handle in handles]), LIMIT_S)
    assert results == list(range(40))


async def test_a_worker_drops_runs_whose_time_is_over(address: Address, tmp_path: Path) -> None:
    url = shared("valkey").url(address.namespace)
    async with WorkflowClient(open_store(url)) as client:
        async with working(url, tmp_path):
            handle = await client.submit(count_to, 3)
            assert await handle.result() == 3
        async with working(url, tmp_path, retention=1e-3):

            async def is_gone() -> bool:
                return await client.list() == ()

            await asyncio.wait_for(until(is_gone), LIMIT_S)
        with pytest.raises(RunNotFound):
            await handle.result()


async def test_runs_outlive_a_server_that_is_killed_and_started_again(server: Server, tmp_path: Path) -> None:
    begun.clear()
    async with WorkflowClient(open_store(server.url())) as client, working(server.url(), tmp_path):
        handles = [await client.submit(count_to, 40) for _ in range(20)]
        await asyncio.wait_for(begun.wait(), LIMIT_S)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        await asyncio.to_thread(server.ask, "CLIENT", "KILL", "TYPE", "normal")
        await asyncio.to_thread(server.ask, "SCRIPT", "FLUSH")
        results = await asyncio.wait_for(asyncio.gather(*[handle.result() for handle in handles]), LIMIT_S)
    assert results == [40] * 20
