"""One act on many runs: chosen first, so that their number is known, then one after another at a given speed.

What was chosen may change before its turn comes, which can be hours later. So with a run that was chosen something is
done only if it still stands as it stood then; with one that was named if it can be done at all. One that refuses does
not keep the others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass

from pyrula_runtime.client import operating
from pyrula_runtime.client.door import Door
from pyrula_runtime.client.listing import every
from pyrula_runtime.client.operating import ForkStart
from pyrula_runtime.client.submitting import fresh_id
from pyrula_runtime.client.telling import RunSummary
from pyrula_runtime.core.acts import Act, Choice, checked_rate, next_due_s
from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.stores.protocol import RunQuery

Sleep = Callable[[float], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkResult:
    """What became of one run: it was done, or `refusal` says why not. A fork has the id `fork_id`."""

    run_id: str
    refusal: UsageError | None = None
    fork_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What is done to each run; for a fork with its first step and its pin (None: see operating.ForkStart)."""

    act: Act
    step: str | None = None
    version: str | None = None

    def __post_init__(self) -> None:
        """Refuse what belongs to forks alone."""
        if self.act is not Act.fork and (self.step is not None or self.version is not None):
            raise UsageError(f"a step or a version to begin with is for forks, not for runs to be {self.act.done}")

    async def do(self, door: Door, run_id: str, now_ms: int, seen: RunSummary | None = None) -> str | None:
        """Do it at this wall-clock time; the id of a fork. UsageError if it cannot be."""
        match self.act:
            case Act.cancel:
                await operating.cancel(door, run_id, seen)
            case Act.pause:
                await operating.pause(door, run_id, seen)
            case Act.resume:
                await operating.resume(door, run_id, now_ms, seen)
            case Act.requeue:
                await operating.requeue(door, run_id, now_ms, seen)
            case Act.fork:
                fork_id = fresh_id(await door.store())
                start = ForkStart(run_id=fork_id, step=self.step, version=self.version)
                await operating.fork(door, run_id, start, now_ms, seen)
                return fork_id
        return None


async def chosen(door: Door, workflow: str | None, choice: Choice, most: int) -> tuple[RunSummary, ...]:
    """The runs of a choice, oldest first; of more than `most` the oldest."""
    query = RunQuery(workflow=workflow, statuses=choice.statuses)
    found = [
        each
        async for each in every(await door.store(), query, door.payloads)
        if choice.admits(each.status, each.error, each.finished_ms or each.created_ms)
    ]
    return tuple(reversed(found))[:most]


class Bulk:
    """An act on its way from run to run: iterating does it, one run at a time, and tells of each.

    `done`, `refused` and `left` are right at any moment, also after an interrupt: whatever was begun is finished.
    """

    def __init__(
        self,
        door: Door,
        deed: Deed,
        runs: Iterable[str | RunSummary],
        rate: float | None,
        *,
        now_ms: Callable[[], int],
        now_s: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        if isinstance(runs, str):
            raise UsageError(f"bulk takes several runs: bulk({deed.act.value!r}, [{runs!r}])")
        self.act = deed.act
        self._door = door
        self._deed = deed
        self._rate = checked_rate(rate)
        self._runs = list({each if isinstance(each, str) else each.run_id: each for each in runs}.values())
        self._now_ms = now_ms
        self._now_s = now_s
        self._sleep = sleep
        self._due_s: float | None = None
        self.done = 0
        self.refused = 0

    @property
    def left(self) -> int:
        """How many are still as they were."""
        return len(self._runs) - self.done - self.refused

    def __aiter__(self) -> AsyncIterator[BulkResult]:
        return self

    async def __anext__(self) -> BulkResult:
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

    async def _next(self) -> BulkResult:
        run = self._runs[self.done + self.refused]
        run_id, seen = (run, None) if isinstance(run, str) else (run.run_id, run)
        try:
            fork_id = await self._deed.do(self._door, run_id, self._now_ms(), seen)
        except UsageError as error:
            self.refused += 1
            return BulkResult(run_id=run_id, refusal=error)
        self.done += 1
        return BulkResult(run_id=run_id, fork_id=fork_id)
