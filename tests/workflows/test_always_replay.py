"""`replay="always"`: runs are replayed after each commit, so that code that does not repeat itself is found early."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyrula.workflows import Retry, RunStatus, StepFailed, SyncWorkflowContext, WorkflowContext, step
from pyrula_runtime.workflows.workflow import Workflow
from tests.workflows.serving import LIMIT_S, has_come_to, served

done: Counter[str] = Counter()
bodies = itertools.count()


@pytest.fixture(autouse=True)
def afresh() -> None:
    global bodies
    bodies = itertools.count()
    done.clear()


@step(retry=Retry(attempts=2, initial_s=0.01))
def work(name: str) -> str:
    done[name] += 1
    if name == "breaks":
        raise ValueError(name)
    return name


async def repeats_itself(ctx: WorkflowContext) -> list[str]:
    next(bodies)
    names = [await ctx.step(work, "first")]
    ctx.set_status({"stage": "both"})
    names += await ctx.gather(ctx.step(work, "left"), ctx.step(work, "right"))
    try:
        await ctx.step(work, "breaks")
    except StepFailed:
        names.append(str(ctx.patched("new")))
    await ctx.sleep(0.01)
    return [*names, await ctx.wait_signal("go", type=str)]


def plain_repeats_itself(ctx: SyncWorkflowContext) -> list[str]:
    next(bodies)
    names = [ctx.step(work, "first"), ctx.step(work, "second")]
    ctx.sleep(0.01)
    return [*names, ctx.wait_signal("go", type=str)]


async def does_not(ctx: WorkflowContext) -> None:
    await ctx.step(work, "first")
    await ctx.step(work.with_options(name=f"body {next(bodies)}"), "second")
    await ctx.step(work, "third")


def flow(function: Callable[..., Any]) -> Workflow[..., Any, Any]:
    return Workflow(function, name="always_replayed")


@pytest.mark.parametrize(
    ("function", "result", "least"),
    [
        (repeats_itself, ["first", "left", "right", "True", "gone"], 3),
        (plain_repeats_itself, ["first", "second", "gone"], 2),
    ],
    ids=["async", "plain"],
)
async def test_code_that_repeats_itself_does_everything_once(
    tmp_path: Path, function: Any, result: list[str], least: int
) -> None:
    async with served(tmp_path, flow(function), replay="always") as client:
        run = await client.submit(flow(function))
        await run.signal("go", "gone")
        assert await run.result(LIMIT_S) == result
    assert done == dict.fromkeys([name for name in result if name in done], 1) | (
        {"breaks": 2} if "left" in done else {}
    )
    assert next(bodies) >= least


async def test_code_that_does_not_is_paused_as_soon_as_it_is_replayed(tmp_path: Path) -> None:
    async with served(tmp_path, flow(does_not)) as client:
        await (await client.submit(flow(does_not))).result(LIMIT_S)  # nobody has noticed
    async with served(tmp_path, flow(does_not), replay="always") as client:
        run = await client.submit(flow(does_not))
        await has_come_to(run, RunStatus.paused)
        told = await run.describe()
    assert "but the code asks for step 'body" in told["error"]["message"]
