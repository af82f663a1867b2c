"""Celery: its app, and as a program a client of it."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

from benchmarks.inside.jobs import PLAIN_JOBS, server_url
from benchmarks.load import obey, one_at_a_time

celery: Any = importlib.import_module("celery")  # not in the environment that checks types

app = celery.Celery("benchmark", broker=server_url())
TASKS = {name: app.task(name=name)(job) for name, job in PLAIN_JOBS.items()}

if __name__ == "__main__":
    asyncio.run(obey(one_at_a_time(lambda job, argument: TASKS[job].delay(argument))))
