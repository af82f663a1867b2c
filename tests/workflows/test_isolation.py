"""Workflows whose turns have event loops of their own: what belongs to a loop is made for each, and closed with it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pyrula.workflows import RunFailed, WorkflowContext, lane_local, step, workflow
from tests.workflows.serving import LIMIT_S, served


class Client:
    """A client that has to be closed on the loop that it was made on."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        CLIENTS.append(self)
        self.is_closed = False

    async def aclose(self) -> None:
        assert asyncio.get_running_loop() is self.loop
        await asyncio.sleep(0.01)
        self.is_closed = True


CLIENTS: list[Client] = []
client_here = lane_local(Client)


@step
async def use_client() -> bool:
    return client_here() is client_here()


@workflow(isolation="turn")
async def with_client(ctx: WorkflowContext) -> tuple[bool, bool]:
    return await ctx.gather(ctx.step(use_client), ctx.step(use_client))


async def test_a_client_of_an_isolated_turn_is_closed_before_its_worker_ends(tmp_path: Path) -> None:
    CLIENTS.clear()
    async with served(tmp_path, with_client) as client:
        handles = [await client.submit(with_client) for _ in range(3)]
        assert [await handle.result(LIMIT_S) for handle in handles] == [(True, True)] * 3
    assert [each.is_closed for each in CLIENTS] == [True] * 3


@step
async def contend() -> None:
    async def hold() -> None:
        async with SHARED_LOCK:
            await asyncio.sleep(0)

    await asyncio.gather(hold(), hold())


@workflow(isolation="turn")
async def contending(ctx: WorkflowContext) -> None:
    await ctx.step(contend)


SHARED_LOCK = asyncio.Lock()


async def test_a_global_that_keeps_a_loop_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SHARED_LOCK", asyncio.Lock())
    async with served(tmp_path, contending) as client:
        await (await client.submit(contending)).result(LIMIT_S)
        with pytest.raises(RunFailed) as failed:
            await (await client.submit(contending)).result(LIMIT_S)
    error = failed.value.error
    assert error is not None
    assert "bound to a different event loop" in error.message
    assert "test_isolation.SHARED_LOCK. Make it with lane_local" in error.traceback
