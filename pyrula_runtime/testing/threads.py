"""Threads of a simulated worker: known to be at work until the loop has been told of their end.

A thread that has done its work tells whoever waits, and these ask the loop to go on. Only when all of them have asked
does the thread count as idle, on the loop and after them: so the loop is never quiet while an outcome is on its way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pyrula_runtime.engine.commons import Commons
from pyrula_runtime.engine.posting import post
from pyrula_runtime.engine.threads import Job, Threads


class WatchedThreads(Threads):
    """The same, with a list of the work under way; for use by the loop's thread."""

    def __init__(self, at_once: int, name: str, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(at_once, name)
        self._loop = loop
        self._at_work: set[Job] = set()
        self._left_alone: set[Job] = set()  # given up: what they do is not waited for
        self._waits_for_all = False

    def submit(self, work: Callable[[], Any]) -> Job:
        job = super().submit(work)
        self._at_work.add(job)
        return job

    def discount(self, job: Job) -> None:
        super().discount(job)
        if not self._waits_for_all:
            self._left_alone.add(job)

    def told(self, job: Job) -> None:
        post(self._loop, self._forget, job)

    def _forget(self, job: Job) -> None:
        self._at_work.discard(job)
        self._left_alone.discard(job)

    def wait_for_all(self) -> None:
        """Count those too that are given up from now on."""
        self._waits_for_all = True

    def count(self) -> int:
        """How many threads are at work."""
        return sum(not job.cancelled() for job in self._at_work - self._left_alone)


class WatchedCommons(Commons):
    """What a simulated worker's lane has beside its turns."""

    steps: WatchedThreads
    bodies: WatchedThreads

    def __init__(self, capacity: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(capacity)
        self.steps = WatchedThreads(capacity, "pyrula-step", loop)
        self.bodies = WatchedThreads(capacity, "pyrula-body", loop)
