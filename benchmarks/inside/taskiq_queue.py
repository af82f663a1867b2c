"""Taskiq's jobs and its client, on whichever of its brokers."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.inside.jobs import JOBS
from benchmarks.load import obey


def with_jobs(broker: Any) -> Any:
    """The broker that knows the jobs."""
    for name, job in JOBS.items():
        broker.register_task(job, task_name=name)
    return broker


def submit_all(broker: Any) -> None:
    """Be a client of it."""

    async def submit() -> None:
        await broker.startup()
        await obey(lambda job, argument: broker.find_task(job).kiq(argument))
        await broker.shutdown()

    asyncio.run(submit())
