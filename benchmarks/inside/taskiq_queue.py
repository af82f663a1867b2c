"""Taskiq on a stream, where what a dead worker held is kept: its broker, and as a program a client of it."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

from benchmarks.inside.neighbours import block, note_quick, server_url
from benchmarks.load import stream

taskiq_redis: Any = importlib.import_module("taskiq_redis")  # not in the environment that checks types
broker = taskiq_redis.RedisStreamBroker(server_url())


async def quick(argument: str) -> None:
    """A quick job."""
    note_quick(argument)


async def blocking(argument: str) -> None:
    """A job that blocks its worker's loop."""
    block(argument)


TASKS = {job.__name__: broker.register_task(job, task_name=job.__name__) for job in (quick, blocking)}


async def _submit_all() -> None:
    await broker.startup()
    await stream(lambda job, argument: TASKS[job].kiq(argument))
    await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(_submit_all())
