"""Workflows that wait and strike others, run by real workers over a server and over the shards of a cluster.

What each kind of wait means is shown beside this, on a file; here it is that a shared store keeps them all.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pyrula.workflows import OnEvent, RunStatus, SignalTimeout, WorkflowContext, workflow
from tests.faults.keeping import KEEPING, kinds
from tests.store.samples import until
from tests.workflows import serving
from tests.workflows.serving import LIMIT_S, has_come_to, served, worker_in


@pytest.fixture(params=kinds("valkey", "cluster"), autouse=True)
def shared_store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Clients and workers of a test meet in one namespace, audited at the end."""
    kept = KEEPING[request.param]()
    assert kept is not None
    monkeypatch.setattr(serving, "url_in", lambda _: kept.url)
    yield
    assert kept.audit() == []


@workflow
async def packed_far_away(ctx: WorkflowContext, number: int) -> int:
    await ctx.sleep(0.25)
    return 2 * number


@workflow
async def ordered_far_away(ctx: WorkflowContext) -> dict[str, Any]:
    told: dict[str, Any] = {"children": await ctx.gather(*(ctx.child(packed_far_away, each) for each in range(8)))}
    try:
        await ctx.wait_signal("never", timeout=0.3)
    except SignalTimeout:
        told["late"] = True
    told["paid"] = await ctx.wait_signal("paid")
    await ctx.emit("order.shipped.far", {"total": 7})
    return told


@workflow(on_event=OnEvent("order.shipped.far"))
async def billed_far_away(ctx: WorkflowContext, total: int) -> int:
    return total


async def test_children_times_signals_and_events_meet_whatever_worker_has_them(tmp_path: Path) -> None:
    flows = (ordered_far_away, packed_far_away, billed_far_away)
    async with served(tmp_path, *flows) as client, worker_in(tmp_path, *flows):
        runs = [await client.submit(ordered_far_away, None) for _ in range(4)]
        await has_come_to(runs[0], RunStatus.waiting)
        for run in runs:
            await run.signal("paid", run.run_id, message_id="once")
            await run.signal("paid", "again", message_id="once")
        results = await asyncio.gather(*[run.result(LIMIT_S) for run in runs])
        assert results == [
            {"children": [2 * each for each in range(8)], "late": True, "paid": run.run_id} for run in runs
        ]

        async def are_billed() -> bool:
            return len(await client.list(billed_far_away, RunStatus.completed)) == len(runs)

        await asyncio.wait_for(until(are_billed), LIMIT_S)


async def test_a_cancel_goes_down_the_tree_over_there_too(tmp_path: Path) -> None:
    async with served(tmp_path, waits_far_away, has_waiting_children_far_away) as client:
        run = await client.submit(has_waiting_children_far_away, None)

        async def all_wait() -> bool:
            return len(await client.list(waits_far_away, RunStatus.waiting)) == 8

        await asyncio.wait_for(until(all_wait), LIMIT_S)
        await run.cancel()
        await has_come_to(run, RunStatus.cancelled)

        async def all_are_cancelled() -> bool:
            return len(await client.list(waits_far_away, RunStatus.cancelled)) == 8

        await asyncio.wait_for(until(all_are_cancelled), LIMIT_S)


@workflow
async def waits_far_away(ctx: WorkflowContext) -> None:
    await ctx.wait_signal("never")


@workflow
async def has_waiting_children_far_away(ctx: WorkflowContext) -> None:
    await ctx.gather(*(ctx.child(waits_far_away, None) for _ in range(8)))
