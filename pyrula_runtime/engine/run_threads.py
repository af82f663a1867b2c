"""The threads in which a lane's turns have user code, and which runs still have one.

A run is handed back only when no thread of it is left in user code, or patience is over; so they are counted.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from pyrula_runtime.engine.commons import Commons
from pyrula_runtime.engine.posting import post
from pyrula_runtime.engine.threads import Job


class RunThreads:
    """One lane's part of them. Everything but the user's code happens on the lane's thread."""

    def __init__(self, commons: Commons, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._commons = commons
        self._counts: dict[str, int] = {}
        self._left = asyncio.Event()

    def run_step(self, run_id: str, work: Callable[[], Any]) -> Job:
        """Do the work of a step in a thread."""
        return self._counted(self._commons.steps.submit(work), run_id)

    def run_body(self, run_id: str, work: Callable[[], Any]) -> Job:
        """Do the work of a body in a thread."""
        return self._counted(self._commons.bodies.submit(work), run_id)

    def count(self, run_id: str) -> int:
        """How many threads of this run are in user code, or wait for their turn."""
        return self._counts.get(run_id, 0)

    async def gone(self, run_id: str, deadline: float) -> None:
        """Return when this run has no thread any more, or at this time of the loop."""
        while self.count(run_id) and (left_s := deadline - self._loop.time()) > 0:
            self._left.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._left.wait(), left_s)

    def _counted(self, job: Job, run_id: str) -> Job:
        self._change(run_id, +1)
        job.add_done_callback(lambda _job: post(self._loop, self._change, run_id, -1))
        return job

    def _change(self, run_id: str, change: int) -> None:
        count = self.count(run_id) + change
        if count:
            self._counts[run_id] = count
        else:
            self._counts.pop(run_id, None)
            self._left.set()
