"""A failover to a replica that lags loses what it had not got; the workers that made it write it again, and go on."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pyrula.workflows import WorkflowClient, WorkflowContext, open_store, step, workflow
from pyrula_runtime.options import WorkerOptions
from pyrula_runtime.stores.valkey.connection import connect
from pyrula_runtime.worker import Worker, WorkerSetup
from pyrula_runtime.workflows.programs import program_of
from tests.store.valkey.servers import SURE, Server, free_ports

LIMIT_S = 30.0  # only a failing test waits so long
LAST = 6
made: queue.SimpleQueue[int] = queue.SimpleQueue()  # steps that were begun
gate = threading.Semaphore(0)  # what lets a step end


@step
def make(number: int) -> int:
    made.put(number)
    assert gate.acquire(timeout=LIMIT_S)
    return number


@workflow
async def made_in_order(ctx: WorkflowContext) -> list[int]:
    return [await ctx.step(make, number) for number in range(1, LAST + 1)]


class Pair:
    """A primary and a replica, and a path that leads to the one that serves."""

    def __init__(self, folder: Path) -> None:
        (port,) = free_ports(1)
        self.primary = Server(*SURE, "--repl-diskless-sync-delay", "0", port=port)
        self.replica = Server(*SURE, "--replicaof", f"127.0.0.1 {port}")
        self._path = folder / "serving"
        self._lead_to(self.primary)
        self.url = f"unix://{self._path}"

    def _lead_to(self, server: Server) -> None:
        self._path.unlink(missing_ok=True)
        self._path.symlink_to(server.socket)

    def cut_off(self) -> None:
        """Wait until the replica has all there is; it hears of nothing that comes after."""
        connection = connect(self.primary.address(), LIMIT_S, "test")
        try:
            _, met = connection.ask([("SET", "sign", "1"), ("WAIT", 1, 10_000)])  # `WAIT` looks at its own connection
        finally:
            connection.socket.close()
        assert met == 1
        self.replica.ask("REPLICAOF", "NO", "ONE")

    def fail_over(self) -> None:
        """The primary dies, and the replica serves."""
        self._lead_to(self.replica)
        self.primary.kill()

    def stop(self) -> None:
        self.primary.stop()
        self.replica.stop()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(tmp_path)
    try:
        yield pair
    finally:
        pair.stop()


@asynccontextmanager
async def working(url: str, folder: Path) -> AsyncIterator[None]:
    setup = WorkerSetup(
        programs=[program_of(made_in_order)],
        store=open_store(url),
        options=WorkerOptions(shutdown_grace=5, cancel_timeout=2),
        runtime_dir=folder / "run",
    )
    worker = Worker(setup)
    at_work = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.request_stop()
        assert await asyncio.wait_for(at_work, LIMIT_S) == 0


async def begun(number: int) -> None:
    """Wait for a step to begin: all before it are committed then."""
    assert await asyncio.to_thread(made.get, timeout=LIMIT_S) == number


async def test_entries_that_a_failover_lost_are_written_again_and_no_step_is_made_twice(
    pair: Pair, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with WorkflowClient(open_store(pair.url)) as client, working(pair.url, tmp_path):
        run = await client.submit(made_in_order, None)
        await begun(1)
        gate.release()
        await begun(2)
        await asyncio.to_thread(pair.cut_off)
        for number in (3, 4):
            gate.release()
            await begun(number)
        await asyncio.to_thread(pair.fail_over)
        for number in (5, 6):
            gate.release()
            await begun(number)
        gate.release()
        assert await run.result(timeout=LIMIT_S) == [1, 2, 3, 4, 5, 6]
        assert len((await run.describe())["journal"]) == LAST
    assert "the store has lost the last 2 journal entries: writing them again" in caplog.text


async def test_a_claim_that_a_failover_lost_is_made_again_and_the_run_begins_anew(pair: Pair, tmp_path: Path) -> None:
    async with WorkflowClient(open_store(pair.url)) as client:
        run = await client.submit(made_in_order, None)
        await asyncio.to_thread(pair.cut_off)
        async with working(pair.url, tmp_path):
            await begun(1)
            gate.release()
            await begun(2)
            await asyncio.to_thread(pair.fail_over)
            gate.release()
            for number in range(1, LAST + 1):
                await begun(number)
                gate.release()
            assert await run.result(timeout=LIMIT_S) == [1, 2, 3, 4, 5, 6]
