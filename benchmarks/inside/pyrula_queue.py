"""The jobs as six workflows for Pyrula's workers, and as a program a client of them."""

from __future__ import annotations

import asyncio

from benchmarks.inside import jobs
from benchmarks.load import obey
from pyrula.workflows import WorkflowClient, WorkflowContext, open_store, step, workflow


@step
async def wait(argument: str) -> None:
    """The wait."""
    await jobs.waiting(argument)


@workflow(name="noop")
async def noop(ctx: WorkflowContext, argument: str) -> None:
    """No step."""
    await jobs.noop(argument)


@workflow(name="waiting")
async def waiting(ctx: WorkflowContext, argument: str) -> None:
    """A run that waits for something, which only a step may."""
    await ctx.step(wait, argument)


@workflow(name="quick")
async def quick(ctx: WorkflowContext, argument: str) -> None:
    """A quick run."""
    await jobs.quick(argument)


@workflow(name="blocking")
async def blocking(ctx: WorkflowContext, argument: str) -> None:
    """A run that blocks its worker's lane."""
    await jobs.blocking(argument)


@workflow(name="idle0")
async def idle0(ctx: WorkflowContext, argument: str) -> None:
    """Served, never submitted."""


@workflow(name="idle1")
async def idle1(ctx: WorkflowContext, argument: str) -> None:
    """Served, never submitted."""


async def _submit_all() -> None:
    async with WorkflowClient(open_store(jobs.server_url())) as client:
        await obey(lambda job, argument: client.submit(job, {"argument": argument}))


if __name__ == "__main__":
    asyncio.run(_submit_all())
