"""A cell: a process that runs one suspect, alone, and ends.

It claims suspects and nothing else, one, and what ends claims no successor. If none comes (another cell was faster),
it ends as well: a process that waits for nothing is not kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.engine.claiming import Taker
from pyrula_runtime.engine.handback import Handback
from pyrula_runtime.engine.lane_setup import LaneSetup

log = logging.getLogger("pyrula.worker")

# how long a cell waits for its suspect (seconds)
PATIENCE_S = 5.0


class CellClaiming:
    """The round that claims in a cell; `leave` is called once it has done its work, or has none."""

    def __init__(
        self,
        setup: LaneSetup,
        taker: Taker,
        handback: Handback,
        *,
        doubt: Callable[[], None],
        leave: Callable[[], None],
    ) -> None:
        self._setup = setup
        self._taker = taker
        self._handback = handback
        self._doubt = doubt
        self._leave = leave
        self._has_claimed = self._asks = False
        self._timer = asyncio.get_running_loop().call_later(PATIENCE_S, self._nobody_came)

    def slot_came_free(self) -> None:
        """The turn is over."""
        if self._has_claimed:
            self._leave()

    async def act(self) -> None:
        """Claim a suspect, unless there was one."""
        if self._has_claimed or self._taker.draining:
            return
        free = self._setup.slots.take_all()
        self._asks = True
        try:
            claims = await self._setup.store.claim(replace(self._setup.claim_request(1), suspects=True))
            self._has_claimed = bool(claims)
        except StoreUnavailable:
            self._doubt()
            raise
        finally:
            self._asks = False
            self._setup.slots.give(free - self._has_claimed)
        if claims:
            self._timer.cancel()
            self._taker.take(claims)
            self._handback.watch()

    def _nobody_came(self) -> None:
        if self._asks:  # the answer may be a suspect: where the host is starved it takes its time
            self._timer = asyncio.get_running_loop().call_later(PATIENCE_S, self._nobody_came)
            return
        log.info("no suspect waits: this cell ends")
        self._leave()
