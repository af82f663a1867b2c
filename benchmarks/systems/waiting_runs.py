"""How many runs of a store wait: seen in the store itself, since a run that waits does nothing that could be noted."""

from __future__ import annotations

import asyncio
import time

from benchmarks.bench import Unfit
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores.opening import open_store

_LOOK_S = 0.1
_PATIENCE_S = 900.0


def until_asleep(url: str, count: int) -> None:
    """Return when so many runs wait."""
    asyncio.run(_until_asleep(url, count))


async def _until_asleep(url: str, count: int) -> None:
    store = open_store(url)
    await store.open()
    deadline = time.monotonic() + _PATIENCE_S
    try:
        while (asleep := sum((await store.counts(frozenset({RunStatus.waiting}))).values())) < count:
            if time.monotonic() > deadline:
                raise Unfit(f"{asleep} of {count} runs sleep after {_PATIENCE_S:.0f} s")
            await asyncio.sleep(_LOOK_S)
    finally:
        await store.close()
