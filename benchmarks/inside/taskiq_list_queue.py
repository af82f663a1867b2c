"""Taskiq on a list, which loses what a dead worker held: its broker, and as a program a client of it."""

from __future__ import annotations

import importlib
from typing import Any

from benchmarks.inside.jobs import server_url
from benchmarks.inside.taskiq_queue import submit_all, with_jobs

taskiq_redis: Any = importlib.import_module("taskiq_redis")  # not in the environment that checks types
broker = with_jobs(taskiq_redis.ListQueueBroker(server_url()))

if __name__ == "__main__":
    submit_all(broker)
