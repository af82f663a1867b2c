"""Work goes on without help: a hint that is lost, a lane that is blocked, a start that is broken off stop nobody."""

from __future__ import annotations

import signal
import time
from typing import Any

from pyrula.workflows import RunStatus
from pyrula_runtime.stores.protocol import CLEAN
from tests.faults.plan import Point
from tests.faults.world import BRISK, World

EVERY_LOOK = Point(verb="claim", nth=0, phase="answered", deed="tell")
EVERY_RENEWAL = Point(verb="renew", nth=0, phase="answered", deed="tell")
EVERY_SCAN = Point(verb="reclaim_lapsed", nth=0, phase="answered", deed="tell")
LOCK_TTL_S = 2.0
EAGER: dict[str, Any] = BRISK | {"lock_ttl": LOCK_TTL_S, "orphan_scan_interval": 0.1}


async def test_work_whose_wake_is_lost_is_found_by_the_next_look(world: World) -> None:
    worker = await world.start(EVERY_LOOK, options={"timer_poll_interval_s": 0.2}, deaf_to=["ready"])
    await worker.crossed("claim", 1)  # there was nothing
    assert (await world.ended(await world.submit("ten"))).status is RunStatus.completed
    assert await worker.drain() == 0


async def test_a_blocked_lane_costs_its_neighbours_no_lock(world: World) -> None:
    gate = await world.gate()
    neighbours = [await world.submit("gated", gate=str(gate.path)) for _ in range(2)]
    # so late that it is the locks that are tried, and not what is handed back
    worker = await world.start(EVERY_RENEWAL, options=EAGER | {"evacuate_after": 2.9 * LOCK_TTL_S})
    visits = [await gate.visit() for _ in neighbours]
    blocking = await world.submit("gated", gate=str(gate.path), how="visit_with_the_lane")
    block = await gate.visit()
    other = await world.start(EVERY_SCAN, options=EAGER)
    began, scans = time.monotonic(), 0
    while time.monotonic() - began < 1.5 * LOCK_TTL_S:
        scans += 1
        await other.crossed("reclaim_lapsed", scans)
    block.let_in()
    for visit in visits:
        visit.let_in()
    for run in (*neighbours, blocking):
        record = await world.ended(run)
        assert (record.status, record.fence, record.dossier) == (RunStatus.completed, 1, CLEAN)
        assert set(world.marks(run).values()) == {1}
    assert gate.is_quiet
    assert "blocked for" in world.log(worker)
    assert blocking in world.log(worker)


async def test_a_start_that_is_broken_off_leaves_nothing_in_the_way(world: World) -> None:
    run = await world.submit("ten")
    early = await world.start(Point(verb="open", nth=1, phase="sent", deed="tell"))
    await early.told("begun")
    early.send(signal.SIGTERM)
    assert await early.ended() == 0
    await world.start()
    assert (await world.ended(run)).status is RunStatus.completed


async def test_a_worker_that_starts_during_an_outage_buries_the_dead_when_it_is_over(world: World) -> None:
    gate = await world.gate()
    run = await world.submit("gated", gate=str(gate.path))
    first = await world.start()
    await gate.visit()
    await first.kill()
    no_burial = [Point(verb="holdings", nth=nth, phase="before", deed="raise") for nth in (1, 2)]
    second = await world.start(*no_burial)
    (await gate.visit()).let_in()
    assert (await world.ended(run)).status is RunStatus.completed
    assert await second.drain() == 0
