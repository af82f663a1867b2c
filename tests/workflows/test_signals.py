"""Workflows that wait for signals, for the first of several things, and within limits, run by a real worker."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from pyrula.workflows import (
    InputError,
    RunFailed,
    RunStatus,
    SignalTimeout,
    SyncWorkflowContext,
    UsageError,
    WaitTimeout,
    WorkflowContext,
    step,
    workflow,
)
from tests.workflows import serving
from tests.workflows.serving import LIMIT_S, has_come_to, served


@pytest.fixture(params=["lane", "turn"], autouse=True)
def isolation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything here is true wherever turns run."""
    monkeypatch.setattr(serving, "ISOLATION", request.param)


class Approval(BaseModel):
    by: str


@workflow
async def approved(ctx: WorkflowContext) -> list[str]:
    first = await ctx.wait_signal("approve", type=Approval)
    second = await ctx.wait_signal("approve", type=Approval)
    return [first.by, second.by]


@workflow
def plain_approved(ctx: SyncWorkflowContext) -> list[str]:
    first = ctx.wait_signal("approve", type=Approval)
    second = ctx.wait_signal("approve", type=Approval)
    return [first.by, second.by]


@pytest.mark.parametrize("flow", [approved, plain_approved])
async def test_signals_come_in_order_once_per_id_whenever_they_are_sent(flow: Any, tmp_path: Path) -> None:
    async with served(tmp_path, flow) as client:
        run = await client.submit(flow, None)
        await run.signal("approve", Approval(by="Ann"), message_id="1")  # perhaps before anybody waits
        await run.signal("approve", {"by": "Bob"}, message_id="1")  # a repetition: the first one counts
        await run.signal("else", {"by": "Eve"})
        await has_come_to(run, RunStatus.waiting)
        await run.signal("approve", {"by": "Joe"})  # while it waits, in no worker
        assert await run.result(LIMIT_S) == ["Ann", "Joe"]


@step
async def hold(_gate: str) -> None:
    await asyncio.Event().wait()


@workflow
async def hears_beside_a_step(ctx: WorkflowContext) -> Any:
    which, value = await ctx.first(ctx.step(hold, "x"), ctx.wait_signal("stop"))
    return [which, value]


async def test_a_signal_reaches_a_run_that_is_at_work(tmp_path: Path) -> None:
    async with served(tmp_path, hears_beside_a_step) as client:
        run = await client.submit(hears_beside_a_step, None)
        await has_come_to(run, RunStatus.running)
        await run.signal("stop", "now")
        assert await run.result(LIMIT_S) == [1, "now"]


@workflow
async def misreads(ctx: WorkflowContext) -> None:
    await ctx.wait_signal("approve", type=Approval)


async def test_a_payload_that_does_not_fit_is_an_error_that_says_what_it_is(tmp_path: Path) -> None:
    async with served(tmp_path, misreads) as client:
        run = await client.submit(misreads, None)
        await run.signal("approve", {"by": 7})
        with pytest.raises(RunFailed) as failed:
            await run.result(LIMIT_S)
        assert failed.value.error is not None
        assert failed.value.error.type == InputError.__name__
        assert failed.value.error.message.startswith("the payload of signal 'approve': ")


async def test_a_signal_has_a_plain_name(tmp_path: Path) -> None:
    async with served(tmp_path, misreads) as client:
        run = await client.submit(misreads, None)
        with pytest.raises(UsageError, match="signal name 'child/1' must be"):
            await run.signal("child/1")


@workflow
async def races(ctx: WorkflowContext) -> list[Any]:
    told: list[Any] = []
    async with asyncio.TaskGroup() as group:
        group.create_task(_race(ctx, told))
    with pytest.raises(SignalTimeout):
        await ctx.first(ctx.wait_signal("never", timeout=0.01), ctx.sleep(30))
    with pytest.raises(UsageError, match="at least one"):
        await ctx.first()
    return told


async def _race(ctx: WorkflowContext, told: list[Any]) -> None:
    told.append(list(await ctx.first(ctx.sleep(30), ctx.sleep(0.01), ctx.wait_signal("never"))))
    told.append(list(await ctx.first(_twice(ctx, 0.01), ctx.sleep(30))))


