"""The same jobs as workflows for a supervisor and its workers, and as a program a client of them."""

from __future__ import annotations

import asyncio

from benchmarks.inside.neighbours import block, note_quick, server_url
from benchmarks.load import stream
from pyrula.workflows import WorkflowClient, WorkflowContext, open_store, workflow


@workflow(name="quick")
async def quick(ctx: WorkflowContext, argument: str) -> None:
    """A quick run."""
    note_quick(argument)


@workflow(name="blocking")
async def blocking(ctx: WorkflowContext, argument: str) -> None:
    """A run that blocks its worker's lane."""
    block(argument)


async def _submit_all() -> None:
    async with WorkflowClient(open_store(server_url())) as client:
        await stream(lambda job, argument: client.submit(job, {"argument": argument}))


if __name__ == "__main__":
    asyncio.run(_submit_all())
