"""The undertaker: burials that a supervisor orders, each looked at until the last look, whatever the store does.

Told again meanwhile, the looks under way are the answer. An outage is waited for; a look that breaks is our own bug and
ends the clerk, for a supervisor that is not answered tells the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.duties.burial import SECOND_LOOK_MS, Burial, Look
from pyrula_runtime.engine.health import Health
from pyrula_runtime.wire import Finding

log = logging.getLogger("pyrula.clerk")

AFTER_OUTAGE_S = 1.0
# a second look comes this much later than it must, so that it does not come in vain
_SLACK_S = 0.01


class Undertaker:
    """Those of one clerk. `told` hears of every look; nothing is looked at before the store is `opened`."""

    def __init__(
        self,
        burial: Burial,
        health: Health,
        told: Callable[[str, Look], None],
        *,
        opened: asyncio.Event,
        stop: asyncio.Event,
    ) -> None:
        self._burial = burial
        self._health = health
        self._told = told
        self._opened = opened
        self._stop = stop
        self._looks: dict[str, asyncio.Task[None]] = {}

    def bury(self, incarnation: str, finding: Finding) -> None:
        """Look at once, and once more a second later."""
        if incarnation not in self._looks:
            self._burial.in_hand.add(incarnation)
            looking = self._look_until_final(incarnation, finding)
            task = asyncio.create_task(looking, name=f"pyrula burial {incarnation}")
            self._looks[incarnation] = task
            task.add_done_callback(lambda task: self._looked(incarnation, task))

    async def finish(self, patience_s: float) -> None:
        """Wait for those who were not looked at yet; called once `stop` is set."""
        if self._looks:
            await asyncio.wait(self._looks.values(), timeout=patience_s)

    async def _look_until_final(self, incarnation: str, finding: Finding) -> None:
        await self._opened.wait()
        while True:
            try:
                look = await self._burial.look(incarnation, finding)
            except StoreUnavailable as error:
                self._health.store_failed(error)
                await asyncio.sleep(AFTER_OUTAGE_S)
                continue
            self._told(incarnation, look)
            if look.fault is not None:
                self._health.store_failed(look.fault)
            if look.freed:
                log.info("runs of the dead worker %s are free again: %s", incarnation, ", ".join(look.freed))
            if look.final:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), SECOND_LOOK_MS / 1000 + _SLACK_S)
                return  # whoever drains a clerk needs no more of it; a box that is left is found at the next start

    def _looked(self, incarnation: str, task: asyncio.Task[None]) -> None:
        del self._looks[incarnation]
        self._burial.in_hand.discard(incarnation)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.critical("burying %s failed: this clerk cannot go on", incarnation, exc_info=error)
            self._health.loop_failed("burial")
            self._stop.set()
