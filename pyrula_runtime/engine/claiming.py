"""The claim loop: fills free slots when there may be work, and sleeps when there is none.

It subscribes first and looks afterwards, so nothing that becomes claimable is missed. Once turns run, each of them
claims its own successor in its last commit (see lane); this loop only starts what comes after idleness, an outage, or
into slots that came free otherwise. A claim under way is never cancelled: its runs would be held by nobody.

While the lane is stuck nothing is claimed (see handback), and the lane itself says when it has come round: asking
again and again would keep an idle worker busy. A lane that could not begin what it was given gets one run the next
time, then two, then four: where every run blocks for a while, claims would only go to and fro.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.engine.handback import Handback
from pyrula_runtime.engine.lane_setup import LaneSetup
from pyrula_runtime.engine.posting import post
from pyrula_runtime.stores.protocol import Claim


class Taker(Protocol):
    """Who begins turns."""

    @property
    def draining(self) -> bool:
        """Whether no turn begins any more."""

    def take(self, claims: Sequence[Claim]) -> None:
        """Start a turn for each claim soon; their slots are taken already."""

    def when_round(self, callback: Callable[[], None]) -> None:
        """Call this on the lane's thread as soon as the lane has come round."""


class Claiming:
    """The round that claims; `look` is its nudge.

    `doubt` is told when nobody knows what a claim has taken, `full` when no slot is free.
    """

    def __init__(
        self,
        setup: LaneSetup,
        taker: Taker,
        handback: Handback,
        *,
        look: Callable[[], None],
        doubt: Callable[[], None],
        full: Callable[[], None] = lambda: None,
    ) -> None:
        self.paused = False  # a suspect is to run alone
        self._setup = setup
        self._taker = taker
        self._handback = handback
        self._look = look
        self._doubt = doubt
        self._full = full
        self._loop = asyncio.get_running_loop()
        self._hungry = False
        self._refused = handback.refused
        self._at_once = setup.slots.capacity
        self._waits_for_lane = False

    def slot_came_free(self) -> None:
        """A slot came free that no claim took over: look again if work was left behind."""
        if self._hungry:
            self._look()

    async def act(self) -> None:
        """Claim until the queue is empty or no slot is free."""
        while not self._taker.draining and not self.paused:
            if self._handback.is_stuck:
                self._look_when_round()
                return
            if self._refused != self._handback.refused:
                self._refused, self._at_once = self._handback.refused, 1
            self._hungry = True  # before looking at the slots: one that comes free from here on makes us look again
            free = self._setup.slots.take_all()
            if free == 0:
                self._full()
                return
            asked = min(free, self._at_once)
            taken = await self._claim(free, asked)
            self._hungry = taken == asked
            if taken < asked:
                return
            if asked < free:
                self._at_once *= 2
                self._look_when_round()
                return

    async def _claim(self, free: int, asked: int) -> int:
        """Claim so many with so many slots in hand, and give back those that are not needed; how many came."""
        taken = 0
        try:
            claims = await self._setup.store.claim(self._setup.claim_request(asked))
            taken = len(claims)
        except StoreUnavailable:
            self._doubt()
            raise
        finally:
            self._setup.slots.give(free - taken)
        if claims:
            self._taker.take(claims)
            self._handback.watch()
        return taken

    def _look_when_round(self) -> None:
        if not self._waits_for_lane:
            self._waits_for_lane = True
            self._taker.when_round(lambda: post(self._loop, self._came_round))

    def _came_round(self) -> None:
        self._waits_for_lane = False
        self._look()