async def _twice(ctx: WorkflowContext, seconds: float) -> str:
    await ctx.sleep(seconds)
    await ctx.sleep(seconds)
    return "twice"


@workflow
def plain_races(ctx: SyncWorkflowContext) -> list[Any]:
    told: list[Any] = [list(ctx.first(partial(ctx.sleep, 30), partial(ctx.sleep, 0.01)))]
    told.append(list(ctx.first(partial(_twice_as_step, 2), partial(ctx.wait_signal, "never"))))
    with pytest.raises(SignalTimeout):
        ctx.gather(partial(ctx.wait_signal, "never", timeout=0.01), partial(ctx.sleep, 30))
    with pytest.raises(UsageError, match="at least one"):
        ctx.first()
    with pytest.raises(UsageError, match=r"cannot have ctx\.now"):
        ctx.gather(partial(ctx.now))
    return told


def _twice_as_step(times: int) -> str:
    return "twice" if times == 2 else ""


@pytest.mark.parametrize(
    ("flow", "told"), [(races, [[1, None], [0, "twice"]]), (plain_races, [[1, None], [0, "twice"]])]
)
async def test_the_first_decides_and_the_others_are_given_up(flow: Any, told: list[Any], tmp_path: Path) -> None:
    async with served(tmp_path, flow) as client:
        assert await (await client.submit(flow, None)).result(LIMIT_S) == told


@workflow
async def kept_in_limits(ctx: WorkflowContext) -> list[str]:
    told = []
    async with ctx.timeout(30):
        await ctx.sleep(0.01)
        told.append("in time")
    try:
        async with ctx.timeout(0.3), ctx.timeout(30):
            await ctx.gather(ctx.step(hold, "x"), ctx.sleep(20))
    except WaitTimeout as late:
        told.append(str(late))
    try:
        async with ctx.timeout(30), ctx.timeout(0.3):
            await ctx.wait_signal("never")
    except TimeoutError as late:
        told.append(str(late))
    return told


@workflow
def plainly_kept_in_limits(ctx: SyncWorkflowContext) -> list[str]:
    told = []
    with ctx.timeout(30):
        ctx.sleep(0.01)
        told.append("in time")
    try:
        with ctx.timeout(0.3), ctx.timeout(30):
            ctx.gather(partial(hold, "x"), partial(ctx.sleep, 20))
    except WaitTimeout as late:
        told.append(str(late))
    try:
        with ctx.timeout(30), ctx.timeout(0.3):
            ctx.wait_signal("never")
    except TimeoutError as late:
        told.append(str(late))
    return told


@pytest.mark.parametrize("flow", [kept_in_limits, plainly_kept_in_limits])
async def test_a_limit_ends_what_it_holds_and_is_journaled(flow: Any, tmp_path: Path) -> None:
    async with served(tmp_path, flow) as client:
        run = await client.submit(flow, None)
        late = "it took longer than 0.3 s"
        assert await run.result(LIMIT_S) == ["in time", late, late]
        journal = (await run.describe())["journal"]
        told = [(entry["kind"], entry["op_id"]) for entry in journal if entry["op"] == "timeout"]
        assert told == [
            ("withdrawn", "timeout#1"),
            ("failed", "timeout#2"),
            ("withdrawn", "timeout#3"),
            ("failed", "timeout#5"),
            ("withdrawn", "timeout#4"),
        ]


@workflow
async def unwound_in_a_limit(ctx: WorkflowContext) -> None:
    async with ctx.timeout(3600):
        await ctx.wait_signal("never")


@workflow
def plainly_unwound_in_a_limit(ctx: SyncWorkflowContext) -> None:
    with ctx.timeout(3600):
        ctx.wait_signal("never")


@pytest.mark.parametrize("flow", [unwound_in_a_limit, plainly_unwound_in_a_limit])
async def test_a_cancel_inside_a_limit_stays_a_cancel(flow: Any, tmp_path: Path) -> None:
    async with served(tmp_path, flow) as client:
        run = await client.submit(flow, None)
        await has_come_to(run, RunStatus.waiting)
        await run.cancel()
        await has_come_to(run, RunStatus.cancelled)
