"""Arq: its worker's settings, and as a program a client of it."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

from benchmarks.inside.neighbours import block, note_quick, server_url
from benchmarks.load import stream

arq: Any = importlib.import_module("arq")  # not in the environment that checks types
connections: Any = importlib.import_module("arq.connections")


async def quick(_context: object, key: str) -> None:
    """A quick job."""
    note_quick(key)


async def blocking(_context: object, how: str) -> None:
    """A job that blocks its worker's loop."""
    block(how)


class Settings:
    """What the worker's command is told."""

    functions = (quick, blocking)
    redis_settings = connections.RedisSettings.from_dsn(server_url())


async def _submit_all() -> None:
    pool = await arq.create_pool(Settings.redis_settings)
    await stream(pool.enqueue_job)
    await pool.aclose()


if __name__ == "__main__":
    asyncio.run(_submit_all())
