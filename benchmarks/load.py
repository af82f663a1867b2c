"""How work comes in: the same loops for every system, run inside its client process. Standard library only."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable

from benchmarks.tape import Pen

Submit = Callable[[str], Awaitable[object]]

Enqueue = Callable[[str, str], Awaitable[object]]

# pauses between pings, seconds: long enough for the machine to fall asleep, uneven so that no poll keeps step
_PAUSE_S = (0.02, 0.12)


async def fill(submit: Submit, count: int, in_flight: int) -> dict[str, float]:
    """Submit `count` runs, `in_flight` at a time."""
    keys = iter(range(count))

    async def one_after_another() -> None:
        for key in keys:
            await submit(str(key))

    Pen().note("filling", str(count))
    before = time.perf_counter()
    await asyncio.gather(*(one_after_another() for _ in range(in_flight)))
    return {"per_s": count / (time.perf_counter() - before)}


async def ping(submit: Submit, count: int) -> dict[str, float]:
    """Submit `count` runs with pauses, each noted just before."""
    pen, pauses = Pen(), random.Random(count)
    for key in range(count):
        await asyncio.sleep(pauses.uniform(*_PAUSE_S))
        pen.note("submit", str(key))
        await submit(str(key))
    return {"count": count}


async def stream(enqueue: Enqueue, how: str, pause_ms: int, before: int, after: int) -> None:
    """Quick jobs at an even pace, so many before and after one that blocks.

    The pace does not wait for answers. One job in between blocks its worker. Each job is noted just before its submit.
    """
    pen, since = Pen(), time.monotonic()

    async def quick(key: str) -> None:
        pen.note("submit", key)
        await enqueue("quick", key)

    async with asyncio.TaskGroup() as group:
        for number in range(before + after):
            if number == before:
                group.create_task(_enqueued(enqueue, how))
            await asyncio.sleep(max(0, since + number * pause_ms / 1000 - time.monotonic()))
            group.create_task(quick(str(number)))
    sys.stdout.write("\n{}\n")


async def _enqueued(enqueue: Enqueue, how: str) -> None:
    await enqueue("blocking", how)


async def obey(enqueue: Enqueue) -> None:
    """Do what the command line says: `stream` and how, or `fill` or `ping` with a job, a count and how many at once."""
    action, job, *numbers = sys.argv[1:]
    if action == "stream":
        await stream(enqueue, job, *map(int, numbers))
    else:
        count, in_flight = map(int, numbers)
        await act(lambda key: enqueue(job, key), action, count, in_flight)


def one_at_a_time(enqueue: Callable[[str, str], object]) -> Enqueue:
    """A client that knows no loop: its submits come one after another, however many are asked for."""

    async def submit(job: str, argument: str) -> None:
        enqueue(job, argument)

    return submit


async def act(submit: Submit, action: str, count: int, in_flight: int) -> None:
    """Do what the command line said and print the answer."""
    answer = await (fill(submit, count, in_flight) if action == "fill" else ping(submit, count))
    sys.stdout.write(f"\n{json.dumps(answer)}\n")
