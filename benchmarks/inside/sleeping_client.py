"""Submits runs that sleep until moments to come: all until one, or each until a moment of its own."""

from __future__ import annotations

import asyncio
import sys
import time

from benchmarks.load import act
from pyrula.workflows import WorkflowClient, open_store

_IN_FLIGHT = 50


async def submit_all() -> None:
    """Read the command line: store URL, how many, seconds until the first moment, milliseconds from one to the next."""
    url, count, after_s, apart_ms = sys.argv[1:]
    first_ms = round((time.time() + float(after_s)) * 1000)
    async with WorkflowClient(open_store(url)) as client:

        async def submit(key: str) -> None:
            await client.submit("until", {"key": key, "until_ms": first_ms + int(key) * int(apart_ms)})

        await act(submit, "fill", int(count), _IN_FLIGHT)


if __name__ == "__main__":
    asyncio.run(submit_all())
