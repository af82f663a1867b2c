"""Workflows that sleep, run by a real worker: nothing of them is left in it meanwhile, and steps are not made again."""

from __future__ import annotations

import gc
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pyrula.workflows import (
    Retry,
    RunStatus,
    SyncWorkflowContext,
    UsageError,
    WorkflowClient,
    WorkflowContext,
    current_step,
    open_store,
    step,
    workflow,
)
from pyrula_runtime.core.status import RunEvent, after
from pyrula_runtime.engine.turn import Turn
from pyrula_runtime.stores.protocol import RunQuery
from pyrula_runtime.workflows.programs import program_of
from tests.engine.ground import Ground
from tests.store.samples import new_run, until
from tests.workflows import serving
from tests.workflows.serving import LIMIT_S, has_come_to, served, url_in, worker_in

_made: list[str] = []


@pytest.fixture(params=["lane", "turn"], autouse=True)
def isolation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything here is true wherever turns run."""
    monkeypatch.setattr(serving, "ISOLATION", request.param)
    _made.clear()


@step
def make(what: str) -> str:
    _made.append(what)
    return what


@workflow
async def naps(ctx: WorkflowContext) -> float:
    await ctx.step(make, "bed")
    before = ctx.now()
    await ctx.sleep(0.3)
    await ctx.sleep(timedelta(milliseconds=20))
    await ctx.step(make, "coffee")
    return (ctx.now() - before).total_seconds()


@workflow
def plain_naps(ctx: SyncWorkflowContext) -> float:
    ctx.step(make, "bed")
    before = ctx.now()
    ctx.sleep(0.3)
    ctx.sleep_until(ctx.now() + timedelta(milliseconds=20))
    ctx.step(make, "coffee")
    return (ctx.now() - before).total_seconds()


@pytest.mark.parametrize("flow", [naps, plain_naps])
async def test_a_sleep_is_never_short_and_what_came_before_is_not_done_again(flow: Any, tmp_path: Path) -> None:
    async with served(tmp_path, flow) as client:
        run = await client.submit(flow, None)
        assert await run.result(LIMIT_S) >= 0.32
        told = await run.describe()
    assert _made == ["bed", "coffee"]
    assert [entry["op_id"] for entry in told["journal"]] == ["make#1", "sleep#1", "sleep#2", "make#2"]


@workflow
async def sleeps_long(ctx: WorkflowContext) -> None:
    await ctx.sleep(timedelta(days=30))


@workflow
def plain_sleeps_long(ctx: SyncWorkflowContext) -> None:
    ctx.sleep(timedelta(days=30))


@pytest.mark.parametrize("flow", [sleeps_long, plain_sleeps_long])
async def test_a_run_that_sleeps_is_no_turn_of_any_worker_and_can_be_cancelled(flow: Any, tmp_path: Path) -> None:
    async with WorkflowClient(open_store(url_in(tmp_path))) as client, worker_in(tmp_path, flow) as worker:
        runs = [await client.submit(flow, None) for _ in range(3)]
        for run in runs:
            await has_come_to(run, RunStatus.waiting)

        async def is_idle() -> bool:
            return worker.turns_running == 0

        await until(is_idle)
        await runs[0].cancel()
        await has_come_to(runs[0], RunStatus.cancelled)
        assert await runs[1].status() is RunStatus.waiting


@pytest.mark.parametrize("flow", [sleeps_long, plain_sleeps_long])
async def test_nothing_of_a_run_that_sleeps_is_left_in_memory(flow: Any, tmp_path: Path) -> None:
    async with served(tmp_path, flow) as client:
        runs = [await client.submit(flow, None) for _ in range(3)]
        for run in runs:
            await has_come_to(run, RunStatus.waiting)

        async def is_gone() -> bool:
            gc.collect()
            turns = [each for each in gc.get_objects() if type(each) is Turn]
            return not {each.run_id for each in turns} & {run.run_id for run in runs}

        await until(is_gone)


async def test_a_run_that_sleeps_for_hours_is_no_orphan_and_runs_once() -> None:
    ground = Ground(program_of(sleeps_long))
    await ground.store.open()
    await ground.store.submit(new_run(sleeps_long.name))
    assert await ground.claim()
    await ground.write(0)
    status = after(RunStatus.running, RunEvent.release)
    for _ in range(30 * 24):
        await ground.pass_time(3_600_000 - 1)
        assert (await ground.store.reclaim_lapsed(status, 30_000, 100)).run_ids == ()
        assert not await ground.claim()
    await ground.pass_time(30 * 24)
    assert await ground.claim()
    await ground.write(0)
    (run,) = await ground.store.find(RunQuery())
    assert (run.status, run.fence) == (RunStatus.completed, 2)


@workflow
async def sleeps_until_long_ago(ctx: WorkflowContext) -> str:
    await ctx.sleep_until(datetime(2001, 1, 1, tzinfo=UTC))
    return "at once"


async def test_a_moment_that_has_passed_is_over_at_once(tmp_path: Path) -> None:
    async with served(tmp_path, sleeps_until_long_ago) as client:
        assert await (await client.submit(sleeps_until_long_ago, None)).result(LIMIT_S) == "at once"


@step(retry=Retry(attempts=3, initial_s=0.3, jitter=0))
def third_try_works() -> int:
    _made.append("try")
    if current_step().attempt < 3:
        raise ValueError("not yet")
    return current_step().attempt


@workflow
async def tries(ctx: WorkflowContext) -> int:
    return await ctx.step(third_try_works)


async def test_a_step_is_tried_again_wherever_its_run_is_by_then(tmp_path: Path) -> None:
    async with served(tmp_path, tries) as client:
        assert await (await client.submit(tries, None)).result(LIMIT_S) == 3
    assert _made == ["try"] * 3


@workflow
async def sleeps_wrongly(ctx: WorkflowContext) -> list[str]:
    told = []
    wrong: list[Any] = [-1, float("nan"), float("inf"), "1", True, timedelta(seconds=-1), 10**15]
    for each in wrong:
        with pytest.raises(UsageError) as raised:
            await ctx.sleep(each)
        told.append(str(raised.value))
    moments: list[Any] = [datetime(2030, 1, 1), 5]
    for each in moments:
        with pytest.raises(UsageError) as raised:
            await ctx.sleep_until(each)
        told.append(str(raised.value))
    return told


async def test_what_is_no_time_is_refused_in_a_sentence(tmp_path: Path) -> None:
    async with served(tmp_path, sleeps_wrongly) as client:
        told = await (await client.submit(sleeps_wrongly, None)).result(LIMIT_S)
    assert told[0] == "ctx.sleep: -1 must be a number of seconds from 0 on, or a timedelta"
    assert told[-2].endswith("the datetime must say its time zone, as datetime(..., tzinfo=UTC) does")
    assert told[-1] == "ctx.sleep_until takes a datetime, not 5"
