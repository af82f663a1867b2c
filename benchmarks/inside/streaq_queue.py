"""Streaq: its worker, and as a program a client of it."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

from benchmarks.inside.jobs import JOBS, concurrency, server_url
from benchmarks.load import obey

streaq: Any = importlib.import_module("streaq")  # not in the environment that checks types

_DEFAULT_JOBS = 16
worker = streaq.Worker(redis_url=server_url(), concurrency=concurrency(_DEFAULT_JOBS))
TASKS = {name: worker.task(name=name)(JOBS[name]) for name in ("noop", "waiting")}


async def _enqueue(job: str, argument: str) -> None:
    await TASKS[job].enqueue(argument)


async def _submit_all() -> None:
    async with worker:
        await obey(_enqueue)


if __name__ == "__main__":
    asyncio.run(_submit_all())
