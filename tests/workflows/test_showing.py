"""`ctx.set_status` and the events of runs: live, once each, and told again only if they were not told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyrula.workflows import (
    LimitExceeded,
    RunNotFound,
    RunStatus,
    SyncWorkflowContext,
    UsageError,
    WorkflowClient,
    WorkflowContext,
    open_store,
    step,
)
from pyrula_runtime.workflows.workflow import Workflow
from tests.store.samples import until
from tests.workflows.serving import LIMIT_S, has_come_to, served, url_in

gate = threading.Event()


@pytest.fixture(autouse=True)
def afresh() -> None:
    gate.clear()


@step
def wait_at_gate() -> None:
    assert gate.wait(LIMIT_S)


@step
def nothing() -> None:
    pass


def flow(function: Callable[..., Any]) -> Workflow[..., Any, Any]:
    return Workflow(function, name="showing_flow")


async def packing(ctx: WorkflowContext) -> None:
    ctx.set_status({"stage": "waiting"})
    await ctx.step(wait_at_gate)
    ctx.set_status({"stage": "overwritten"})
    ctx.set_status({"stage": "packing", "done": 1})
    await ctx.wait_signal("go")
    ctx.set_status({"stage": "sent"})
    await ctx.step(nothing)


def plain_packing(ctx: SyncWorkflowContext) -> None:
    ctx.set_status({"stage": "waiting"})
    ctx.step(wait_at_gate)
    ctx.set_status({"stage": "packing", "done": 1})
    ctx.wait_signal("go")
    ctx.set_status({"stage": "sent"})
    ctx.step(nothing)


async def shown(client: WorkflowClient, run_id: str, status: dict[str, Any]) -> None:
    """Return when the run shows this."""

    async def is_shown() -> bool:
        told = await client.describe(run_id)
        return bool(told["shown"] == status)

    await asyncio.wait_for(until(is_shown), LIMIT_S)


@pytest.mark.parametrize("function", [packing, plain_packing], ids=["async", "plain"])
async def test_a_status_is_seen_at_once_and_becomes_an_event(tmp_path: Path, function: Any) -> None:
    async with served(tmp_path, flow(function)) as client:
        run = await client.submit(flow(function))
        await shown(client, run.run_id, {"stage": "waiting"})  # while the step that follows is under way
        gate.set()
        await shown(client, run.run_id, {"stage": "packing", "done": 1})
        await has_come_to(run, RunStatus.waiting)
        for _ in range(2):  # the code comes to the same place again, and says the same
            await run.pause()
            await run.resume()
            await has_come_to(run, RunStatus.waiting)
        assert [each.data["stage"] for each in await run.events()] == ["waiting"]
    async with served(tmp_path, flow(function)) as client:  # the rest is another worker's, after a replay
        again = client.handle(flow(function), run.run_id)
        await again.signal("go")
        await again.result(LIMIT_S)
        assert (await again.describe())["shown"] == {"stage": "sent"}
        told = await again.events()
        assert [(each.id, each.type, each.data) for each in told] == [
            (1, "status", {"stage": "waiting"}),
            (2, "status", {"stage": "packing", "done": 1}),
            (3, "status", {"stage": "sent"}),
        ]
        assert all(each.at_ms > 0 for each in told)
        assert await again.events(after=2) == told[2:]
        assert await again.events(after=3) == ()
        assert await again.events(limit=1) == told[:1]


async def test_what_is_no_status_is_refused_where_it_is_set(tmp_path: Path) -> None:
    async def wrong(ctx: WorkflowContext) -> None:
        with pytest.raises(UsageError, match=r"a status is a dict, such as \{'stage': 'packing', 'done': 3\}"):
            ctx.set_status("packing")  # type: ignore[arg-type]
        with pytest.raises(LimitExceeded, match="a status has at most 16,000 bytes of JSON"):
            ctx.set_status({"text": "x" * 16_000})
        with pytest.raises(UsageError, match=r"ctx\.set_status: "):
            ctx.set_status({"loop": object()})

    async with served(tmp_path, flow(wrong)) as client:
        run = await client.submit(flow(wrong))
        await run.result(LIMIT_S)
        assert (await run.describe())["shown"] is None


async def test_events_that_cannot_be_asked_for(tmp_path: Path) -> None:
    async with WorkflowClient(open_store(url_in(tmp_path))) as client:
        with pytest.raises(RunNotFound):
            await client.events("nobody")
        with pytest.raises(UsageError, match="after=-1 must be the id of an event"):
            await client.events("nobody", after=-1)
        with pytest.raises(UsageError, match="limit is 0"):
            await client.events("nobody", limit=0)


async def test_what_is_shown_last_of_all_is_told_with_the_end(tmp_path: Path) -> None:
    async def rounds(ctx: WorkflowContext, number: int = 1) -> None:
        ctx.set_status({"round": number})
        if number == 1:
            ctx.continue_as_new({"number": 2})

    async with served(tmp_path, flow(rounds)) as client:
        run = await client.submit(flow(rounds))
        await run.result(LIMIT_S)
        assert [(each.id, each.data) for each in await run.events()] == [(1, {"round": 1}), (2, {"round": 2})]
