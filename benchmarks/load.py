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

# pauses between pings, seconds: long enough for the machine to fall asleep, uneven so that no poll keeps step
_PAUSE_S = (0.02, 0.12)


async def fill(submit: Submit, count: int, in_flight: int) -> dict[str, float]:
    """Submit `count` runs, `in_flight` at a time."""
    keys = iter(range(count))

    async def one_after_another() -> None:
        for key in keys:
            await submit(str(key))

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


async def act(submit: Submit, action: str, count: int, in_flight: int) -> None:
    """Do what the command line said and print the answer."""
    answer = await (fill(submit, count, in_flight) if action == "fill" else ping(submit, count))
    sys.stdout.write(f"\n{json.dumps(answer)}\n")
