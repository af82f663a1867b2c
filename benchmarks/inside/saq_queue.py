"""Saq: its worker's settings, and as a program a client of it."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.inside.jobs import JOBS, concurrency, server_url
from benchmarks.load import obey

saq: Any = importlib.import_module("saq")  # not in the environment that checks types

_DEFAULT_JOBS = 10
# a job has 10 seconds unless it is given more
_TIMEOUT_S = {"blocking": 120}
queue = saq.Queue.from_url(server_url())


def _function(job: Callable[[str], Awaitable[None]]) -> Any:
    async def run(_context: object, *, argument: str) -> None:
        await job(argument)

    return run


settings = {
    "queue": queue,
    "functions": [(name, _function(job)) for name, job in JOBS.items()],
    "concurrency": concurrency(_DEFAULT_JOBS),
}


async def _enqueue(job: str, argument: str) -> object:
    given = {"timeout": _TIMEOUT_S[job]} if job in _TIMEOUT_S else {}
    return await queue.enqueue(job, argument=argument, **given)


async def _submit_all() -> None:
    await queue.connect()
    await obey(_enqueue)
    await queue.disconnect()


if __name__ == "__main__":
    asyncio.run(_submit_all())
