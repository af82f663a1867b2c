"""A real worker beside a client, on a store of their own in a temporary folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pyrula.workflows import RunHandle, RunStatus, WorkflowClient, open_store
from pyrula_runtime.options import Isolation, Replay, WorkerOptions
from pyrula_runtime.worker import Worker, WorkerSetup
from pyrula_runtime.workflows.programs import program_of
from pyrula_runtime.workflows.workflow import Workflow
from tests.store.samples import until

LIMIT_S = 20.0  # only a failing test waits so long
ISOLATION: Isolation = "lane"  # where workers run async turns; tests may change it


def url_in(folder: Path) -> str:
    """The store of one test."""
    return f"sqlite:///{folder / 'runs.db'}"


@asynccontextmanager
async def worker_in(
    folder: Path, *workflows: Workflow[..., Any, Any], replay: Replay = "when-resumed"
) -> AsyncIterator[Worker]:
    """A worker that serves these workflows from the folder's store until the end of the block."""
    setup = WorkerSetup(
        programs=[program_of(each) for each in workflows],
        store=open_store(url_in(folder)),
        options=WorkerOptions(shutdown_grace=1, cancel_timeout=2, isolation=ISOLATION, replay=replay),
        runtime_dir=folder / "run",
    )
    worker = Worker(setup)
    working = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.request_stop()
        assert await asyncio.wait_for(working, LIMIT_S) == 0


@asynccontextmanager
async def served(
    folder: Path, *workflows: Workflow[..., Any, Any], replay: Replay = "when-resumed"
) -> AsyncIterator[WorkflowClient]:
    """A client of a store whose runs of these workflows are executed."""
    async with WorkflowClient(open_store(url_in(folder))) as client, worker_in(folder, *workflows, replay=replay):
        yield client


async def has_come_to(run: RunHandle[Any], status: RunStatus) -> None:
    """Return when the run stands so."""

    async def is_there() -> bool:
        return await run.status() is status

    await asyncio.wait_for(until(is_there), LIMIT_S)
