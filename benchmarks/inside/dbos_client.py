"""Submits to DBOS: `enqueue` one by one, `enqueue_async` when several are under way."""

from __future__ import annotations

import asyncio
import importlib
import sys

from benchmarks.inside import QUEUE
from benchmarks.load import act


def main() -> None:
    """Read the command line: path, action, workflow, count, in flight."""
    path, action, workflow, count, in_flight = sys.argv[1:]
    client = importlib.import_module("dbos").DBOSClient(system_database_url=f"sqlite:///{path}")
    options = {"workflow_name": workflow, "queue_name": QUEUE}

    async def submit(key: str) -> None:
        if int(in_flight) == 1:
            client.enqueue(options, key)
        else:
            await client.enqueue_async(options, key)

    asyncio.run(act(submit, action, int(count), int(in_flight)))
    client.destroy()


if __name__ == "__main__":
    main()
