"""Dramatiq: its broker and actors, and as a program a client of it."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

from benchmarks.inside.jobs import PLAIN_JOBS, server_url
from benchmarks.load import obey, one_at_a_time

dramatiq: Any = importlib.import_module("dramatiq")  # not in the environment that checks types
brokers: Any = importlib.import_module("dramatiq.brokers.redis")

broker = brokers.RedisBroker(url=server_url())
dramatiq.set_broker(broker)
ACTORS = {name: dramatiq.actor(job, actor_name=name) for name, job in PLAIN_JOBS.items()}

if __name__ == "__main__":
    asyncio.run(obey(one_at_a_time(lambda job, argument: ACTORS[job].send(argument))))
