"""What a stuck lane cannot begin goes back, and nothing is claimed before it has come round."""

from __future__ import annotations

import asyncio

import pytest

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.cell import CellClaiming
from pyrula_runtime.engine.claiming import Claiming
from pyrula_runtime.engine.handback import Handback
from pyrula_runtime.engine.strays import Strays
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import CLEAN, Claim, ClaimRequest
from tests.engine.control import CAPACITY, Desk
from tests.engine.lanes import LIMIT_S


class Scene:
    """A worker's claiming and handing back, its lane played by the test."""

    def __init__(self) -> None:
        self.desk, self.clock = Desk(), ManualClock()
        self.busy_since_ms = 0
        self.looks: list[str] = []
        desk, mono_ms = self.desk, self.clock.mono_ms
        self.strays = Strays(desk.protocol, desk.lanes, "w", mono_ms, lambda after_s: None)
        self.handback = Handback(
            desk.protocol, desk.commons.coming, lambda: self.busy_since_ms, mono_ms, self.strays.seek_now
        )
        self.claiming = Claiming(
            desk.setup,
            desk.lanes,
            self.handback,
            look=lambda: self.looks.append("look"),
            doubt=lambda: self.looks.append("doubt"),
        )

    def stick(self, for_ms: int = 100) -> None:
        """One piece of code has had the lane for so long."""
        self.busy_since_ms = self.clock.mono_ms() - for_ms

    def is_stuck(self) -> bool:
        """Whether the lane counts as stuck."""
        return self.handback.is_stuck

    async def until_nudged(self) -> None:
        await asyncio.wait_for(self.handback.nudge.wait(), LIMIT_S)
        self.handback.nudge.clear()


async def test_what_has_not_begun_goes_back_uncharged_as_soon_as_the_lane_is_known_to_be_stuck() -> None:
    scene = Scene()
    scene.desk.store.queue = ["a", "b", "c"]
    await scene.claiming.act()
    scene.desk.lanes.begin("a")
    scene.stick()
    await scene.until_nudged()
    await scene.handback.act()
    assert scene.desk.store.given_back == ["b", "c"]
    assert scene.desk.statuses() == {(RunStatus.queued, True, False)}
    assert not scene.desk.commons.coming.begin(scene.desk.store.released[0].token)


async def test_a_lane_that_goes_from_one_piece_to_the_next_is_looked_at_again() -> None:
    scene = Scene()
    scene.desk.store.queue = ["a"]
    await scene.claiming.act()
    scene.stick(50)
    scene.handback._look(scene.handback._loop.time())
    assert not scene.handback.nudge.is_set()
    scene.stick()
    await scene.until_nudged()


async def test_nobody_looks_once_everything_has_begun() -> None:
    scene = Scene()
    scene.desk.store.queue = ["a"]
    await scene.claiming.act()
    scene.desk.lanes.begin("a")
    scene.stick()
    scene.handback._look(scene.handback._loop.time())
    assert not scene.handback.nudge.is_set()
    assert not scene.handback._looks


async def test_a_look_that_comes_late_accuses_nobody() -> None:
    scene = Scene()
    scene.desk.store.queue = ["a"]
    await scene.claiming.act()
    scene.stick()
    scene.handback._looks = False
    scene.handback._look(scene.handback._loop.time() - 1)
    assert not scene.handback.nudge.is_set()
    await scene.until_nudged()


async def test_a_lane_that_looks_at_nothing_is_stuck_whoever_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    scene.desk.store.queue = ["a"]
    await scene.claiming.act()
    assert not scene.is_stuck()
    monkeypatch.setattr("pyrula_runtime.engine.handback._UNSEEN_S", 0.0)
    assert scene.is_stuck()
    await scene.handback.act()
    assert scene.desk.store.given_back == ["a"]


async def test_a_lane_that_goes_on_keeps_its_claims() -> None:
    scene = Scene()
    scene.desk.store.queue = ["a"]
    await scene.claiming.act()
    await scene.handback.act()
    assert scene.desk.store.given_back == []


async def test_claims_whose_answer_waits_at_the_lane_go_back_when_the_watchdog_says_so() -> None:
    scene = Scene()
    scene.desk.store.held = {"mine": CLEAN}
    scene.stick()
    await scene.handback.act()
    assert scene.desk.store.given_back == []
    scene.handback.late()
    await scene.until_nudged()
    await scene.handback.act()
    assert scene.desk.store.given_back == ["mine"]


