"""Workflows that wait in every way, whose processes are killed: they sleep, have children, and tell them something."""

from __future__ import annotations

from pyrula.workflows import ChildFailed, SyncWorkflowContext, WorkflowContext, workflow
from tests.faults.workflows import leave_mark


@workflow(name="answering")
async def answering(ctx: WorkflowContext, effects: str) -> int:
    """Waits for a signal, and leaves a mark when it has come."""
    number = await ctx.wait_signal("number", type=int)
    return await ctx.step(leave_mark.with_options(name="answer"), effects, number)


@workflow(name="refusing")
async def refusing(ctx: WorkflowContext, effects: str) -> None:
    """Breaks."""
    await ctx.step(leave_mark.with_options(name="refuse"), effects, 0)
    raise ValueError("no")


@workflow(name="waiting")
async def waiting(ctx: WorkflowContext, effects: str) -> list[int | str]:
    """Long enough for a turn to end in each of its waits."""
    told: list[int | str] = [await ctx.step(leave_mark, effects, 1)]
    await ctx.sleep(0.21)
    child = ctx.start_child(answering, effects)
    await child.signal("number", 2)
    told.append(await child.result())
    try:
        await ctx.child(refusing, effects)
    except ChildFailed as failed:
        told.append(failed.error.message)
    told.append(await ctx.step(leave_mark, effects, 3))
    return told


@workflow(name="plain waiting")
def plain_waiting(ctx: SyncWorkflowContext, effects: str) -> list[int | str]:
    """The same in a thread."""
    told: list[int | str] = [ctx.step(leave_mark, effects, 1)]
    ctx.sleep(0.21)
    child = ctx.start_child(answering, effects)
    child.signal("number", 2)
    told.append(child.result())
    try:
        ctx.child(refusing, effects)
    except ChildFailed as failed:
        told.append(failed.error.message)
    told.append(ctx.step(leave_mark, effects, 3))
    return told
