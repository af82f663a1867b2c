"""What a type checker knows of workflows and steps; checked by the types run, performed only to be seen complete."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Coroutine
from typing import Any, assert_type

from pyrula.workflows import RunHandle, SyncWorkflowContext, WorkflowClient, WorkflowContext, step, workflow
from pyrula.workflows.sync import SyncRunHandle
from pyrula.workflows.sync import WorkflowClient as SyncClient


@step
async def fetch(url: str) -> bytes:
    return url.encode()


@step(retry=3)
def count(amount: int, *, currency: str = "EUR") -> int:
    return amount


def plain(word: str) -> list[str]:
    return [word]


@workflow
async def typed_order(ctx: WorkflowContext, order_id: str) -> int:
    assert_type(await assert_type(ctx.step(fetch, "u"), asyncio.Future[bytes]), bytes)
    assert_type(await ctx.step(count, 1, currency="EUR"), int)
    assert_type(await ctx.step(plain, "w"), list[str])
    assert_type(await ctx.gather(ctx.step(fetch, "u"), ctx.step(count, 1)), tuple[bytes, int])
    await ctx.step(count, "one")  # type: ignore[call-overload]
    return 1


@workflow(version="1")
def typed_sync_order(ctx: SyncWorkflowContext, order_id: str) -> str:
    assert_type(ctx.step(fetch, "u"), bytes)
    assert_type(ctx.step(count, 1), int)
    assert_type(ctx.gather(functools.partial(count, 1), functools.partial(count, 2)), list[int])
    assert_type(ctx.gather(functools.partial(fetch, "u")), list[bytes])
    return "done"


async def use(client: WorkflowClient, sync: SyncClient) -> None:
    assert_type(await assert_type(fetch("u"), Coroutine[Any, Any, bytes]), bytes)
    assert_type(count(1), int)
    run = await client.submit(typed_order, {"order_id": "o"})
    assert_type(run, RunHandle[int])
    assert_type(await run.result(), int)
    assert_type(await (await client.submit(typed_sync_order)).result(), str)
    assert_type(client.handle("order", "r"), RunHandle[Any])
    assert_type(sync.submit(typed_sync_order), SyncRunHandle[str])
    assert_type(sync.handle(typed_order, "r").result(), int)


def test_the_checked_functions_are_there() -> None:
    assert asyncio.iscoroutinefunction(use)
    assert (typed_order.name, typed_sync_order.version) == ("typed_order", "1")
