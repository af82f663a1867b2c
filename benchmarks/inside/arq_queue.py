"""Arq: its worker's settings, and as a program a client of it."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.inside.jobs import JOBS, concurrency, server_url
from benchmarks.load import obey

arq: Any = importlib.import_module("arq")  # not in the environment that checks types
connections: Any = importlib.import_module("arq.connections")
worker: Any = importlib.import_module("arq.worker")

_DEFAULT_JOBS = 10


def _function(name: str, job: Callable[[str], Awaitable[None]]) -> Any:
    async def run(_context: object, argument: str) -> None:
        await job(argument)

    return worker.func(run, name=name)


class Settings:
    """What the worker's command is told."""

    functions = tuple(_function(name, job) for name, job in JOBS.items())
    redis_settings = connections.RedisSettings.from_dsn(server_url())
    max_jobs = concurrency(_DEFAULT_JOBS)


async def _submit_all() -> None:
    pool = await arq.create_pool(Settings.redis_settings)
    await obey(pool.enqueue_job)
    await pool.aclose()


if __name__ == "__main__":
    asyncio.run(_submit_all())
