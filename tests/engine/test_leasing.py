"""A worker leases shards while it can begin turns, and hands them on as soon as it cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from pyrula_runtime.engine import leasing
from pyrula_runtime.engine.leasing import Leasing
from pyrula_runtime.engine.slots import Slots
from pyrula_runtime.stores.protocol import Leased, LeaseRequest, Store
from tests.engine.lanes import LIMIT_S

ASKED = LeaseRequest(incarnation="w", serves=(), ttl_ms=30_000)


class Shards:
    """A store as far as leases go."""

    def __init__(self, shards: int) -> None:
        self.shards = shards
        self.calls: list[str] = []
        self.called = asyncio.Event()

    async def lease(self, request: LeaseRequest) -> Leased:
        self._note("lease")
        return Leased(mine=(0, 2), shards=self.shards, workers=2)

    async def give_up_leases(self, incarnation: str) -> None:
        self._note(f"{incarnation} gives up")

    def _note(self, call: str) -> None:
        self.calls.append(call)
        self.called.set()


class Scene:
    """A worker's lane and turns, played by the test, and the round, made whenever it is nudged."""

    def __init__(self, shards: int = 4) -> None:
        self.store = Shards(shards)
        self.draining = self.is_stuck = self.makes_room = False
        self.turns_done = 0
        self.slots = Slots(2)
        self.rounds: list[Callable[[], None]] = []
        self.leasing = Leasing(
            cast(Store, self.store), ASKED, self, self, self.slots, makes_room=lambda: self.makes_room
        )

    def when_round(self, callback: Callable[[], None]) -> None:
        self.rounds.append(callback)

    async def act(self) -> list[str]:
        """Make the round; what it has asked of the store."""
        self.leasing.nudge.clear()
        self.store.calls.clear()
        await self.leasing.act(10)
        return self.store.calls

    async def nudged(self) -> list[str]:
        """Make the round when it is nudged."""
        await asyncio.wait_for(self.leasing.nudge.wait(), LIMIT_S)
        return await self.act()


async def test_a_store_of_one_shard_is_asked_nothing() -> None:
    scene = Scene(shards=1)
    assert await scene.act() == []
    scene.is_stuck = True
    assert await scene.act() == []


async def test_a_share_is_asked_for_at_once_then_by_the_interval_or_when_the_store_says_so() -> None:
    scene = Scene()
    assert await scene.act() == ["lease"]
    assert scene.leasing.mine == (0, 2)
    assert await scene.act() == []
    scene.leasing.hear()
    assert await scene.act() == ["lease"]
    await scene.leasing.act(0)
    assert scene.store.calls == ["lease", "lease"]


async def test_a_stuck_lane_hands_on_and_asks_again_once_it_has_come_round() -> None:
    scene = Scene()
    await scene.act()
    scene.is_stuck = True
    scene.leasing.late()
    assert await scene.nudged() == ["w gives up"]
    assert scene.leasing.mine == ()
    assert await scene.act() == []
    scene.is_stuck = False
    (came_round,) = scene.rounds
    scene.leasing.nudge.clear()
    came_round()
    assert await scene.nudged() == ["lease"]


async def test_who_drains_hands_on() -> None:
    scene = Scene()
    await scene.act()
    scene.draining = True
    assert await scene.act() == ["w gives up"]


async def test_who_makes_room_for_a_suspect_hands_on_until_it_claims_again() -> None:
    scene = Scene()
    await scene.act()
    scene.makes_room = True
    assert await scene.act() == ["w gives up"]
    scene.makes_room = False
    assert await scene.act() == ["lease"]


async def test_slots_that_stay_full_while_no_turn_ends_hand_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leasing, "FULL_S", 0.001)
    scene = Scene()
    await scene.act()
    scene.slots.take_all()
    scene.leasing.full()
    assert await scene.nudged() == ["w gives up"]
    scene.slots.give(1)
    scene.leasing.slot_came_free()
    assert await scene.nudged() == ["lease"]


async def test_a_full_worker_whose_turns_end_keeps_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leasing, "FULL_S", 0.001)
    looked = asyncio.Event()

    class Busy(Scene):
        """Its turns end, and others take their places."""

        @property
        def turns_done(self) -> int:
            self.done += 1
            if self.done > 3:
                looked.set()
            return self.done

        @turns_done.setter
        def turns_done(self, value: int) -> None:
            self.done = value

    busy = Busy()
    await busy.act()
    busy.slots.take_all()
    busy.leasing.full()
    await asyncio.wait_for(looked.wait(), LIMIT_S)
    assert not busy.leasing.nudge.is_set()
