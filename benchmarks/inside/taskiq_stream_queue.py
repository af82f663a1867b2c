"""Taskiq on a stream, where what a dead worker held is kept: its broker, and as a program a client of it."""

from __future__ import annotations

import importlib
from typing import Any

from benchmarks.inside.jobs import server_url
from benchmarks.inside.taskiq_queue import submit_all, with_jobs

taskiq_redis: Any = importlib.import_module("taskiq_redis")  # not in the environment that checks types
# from the stream's beginning, so that jobs submitted before the first worker are seen
broker = with_jobs(taskiq_redis.RedisStreamBroker(server_url(), consumer_id="0"))

if __name__ == "__main__":
    submit_all(broker)
