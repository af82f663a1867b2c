"""Saq: its worker's settings, and as a program a client of it."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

from benchmarks.inside.neighbours import block, note_quick, server_url
from benchmarks.load import stream

saq: Any = importlib.import_module("saq")  # not in the environment that checks types

# a job has 10 seconds unless it is given more
_TIMEOUT_S = 120
queue = saq.Queue.from_url(server_url())


async def quick(_context: object, *, argument: str) -> None:
    """A quick job."""
    note_quick(argument)


async def blocking(_context: object, *, argument: str) -> None:
    """A job that blocks its worker's loop."""
    block(argument)


settings = {"queue": queue, "functions": [quick, blocking]}


async def _submit_all() -> None:
    await queue.connect()
    await stream(lambda job, argument: queue.enqueue(job, argument=argument, timeout=_TIMEOUT_S))
    await queue.disconnect()


if __name__ == "__main__":
    asyncio.run(_submit_all())