async def test_nothing_is_claimed_while_the_lane_is_stuck_and_it_is_asked_once() -> None:
    scene = Scene()
    scene.desk.store.queue = ["a"]
    scene.stick()
    await scene.claiming.act()
    await scene.claiming.act()
    assert scene.desk.store.requests == []
    assert len(scene.desk.lanes.rounds) == 1
    scene.busy_since_ms = 0
    scene.desk.lanes.come_round()
    await asyncio.sleep(0)
    assert scene.looks == ["look"]
    await scene.claiming.act()
    assert scene.desk.lanes.taken == ["a"]


async def test_after_a_refusal_claims_grow_from_one() -> None:
    scene = Scene()
    scene.handback.refused = 3
    scene.desk.store.queue = list("abcdefgh")
    asked = []
    for _ in range(3):
        await scene.claiming.act()
        asked.append([request.limit for request in scene.desk.store.requests])
        scene.desk.lanes.come_round()
        await asyncio.sleep(0)
    assert asked == [[1], [1, 2], [1, 2, 1]]
    assert scene.looks == ["look", "look"]
    assert scene.desk.slots.in_use == CAPACITY


async def test_a_claim_without_an_answer_raises_doubt_and_keeps_no_slot() -> None:
    scene = Scene()
    scene.desk.store.fails = True
    with pytest.raises(StoreUnavailable):
        await scene.claiming.act()
    assert scene.looks == ["doubt"]
    assert scene.desk.slots.in_use == 0


async def test_nothing_is_claimed_beside_a_suspect_or_in_a_drain() -> None:
    scene = Scene()
    scene.desk.store.queue = ["a"]
    scene.claiming.paused = True
    await scene.claiming.act()
    scene.claiming.paused = False
    scene.desk.lanes.draining = True
    await scene.claiming.act()
    assert scene.desk.lanes.taken == []


class Cell:
    """A cell's claiming."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.said: list[str] = []
        self.claiming = CellClaiming(
            self.scene.desk.setup,
            self.scene.desk.lanes,
            self.scene.handback,
            doubt=lambda: self.said.append("doubt"),
            leave=lambda: self.said.append("leave"),
        )


async def test_a_cell_takes_one_suspect_and_nothing_else_and_ends_with_it() -> None:
    cell = Cell()
    desk = cell.scene.desk
    desk.store.queue, desk.store.line = ["a"], ["s", "t"]
    await cell.claiming.act()
    await cell.claiming.act()
    assert desk.lanes.taken == ["s"]
    assert [(request.limit, request.suspects) for request in desk.store.requests] == [(1, True)]
    assert cell.said == []
    assert cell.claiming._timer.cancelled()
    cell.claiming.slot_came_free()
    assert cell.said == ["leave"]


async def test_a_cell_without_a_suspect_ends_after_a_while() -> None:
    cell = Cell()
    await cell.claiming.act()
    cell.claiming.slot_came_free()
    assert cell.said == []
    assert cell.scene.desk.slots.in_use == 0
    cell.claiming._nobody_came()
    assert cell.said == ["leave"]
    cell.claiming._timer.cancel()


async def test_a_cell_does_not_leave_while_its_suspect_may_be_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell()
    store, asked, may_answer = cell.scene.desk.store, asyncio.Event(), asyncio.Event()
    store.line, claim = ["s"], store.claim

    async def slow_claim(request: ClaimRequest) -> tuple[Claim, ...]:
        asked.set()
        await may_answer.wait()
        return await claim(request)

    monkeypatch.setattr(store, "claim", slow_claim)
    asking = asyncio.create_task(cell.claiming.act())
    await asked.wait()
    cell.claiming._timer.cancel()
    cell.claiming._nobody_came()
    assert cell.said == []
    may_answer.set()
    await asking
    assert cell.scene.desk.lanes.taken == ["s"]
    assert cell.claiming._timer.cancelled()


async def test_a_cell_that_hears_no_answer_is_in_doubt() -> None:
    cell = Cell()
    cell.scene.desk.store.fails = True
    with pytest.raises(StoreUnavailable):
        await cell.claiming.act()
    assert cell.said == ["doubt"]
    cell.claiming._timer.cancel()
