"""Leases of shards: a worker that can begin turns keeps a share of them, and hands it on as soon as it cannot.

A shard is looked at first by whoever leases it, so a worker that cannot begin a turn must not keep one: its neighbours
get its shards at once, not when the lease is over. It cannot while its lane is stuck (a tenth of a second is enough to
know), while it drains, while a suspect is to run alone, and while all its slots have been taken for a while and no turn
ends: a worker that is full and quick takes its next runs with its last commits, out of its own shards, and keeps them.

With one shard there is nothing to share, and nothing is asked.

| state | and then | becomes |
|---|---|---|
| none | it can begin a turn | leasing |
| leasing | the interval is over, or the store says that a share has changed | leasing, asked again |
| leasing | the lane is stuck, the slots were full for long, it drains, or a suspect needs it | none, told at once |
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from pyrula_runtime.engine.posting import post
from pyrula_runtime.engine.slots import Slots
from pyrula_runtime.engine.watchdog import STUCK_S
from pyrula_runtime.stores.protocol import LeaseRequest, Store

# for so long all slots are taken, and no turn ends, before siblings get the shards (seconds)
FULL_S = 1.0
# rounds are made at times that vary by a tenth; one that comes early by that is no reason not to ask
_EARLY = 0.8


class Taker(Protocol):
    """Who begins turns."""

    @property
    def turns_done(self) -> int:
        """How many turns ended by themselves."""

    @property
    def draining(self) -> bool:
        """Whether no turn begins any more."""

    def when_round(self, callback: Callable[[], None]) -> None:
        """Call this on the lane's thread as soon as the lane has come round."""


class Lane(Protocol):
    """Who knows how the lane is."""

    @property
    def is_stuck(self) -> bool:
        """Whether the lane cannot begin anything now."""


class Leasing:
    """The round; all on the control thread, but for `late`. `makes_room`: nothing is claimed, for a suspect's sake."""

    def __init__(
        self,
        store: Store,
        request: LeaseRequest,
        taker: Taker,
        lane: Lane,
        slots: Slots,
        *,
        makes_room: Callable[[], bool] = lambda: False,
    ) -> None:
        self.nudge = asyncio.Event()
        self.mine: tuple[int, ...] = ()
        self._store = store
        self._request = request
        self._taker = taker
        self._lane = lane
        self._slots = slots
        self._makes_room = makes_room
        self._loop = asyncio.get_running_loop()
        self._leases = self._told = self._is_full = self._watches = self._waits_for_lane = False
        self._asked_s = 0.0

    def hear(self) -> None:
        """The store says that a share has changed."""
        self._told = True
        self.nudge.set()

    def late(self) -> None:
        """The lane does not answer its watchdog; any thread."""
        post(self._loop, self._look)

    def _look(self) -> None:
        self.nudge.set()
        self._loop.call_later(STUCK_S, self.nudge.set)  # it may have been stuck for a moment less than it takes

    def full(self) -> None:
        """No slot is free."""
        if not self._watches and self._store.shards > 1:
            self._watches = True
            self._loop.call_later(FULL_S, self._look_at_slots, self._taker.turns_done)

    def _look_at_slots(self, done: int) -> None:
        self._watches = False
        if self._slots.in_use < self._slots.capacity:
            return
        if self._taker.turns_done == done:
            self._is_full = True
            self.nudge.set()
        else:
            self.full()

    def slot_came_free(self) -> None:
        """There is a slot again."""
        if self._is_full:
            self._is_full = False
            self.nudge.set()

    def _can_begin(self) -> bool:
        return not (self._taker.draining or self._is_full or self._lane.is_stuck or self._makes_room())

    async def act(self, interval_s: float) -> None:
        """Keep a share, or hand it on."""
        if self._store.shards == 1:
            return
        if not self._can_begin():
            await self._give_up()
            return
        told, self._told = self._told, False
        if told or not self._leases or self._loop.time() - self._asked_s >= interval_s * _EARLY:
            self._asked_s = self._loop.time()
            self.mine = (await self._store.lease(self._request)).mine
            self._leases = True

    async def _give_up(self) -> None:
        if self._lane.is_stuck and not self._waits_for_lane:
            self._waits_for_lane = True
            self._taker.when_round(lambda: post(self._loop, self._came_round))
        if self._leases:
            await self._store.give_up_leases(self._request.incarnation)
            self._leases, self.mine = False, ()

    def _came_round(self) -> None:
        self._waits_for_lane = False
        self.nudge.set()
