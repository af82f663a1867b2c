"""A background loop that dies ends its worker: probes say so, turns may finish, the exit code asks for a new worker."""

from __future__ import annotations

import signal

import pytest

from pyrula.workflows import RunStatus
from tests.faults.plan import Point
from tests.faults.world import BRISK, World

# the loop that dies, and which call of which verb its bug is in
WHILE_RUNNING = {
    "claim": ("claim", 2),
    "renewal": ("renew", 1),
    "orphan scan": ("reclaim_lapsed", 2),
    "strays": ("holdings", 2),
}
AT_ONCE = {"claim": "claim", "beat": "beat", "purge": "purge", "orphan scan": "reclaim_lapsed"}


@pytest.mark.parametrize("loop", WHILE_RUNNING)
async def test_a_dead_loop_ends_the_worker_when_its_turns_have_finished(world: World, loop: str) -> None:
    verb, nth = WHILE_RUNNING[loop]
    gate = await world.gate()
    run = await world.submit("gated", gate=str(gate.path))
    bug = Point(verb=verb, nth=nth, phase="before", deed="break")
    options = BRISK | {"orphan_scan_interval": 0.1, "timer_poll_interval_s": 0.1}
    worker = await world.start(bug, options=options, probes=True)
    visit = await gate.visit()
    await worker.told("broken")
    assert await worker.probe("/livez") == (503, {"status": "loop_failed", "loop": loop})
    status, told = await worker.probe("/readyz")
    assert (status, told["status"]) == (503, "loop_failed")
    visit.let_in()  # the turn may finish within the grace
    assert await worker.ended() == 1
    assert (await world.read(run)).status is RunStatus.completed


@pytest.mark.parametrize("loop", AT_ONCE)
async def test_a_loop_that_dies_at_once_ends_the_worker_and_the_next_one_goes_on(world: World, loop: str) -> None:
    run = await world.submit("ten")
    bug = Point(verb=AT_ONCE[loop], nth=1, phase="before", deed="break")
    assert await (await world.start(bug)).ended() == 1
    await world.start()
    assert (await world.ended(run)).status is RunStatus.completed
    assert max(world.marks(run).values()) == 1


async def test_a_lane_that_user_code_stops_goes_on(world: World) -> None:
    run = await world.submit("stopping")
    worker = await world.start()
    assert (await world.ended(run)).status is RunStatus.completed
    assert set(world.marks(run).values()) == {1}
    worker.send(signal.SIGTERM)
    assert await worker.ended() == 0


async def test_a_bug_in_the_lane_ends_the_worker_and_the_run_goes_on_with_the_next_one(world: World) -> None:
    run = await world.submit("ten")
    bug = Point(verb="commit", nth=3, phase="before", deed="break")
    worker = await world.start(bug, options={"shutdown_grace": 0.1, "cancel_timeout": 0.3})
    assert await worker.ended() == 1
    await world.start()
    assert (await world.ended(run)).status is RunStatus.completed
    assert max(world.marks(run).values()) <= 2


async def test_probes_tell_of_the_drain(world: World) -> None:
    gate = await world.gate()
    await world.submit("gated", gate=str(gate.path))
    worker = await world.start(probes=True)
    visit = await gate.visit()
    assert (await worker.probe("/readyz"))[0] == 200
    worker.send(signal.SIGTERM)
    await worker.told("draining")
    assert (await worker.probe("/livez"))[0] == 200
    status, told = await worker.probe("/readyz")
    assert (status, told["status"]) == (503, "draining")
    visit.let_in()
    assert await worker.ended() == 0
