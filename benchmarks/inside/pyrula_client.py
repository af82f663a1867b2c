"""Submits to Pyrula through its client, as an application would."""

from __future__ import annotations

import asyncio
import sys

from benchmarks.load import act
from pyrula.workflows import WorkflowClient, open_store


async def submit_all() -> None:
    """Read the command line: store URL, action, workflow, count, in flight."""
    url, action, workflow, count, in_flight = sys.argv[1:]
    client = WorkflowClient(open_store(default=url))
    try:
        await act(lambda key: client.submit(workflow, {"key": key}), action, int(count), int(in_flight))
    finally:
        await client.close()


if __name__ == "__main__":
    asyncio.run(submit_all())
