"""Rq: as a program a client of it; its workers need no module of their own."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

from benchmarks.inside.jobs import server_url
from benchmarks.load import obey, one_at_a_time

redis: Any = importlib.import_module("redis")  # not in the environment that checks types
rq: Any = importlib.import_module("rq")

if __name__ == "__main__":
    queue = rq.Queue(connection=redis.Redis.from_url(server_url()))
    asyncio.run(
        obey(one_at_a_time(lambda job, argument: queue.enqueue(f"benchmarks.inside.jobs.plain_{job}", argument)))
    )
