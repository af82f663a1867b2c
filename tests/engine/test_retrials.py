"""A worker without a supervisor runs each suspect alone, and its ordinary work between them."""

from __future__ import annotations

import pytest

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.engine.claiming import Claiming
from pyrula_runtime.engine.handback import Handback
from pyrula_runtime.engine.retrials import Retrials
from tests.engine.control import CAPACITY, Desk, token


class Scene:
    """A worker's retrials; the claim loop is real, the lane is the test's."""

    def __init__(self) -> None:
        self.desk = Desk()
        self.looks: list[str] = []
        handback = Handback(self.desk.protocol, self.desk.commons.coming, lambda: 0, lambda: 0, self._seek)
        self.claiming = Claiming(
            self.desk.setup, self.desk.lanes, handback, look=lambda: self.looks.append("look"), doubt=lambda: None
        )
        self.retrials = Retrials(
            self.desk.setup, self.desk.lanes, self.desk.commons, self.claiming, lambda: self.looks.append("look")
        )
        self.lanes, self.store = self.desk.lanes, self.desk.store

    async def _seek(self) -> None: ...

    def is_open(self) -> bool:
        """Whether ordinary work is claimed."""
        return not self.claiming.paused and not self.desk.commons.no_successors.is_set()

    def is_alone(self) -> bool:
        """Whether a suspect runs, and nothing else."""
        return self.retrials.is_alone

    def work(self, run_id: str) -> None:
        """An ordinary run is at work."""
        self.lanes.turns.append(token(run_id))


async def test_an_idle_worker_runs_a_suspect_at_once_and_goes_on() -> None:
    scene = Scene()
    scene.store.line = ["s", "t"]
    await scene.retrials.act()
    assert scene.lanes.taken == ["s"]
    assert scene.is_alone()
    assert not scene.is_open()
    scene.lanes.begin("s")
    await scene.retrials.act()
    assert scene.is_alone()
    scene.lanes.end("s")
    scene.retrials.slot_came_free()
    assert scene.retrials.nudge.is_set()
    await scene.retrials.act()
    assert scene.is_open()
    assert not scene.is_alone()
    assert scene.looks == ["look", "look"]  # as it makes room, and as it goes on
    assert scene.lanes.taken == ["s"]  # the next one has to wait for the next look


async def test_a_busy_worker_leaves_it_to_idle_ones_first_then_finishes_what_it_has() -> None:
    scene = Scene()
    scene.work("a")
    scene.work("b")
    scene.store.line = ["s"]
    await scene.retrials.act()
    assert scene.is_open()
    assert scene.store.requests == []
    await scene.retrials.act()
    assert not scene.is_open()
    assert scene.lanes.taken == []
    assert token("s") in scene.lanes.held()  # so that its lock is renewed
    assert not scene.desk.commons.coming.unseen(0)
    scene.lanes.end("a")
    scene.retrials.slot_came_free()
    await scene.retrials.act()
    assert scene.lanes.taken == []
    scene.lanes.end("b")
    await scene.retrials.act()
    assert scene.lanes.taken == ["s"]


async def test_a_suspect_that_another_worker_took_stops_nobody() -> None:
    scene = Scene()
    scene.work("a")
    scene.store.line = ["s"]
    await scene.retrials.act()
    scene.store.line = []
    await scene.retrials.act()
    scene.store.line = ["t"]
    await scene.retrials.act()
    assert scene.is_open()
    assert scene.store.requests == []


async def test_a_suspect_that_is_not_served_here_stops_nobody() -> None:
    scene = Scene()
    scene.store.suspects = _two  # type: ignore[method-assign]
    await scene.retrials.act()
    assert scene.is_open()
    assert scene.desk.slots.in_use == 0


async def _two() -> int:
    return 2


async def test_a_suspect_that_a_stuck_lane_gives_back_is_waited_for_no_more() -> None:
    scene = Scene()
    scene.work("a")
    scene.store.line = ["s"]
    await scene.retrials.act()
    await scene.retrials.act()
    assert scene.desk.commons.coming.withdraw(token("s"))
    await scene.retrials.act()
    assert scene.is_open()
    assert scene.desk.slots.in_use == 0
    assert token("s") not in scene.lanes.held()


async def test_a_drain_gives_back_what_has_not_begun() -> None:
    scene = Scene()
    scene.work("a")
    scene.store.line = ["s", "t"]
    await scene.retrials.act()
    await scene.retrials.act()
    scene.lanes.draining = True
    scene.retrials.drain()
    assert scene.lanes.taken == ["s"]  # by a lane that begins nothing any more
    scene.lanes.begin("s")
    scene.retrials.drain()
    scene.lanes.end("s")
    await scene.retrials.act()
    await scene.retrials.act()
    assert scene.lanes.taken == ["s"]


async def test_without_a_suspect_nothing_is_asked_for() -> None:
    scene = Scene()
    await scene.retrials.act()
    scene.retrials.slot_came_free()
    assert not scene.retrials.nudge.is_set()
    assert scene.store.requests == []


async def test_an_outage_leaves_everything_as_it_was() -> None:
    scene = Scene()
    scene.store.line = ["s"]
    scene.store.fails = True
    with pytest.raises(StoreUnavailable):
        await scene.retrials.act()
    assert scene.is_open()
    assert scene.desk.slots.in_use == 0


async def test_a_full_worker_has_room_for_a_suspect_all_the_same() -> None:
    scene = Scene()
    assert scene.desk.slots.take_all() == CAPACITY
    scene.store.line = ["s"]
    await scene.retrials.act()
    assert scene.desk.slots.in_use == CAPACITY + 1
