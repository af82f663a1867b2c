"""The workflows of this benchmark for DBOS, registered by call: `DBOS.workflow()(f)` is its decorator at work."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.tape import Pen

dbos: Any = importlib.import_module("dbos")  # not in the environment that checks types
pen = Pen()
pen.note("imported")


async def nothing(n: int) -> int:
    """A step that does nothing."""
    return n


async def long(key: str) -> None:
    """A step that outlasts its worker."""
    pen.note("step", key)
    await asyncio.sleep(60)


nothing_step = dbos.DBOS.step()(nothing)
long_step = dbos.DBOS.step()(long)


async def noop(key: str) -> str:
    """No step."""
    pen.note("begin", key)
    return key


async def five(key: str) -> str:
    """Five steps, one after another."""
    pen.note("begin", key)
    for n in range(5):
        await nothing_step(n)
    pen.note("end", key)
    return key


async def one_long(key: str) -> str:
    """One step of a minute."""
    await long_step(key)
    return key


def _idle(n: int) -> Callable[[str], Awaitable[str]]:
    async def idle(key: str) -> str:
        return key

    idle.__qualname__ = idle.__name__ = f"idle{n}"
    return idle


WORKFLOWS = [noop, five, one_long, *map(_idle, range(3))]


def configure(path: str, executor: str) -> None:
    """DBOS on this SQLite file, with its defaults."""
    dbos.DBOS(
        config={
            "name": "benchmark",
            "system_database_url": f"sqlite:///{path}",
            "executor_id": executor,
            "application_version": "1",
            "log_level": "WARNING",
        }
    )
    for workflow in WORKFLOWS:
        dbos.DBOS.workflow(name=workflow.__name__)(workflow)
