"""The claim loop: fills free slots when there may be work, and sleeps when there is none.

It subscribes first and looks afterwards, so nothing that becomes claimable is missed. Once turns run, each of them
claims its own successor in its last commit (see lane); this loop only starts what comes after idleness, an outage, or
into slots that came free otherwise. A claim under way is never cancelled: its runs would be held by nobody.
"""

from __future__ import annotations

from collections.abc import Callable

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.engine.lane import Lane
from pyrula_runtime.engine.lane_setup import LaneSetup


class Claiming:
    """The round that claims; `look` is its nudge, `doubt` is told when nobody knows what a claim has taken."""

    def __init__(self, setup: LaneSetup, lane: Lane, look: Callable[[], None], doubt: Callable[[], None]) -> None:
        self._setup = setup
        self._lane = lane
        self._look = look
        self._doubt = doubt
        self._hungry = False

    def slot_came_free(self) -> None:
        """A slot came free that no claim took over: look again if work was left behind."""
        if self._hungry:
            self._look()

    async def act(self) -> None:
        """Claim until the queue is empty or no slot is free."""
        while not self._lane.draining:
            self._hungry = True  # before looking at the slots: one that comes free from here on makes us look again
            free = self._setup.slots.take_all()
            if free == 0:
                return
            taken = 0
            try:
                claims = await self._setup.store.claim(self._setup.claim_request(free))
                taken = len(claims)
            except StoreUnavailable:
                self._doubt()
                raise
            finally:
                self._setup.slots.give(free - taken)
            self._hungry = taken == free
            if claims:
                self._lane.take(claims)
            if taken < free:
                return
