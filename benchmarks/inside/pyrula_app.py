"""The six workflows of this benchmark for Pyrula; the module is what `pyrula worker --workflow` is told to serve."""

from __future__ import annotations

import asyncio

from benchmarks.inside import statements
from benchmarks.tape import Pen
from pyrula.workflows import WorkflowContext, step, workflow

pen = Pen()
statements.note_if_asked(pen)
pen.note("imported")


@step
async def nothing(n: int) -> int:
    """Nothing at all."""
    return n


@step
async def long(key: str) -> None:
    """Outlasts its worker."""
    pen.note("step", key)
    await asyncio.sleep(60)


@workflow(name="noop")
async def noop(ctx: WorkflowContext, key: str) -> str:
    """No step."""
    pen.note("begin", key)
    return key


@workflow(name="five")
async def five(ctx: WorkflowContext, key: str) -> str:
    """Five steps, one after another."""
    pen.note("begin", key)
    for n in range(5):
        await ctx.step(nothing, n)
    pen.note("end", key)
    return key


@workflow(name="one_long")
async def one_long(ctx: WorkflowContext, key: str) -> str:
    """One step of a minute."""
    await ctx.step(long, key)
    return key


@workflow(name="idle0")
async def idle0(ctx: WorkflowContext, key: str) -> str:
    """Served, never submitted."""
    return key


@workflow(name="idle1")
async def idle1(ctx: WorkflowContext, key: str) -> str:
    """Served, never submitted."""
    return key


@workflow(name="idle2")
async def idle2(ctx: WorkflowContext, key: str) -> str:
    """Served, never submitted."""
    return key
