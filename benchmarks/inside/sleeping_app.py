"""Workflows that sleep, for workers that are to have nothing to do meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from benchmarks.inside import statements
from benchmarks.tape import Pen
from pyrula.workflows import WorkflowContext, workflow

pen = Pen()
statements.note_if_asked(pen)
pen.note("imported")


@workflow(name="noop")
async def noop(ctx: WorkflowContext, key: str) -> str:
    """No step."""
    pen.note("begin", key)
    return key


@workflow(name="month")
async def month(ctx: WorkflowContext, key: str) -> str:
    """Longer than any measurement."""
    await ctx.sleep(timedelta(days=30))
    return key


@workflow(name="until")
async def until(ctx: WorkflowContext, key: str, until_ms: int) -> str:
    """Until a moment of the wall clock; says how late it goes on."""
    await ctx.sleep_until(datetime.fromtimestamp(until_ms / 1000, UTC))
    pen.note("woken", f"{key}:{until_ms}")
    return key
