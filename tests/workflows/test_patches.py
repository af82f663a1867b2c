"""`ctx.patched`: runs that passed a place before the code was changed go the old way, all others the new one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyrula.workflows import RunStatus, SyncWorkflowContext, UsageError, WorkflowContext, step
from pyrula_runtime.workflows.workflow import Workflow
from tests.workflows.serving import LIMIT_S, has_come_to, served

done: list[str] = []


@pytest.fixture(autouse=True)
def afresh() -> None:
    done.clear()


@step
def say(word: str) -> str:
    done.append(word)
    return word


between = say.with_options(name="between")


async def before(ctx: WorkflowContext) -> list[str]:
    words = [await ctx.step(say, "first"), await ctx.step(say, "second")]
    await ctx.wait_signal("go")
    return [*words, await ctx.step(say, "last")]


async def patched(ctx: WorkflowContext) -> list[str]:
    words = [await ctx.step(say, "first")]
    if ctx.patched("greet between"):
        words.append(await ctx.step(between, "between"))
    words.append(await ctx.step(say, "second"))
    await ctx.wait_signal("go")
    if ctx.patched("greet at last"):
        words.append(await ctx.step(say, "new last"))
    else:
        words.append(await ctx.step(say, "last"))
    return words


async def after(ctx: WorkflowContext) -> list[str]:
    words = [await ctx.step(say, "first"), await ctx.step(between, "between"), await ctx.step(say, "second")]
    await ctx.wait_signal("go")
    return [*words, await ctx.step(say, "new last")]


def plain_before(ctx: SyncWorkflowContext) -> list[str]:
    words = [ctx.step(say, "first"), ctx.step(say, "second")]
    ctx.wait_signal("go")
    return [*words, ctx.step(say, "last")]


def plain_patched(ctx: SyncWorkflowContext) -> list[str]:
    words = [ctx.step(say, "first")]
    if ctx.patched("greet between"):
        words.append(ctx.step(between, "between"))
    words.append(ctx.step(say, "second"))
    ctx.wait_signal("go")
    words.append(ctx.step(say, "new last" if ctx.patched("greet at last") else "last"))
    return words


def flow(function: Callable[..., Any]) -> Workflow[..., Any, Any]:
    return Workflow(function, name="patched_flow")


@pytest.mark.parametrize(("old", "new"), [(before, patched), (plain_before, plain_patched)], ids=["async", "plain"])
async def test_a_run_goes_the_old_way_where_it_has_been_and_the_new_one_elsewhere(
    tmp_path: Path, old: Any, new: Any
) -> None:
    async with served(tmp_path, flow(old)) as client:
        run = await client.submit(flow(old))
        await has_come_to(run, RunStatus.waiting)
    async with served(tmp_path, flow(new)) as client:
        again = client.handle(flow(new), run.run_id)
        fresh = await client.submit(flow(new))
        await again.signal("go")
        await fresh.signal("go")
        assert await again.result(LIMIT_S) == ["first", "second", "new last"]
        assert await fresh.result(LIMIT_S) == ["first", "between", "second", "new last"]
        told = await fresh.describe()
    marks = [(entry["op_id"], entry["op"]) for entry in told["journal"] if entry.get("op") == "patch"]
    assert marks == [("patched(greet between)#1", "patch"), ("patched(greet at last)#1", "patch")]


async def test_a_patch_can_be_removed_when_no_old_run_is_left(tmp_path: Path) -> None:
    async with served(tmp_path, flow(patched)) as client:
        run = await client.submit(flow(patched))
        await has_come_to(run, RunStatus.waiting)
    async with served(tmp_path, flow(after)) as client:
        again = client.handle(flow(after), run.run_id)
        await again.signal("go")
        assert await again.result(LIMIT_S) == ["first", "between", "second", "new last"]


async def test_a_patch_does_not_shift_the_numbers_of_steps_of_its_name(tmp_path: Path) -> None:
    async def named_alike(ctx: WorkflowContext) -> list[str]:
        assert ctx.patched("say")
        return [await ctx.step(say, "a"), await ctx.step(say, "b")]

    async with served(tmp_path, flow(named_alike)) as client:
        run = await client.submit(flow(named_alike))
        assert await run.result(LIMIT_S) == ["a", "b"]
        told = await run.describe()
    assert [entry["op_id"] for entry in told["journal"]] == ["patched(say)#1", "say#1", "say#2"]


async def test_what_is_no_name_of_a_patch_is_refused(tmp_path: Path) -> None:
    async def misnamed(ctx: WorkflowContext) -> None:
        with pytest.raises(UsageError, match="patch name '' must be"):
            ctx.patched("")

    async with served(tmp_path, flow(misnamed)) as client:
        await (await client.submit(flow(misnamed))).result(LIMIT_S)
