"""Many runs sent on after a fix: chosen first, so that their number is known, then one after another at a given speed.

What was chosen may change before its turn comes, which can be hours later. So a run that was chosen is requeued only if
it still stands as it stood then; one that was named is requeued if that can be done at all. One that refuses does not
keep the others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass

from pyrula_runtime.client import operating
from pyrula_runtime.client.door import Door
from pyrula_runtime.client.listing import every
from pyrula_runtime.client.telling import RunSummary
from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.requeueing import Choice, checked_rate, next_due_s
from pyrula_runtime.stores.protocol import RunQuery

Sleep = Callable[[float], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeueResult:
    """What became of one run: it is queued again, or `refusal` says why not."""

    run_id: str
    refusal: UsageError | None = None


async def chosen(door: Door, workflow: str | None, choice: Choice, most: int) -> tuple[RunSummary, ...]:
    """The runs of a choice, oldest first; of more than `most` the oldest."""
    query = RunQuery(workflow=workflow, statuses=choice.statuses)
    found = [
        each
        async for each in every(await door.store(), query, door.payloads)
        if choice.admits(each.status, each.error, each.finished_ms or each.created_ms)
    ]
    return tuple(reversed(found))[:most]


class Requeueing:
    """Runs on their way: iterating sends them on, one at a time, and tells of each.

    `requeued`, `refused` and `left` are right at any moment, also after an interrupt: whatever was begun is finished.
    """

    def __init__(
        self,
        door: Door,
        runs: Iterable[str | RunSummary],
        rate: float | None,
        *,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        if isinstance(runs, str):
            raise UsageError(f"requeue_many takes several runs: requeue_many([{runs!r}])")
        self._door = door
        self._rate = checked_rate(rate)
        self._runs = list({each if isinstance(each, str) else each.run_id: each for each in runs}.values())
        self._now_s = now_s
        self._sleep = sleep
        self._due_s: float | None = None
        self.requeued = 0
        self.refused = 0

    @property
    def left(self) -> int:
        """How many are still as they were."""
        return len(self._runs) - self.requeued - self.refused

    def __aiter__(self) -> AsyncIterator[RequeueResult]:
        return self

    async def __anext__(self) -> RequeueResult:
        if not self.left:
            raise StopAsyncIteration
        self._due_s = next_due_s(self._due_s, self._rate, self._now_s())
        if (pause_s := self._due_s - self._now_s()) > 0:
            await self._sleep(pause_s)
        act = asyncio.ensure_future(self._next())
        try:
            return await asyncio.shield(act)
        except asyncio.CancelledError:
            await asyncio.gather(act, return_exceptions=True)
            raise

    async def _next(self) -> RequeueResult:
        run = self._runs[self.requeued + self.refused]
        run_id, seen = (run, None) if isinstance(run, str) else (run.run_id, run)
        try:
            await operating.requeue(self._door, run_id, time.time_ns() // 1_000_000, seen)
        except UsageError as error:
            self.refused += 1
            return RequeueResult(run_id=run_id, refusal=error)
        self.requeued += 1
        return RequeueResult(run_id=run_id)
