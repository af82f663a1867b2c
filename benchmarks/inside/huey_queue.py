"""Huey: its queue and tasks, and as a program a client of it."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

from benchmarks.inside.jobs import PLAIN_JOBS, server_url
from benchmarks.load import obey, one_at_a_time

huey_package: Any = importlib.import_module("huey")  # not in the environment that checks types

huey = huey_package.RedisHuey("benchmark", url=server_url())
TASKS = {name: huey.task(name=name)(job) for name, job in PLAIN_JOBS.items()}

if __name__ == "__main__":
    asyncio.run(obey(one_at_a_time(lambda job, argument: TASKS[job](argument))))
