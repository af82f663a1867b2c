"""Background work of the control thread: each piece a round that is made again and again, and watched.

A round may be nudged before its time. `StoreUnavailable` is the world's fault: health is told, and the next round
comes sooner than usual but no storm does. Any other exception is our own bug: the loop dies, health says which, and
the worker ends, because a worker without its renewals or claims only looks alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.engine.health import Health

log = logging.getLogger("pyrula.worker")

# the pause after a round that found the store unavailable (seconds), unless the round's own period is shorter
_AFTER_OUTAGE_S = 1.0


@dataclass(slots=True, kw_only=True)
class Round:
    """One duty: what is done, and how long it rests between (seconds; `act` may change that). `nudge` ends the rest."""

    name: str
    act: Callable[[], Awaitable[None]]
    period_s: float
    nudge: asyncio.Event = field(default_factory=asyncio.Event)


class Rounds:
    """All background work of one worker."""

    def __init__(self, health: Health, chance: Callable[[], float], on_failed: Callable[[], None]) -> None:
        self._health = health
        self._chance = chance
        self._on_failed = on_failed
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self._rounds: list[Round] = []

    def start(self, work: Round) -> None:
        """Begin to make this round, at once."""
        task = asyncio.create_task(self._go_round(work), name=f"pyrula {work.name}")
        task.add_done_callback(lambda task: self._ended(work.name, task))
        self._tasks.append(task)
        self._rounds.append(work)

    async def stop(self, patience_s: float) -> None:
        """Let each round that is under way finish, then end; cancel what takes longer than `patience_s`."""
        self._stopping = True
        for work in self._rounds:
            work.nudge.set()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=patience_s)
            for task in late:
                task.cancel()

    async def _go_round(self, work: Round) -> None:
        while not self._stopping:
            work.nudge.clear()
            longest_s = math.inf
            try:
                await work.act()
            except StoreUnavailable as error:
                self._health.store_failed(error)
                longest_s = _AFTER_OUTAGE_S
            rest_s = min(work.period_s * (0.9 + 0.2 * self._chance()), longest_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(work.nudge.wait(), rest_s)

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        log.critical("the %s loop died: this worker cannot go on", name, exc_info=error)
        self._health.loop_failed(name)
        self._on_failed()
