"""The jobs that every queue executes, and where it finds its server. Standard library only."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from functools import cache

from benchmarks.tape import Pen

# the server that the queues share, how many jobs a worker does at once (unset: its default), how long a block lasts
URL_VARIABLE = "BENCHMARK_SERVER"
CONCURRENCY_VARIABLE = "BENCHMARK_CONCURRENCY"
BLOCK_VARIABLE = "BENCHMARK_BLOCK_S"
WAIT_S = 0.05


async def noop(key: str) -> None:
    """Nothing but to say so."""
    pen().note("begin", key)


async def waiting(key: str) -> None:
    """Wait as for an answer from elsewhere."""
    pen().note("begin", key)
    await asyncio.sleep(WAIT_S)
    pen().note("end", key)


async def quick(key: str) -> None:
    """A quick job beside one that blocks."""
    pen().note("end", key)


async def blocking(how: str) -> None:
    """Block the loop."""
    _block(how)


def _block(how: str) -> None:
    """`sleeps` lets other threads run, `holds` keeps the GIL from them."""
    seconds = int(os.environ[BLOCK_VARIABLE])
    pen().note("stuck", how)
    if how == "sleeps":
        time.sleep(seconds)
    else:
        deadline_s = time.monotonic() + seconds
        any(map(deadline_s.__lt__, iter(time.monotonic, None)))  # all of it in C, which no signal cuts short
    pen().note("released", how)


def plain_noop(key: str) -> None:
    """The same without a loop."""
    pen().note("begin", key)


def plain_waiting(key: str) -> None:
    """The same without a loop."""
    pen().note("begin", key)
    time.sleep(WAIT_S)
    pen().note("end", key)


JOBS: dict[str, Callable[[str], Awaitable[None]]] = {job.__name__: job for job in (noop, waiting, quick, blocking)}
PLAIN_JOBS: dict[str, Callable[[str], None]] = {"noop": plain_noop, "waiting": plain_waiting}


def server_url() -> str:
    """Where the server is."""
    return os.environ[URL_VARIABLE]


def concurrency(default: int) -> int:
    """How many jobs a worker does at once."""
    return int(os.environ.get(CONCURRENCY_VARIABLE, default))


@cache
def pen() -> Pen:
    """What this process notes with."""
    return Pen()
