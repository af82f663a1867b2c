"""A client is killed at every call to the store, or its call goes astray; doing it again does it once."""

from __future__ import annotations

from itertools import count

import pytest

from pyrula.workflows import RunStatus
from pyrula_runtime.stores.protocol import RunQuery
from tests.faults.plan import Point
from tests.faults.world import NewWorld, World

FAULTS = [("kill", "before"), ("kill", "sent"), ("kill", "answered"), ("lose", "sent"), ("twice", "before")]


async def submit(world: World, *faults: Point) -> tuple[int, str | None]:
    """Submit in a process of its own; its exit code, and the run it was told."""
    given = {"effects": str(world.effects)}
    client = await world.start(*faults, role="submit", workflow="ten", input=given, key="order 7")
    code = await client.ended()
    told = [event["run"] for event in client.events if event["event"] == "submitted"]
    return code, told[0] if told else None


async def submit_is_survived(world: World, fault: Point) -> bool:
    """Submit with the fault, then again; False if the fault was never reached."""
    code, told = await submit(world, fault)
    again, run = await submit(world)
    assert again == 0
    assert run is not None
    assert told in (None, run)
    worker = await world.start()
    assert (await world.ended(run)).status is RunStatus.completed
    assert await worker.drain() == 0
    assert [record.run_id for record in await world.store.find(RunQuery())] == [run]
    assert set(world.marks(run).values()) == {1}
    return code != 0


@pytest.mark.parametrize(("deed", "phase"), FAULTS)
async def test_a_submit_that_is_repeated_makes_one_run(new_world: NewWorld, deed: str, phase: str) -> None:
    reached = []
    for nth in range(1, 6):  # open, submit, close, and two more than there are
        async with new_world() as world:
            reached.append(await submit_is_survived(world, Point(verb="", nth=nth, phase=phase, deed=deed)))
    assert any(reached) or deed == "twice"
    assert not reached[-1]


async def cancel_is_survived(world: World, fault: Point) -> bool:
    """Cancel a running run with the fault, then again; False if the fault was never reached."""
    gate = await world.gate()
    worker = await world.start()
    run = await world.submit("gated", gate=str(gate.path))
    visit = await gate.visit()
    first = await world.start(fault, role="cancel", run=run)
    code = await first.ended()
    second = await world.start(role="cancel", run=run)
    assert await second.ended() == 0
    assert (await world.ended(run)).status is RunStatus.cancelled
    await visit.given_up()
    journal = await world.journal(run)
    assert [entry["k"] for entry in journal] == ["v", "c", "w"]
    assert await worker.drain() == 0
    return code != 0


@pytest.mark.parametrize(("deed", "phase"), FAULTS)
async def test_a_cancel_that_is_repeated_cancels_once(new_world: NewWorld, deed: str, phase: str) -> None:
    for nth in count(1):
        async with new_world() as world:
            if not await cancel_is_survived(world, Point(verb="", nth=nth, phase=phase, deed=deed)):
                break
