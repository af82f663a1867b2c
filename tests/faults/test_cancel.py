"""A cancel is durable, seen soon however it is told, and final: what comes later of a cancelled run is dropped."""

from __future__ import annotations

import time
from itertools import count

import orjson
import pytest

from pyrula.workflows import RunStatus
from tests.faults.history import whole_journal
from tests.faults.plan import Point
from tests.faults.world import BRISK, NewWorld, World

pytestmark = pytest.mark.parametrize("isolation", ["lane", "turn"], indirect=True)

CANCELLED = ["v", "c", "w"]  # the first step's value, the cancel, the step that the body gave up


async def cancel_seen_after_s(world: World, run: str) -> float:
    """Cancel a running run; how long it took until the cancel entered its body, by the journal's own time."""
    cancelled_ms = time.time_ns() // 1_000_000
    await world.client.cancel(run)
    assert (await world.ended(run)).status is RunStatus.cancelled
    entries = [orjson.loads(raw) for raw in await whole_journal(world.store, run)]
    (seen_ms,) = (int(entry["at"]) for entry in entries if entry["k"] == "c")
    return (seen_ms - cancelled_ms) / 1000


async def test_a_cancel_is_seen_at_once(world: World) -> None:
    gate = await world.gate()
    run = await world.submit("gated", gate=str(gate.path))
    await world.start()  # its locks live 30 s, so a renewal would not see it for 9 s
    visit = await gate.visit()
    assert await cancel_seen_after_s(world, run) < 2
    await visit.given_up()
    assert [entry["k"] for entry in await world.journal(run)] == CANCELLED


async def test_a_cancel_whose_wake_is_lost_is_seen_within_a_third_of_a_lock(world: World) -> None:
    gate = await world.gate()
    run = await world.submit("gated", gate=str(gate.path))
    await world.start(options=BRISK, deaf_to=["attention"])
    await gate.visit()
    # a round's rest is stretched by up to a tenth; the second is for a machine that is busy with other tests
    assert await cancel_seen_after_s(world, run) < BRISK["lock_ttl"] / 3 * 1.1 + 1


@pytest.mark.parametrize("how", ["visit_in_thread", "visit_stubbornly"])
async def test_a_step_that_finishes_after_the_cancel_is_dropped_and_never_done_again(world: World, how: str) -> None:
    gate = await world.gate()
    run = await world.submit("gated", gate=str(gate.path), how=how)
    worker = await world.start()
    visit = await gate.visit()
    await world.client.cancel(run)
    assert (await world.ended(run)).status is RunStatus.cancelled
    before = await world.read(run)
    visit.let_in()
    await visit.given_up()
    other = await world.submit("ten")  # the worker goes on, and the turn that is over disturbs nobody
    assert (await world.ended(other)).status is RunStatus.completed
    assert await worker.drain() == 0
    second = await world.start()
    assert (await world.ended(await world.submit("ten"))).status is RunStatus.completed
    assert await second.drain() == 0
    assert await world.read(run) == before
    assert [entry["k"] for entry in await world.journal(run)] == CANCELLED
    assert gate.is_quiet
    assert set(world.marks(run).values()) == {1}


async def test_a_queued_run_is_cancelled_without_a_worker(world: World) -> None:
    run = await world.submit("ten")
    await world.client.cancel(run)
    assert (await world.read(run)).status is RunStatus.cancelled
    worker = await world.start()
    await world.ended(await world.submit("ten"))
    assert await worker.drain() == 0
    assert world.marks(run) == {}


async def test_a_cancel_while_nobody_runs_the_run_is_kept_for_whoever_does(world: World) -> None:
    gate = await world.gate()
    run = await world.submit("gated", gate=str(gate.path))
    worker = await world.start()
    await gate.visit()
    await worker.kill()
    await world.client.cancel(run)  # it is still held in the dead worker's name
    await world.start()
    assert (await world.ended(run)).status is RunStatus.cancelled
    assert [entry["k"] for entry in await world.journal(run)][:2] == ["v", "c"]


async def compensation_is_finished(world: World, kill: Point) -> bool:
    """Cancel a run and kill its worker at this point while it compensates; False if the point was never reached."""
    gate = await world.gate()
    run = await world.submit("compensating", gate=str(gate.path))
    worker = await world.start(kill)
    await gate.visit()
    await world.client.cancel(run)
    if await world.lived_through(run, worker):
        return False
    journaled = len(await world.journal(run)) == 3
    second = await world.start()
    assert (await world.ended(run)).status is RunStatus.cancelled
    assert await second.drain() == 0
    assert [(entry["k"], entry.get("o")) for entry in await world.journal(run)] == [
        ("c", None),
        ("w", "visit#1"),
        ("v", "leave_mark#1"),
    ]
    assert world.marks(run)["leave_mark#1"] <= (1 if journaled else 2)
    return True


@pytest.mark.parametrize("phase", ["before", "sent", "answered"])
async def test_a_compensation_goes_on_after_a_kill_at_any_commit(new_world: NewWorld, phase: str) -> None:
    for nth in count(1):
        async with new_world() as world:
            if not await compensation_is_finished(world, Point(verb="commit", nth=nth, phase=phase, deed="kill")):
                break
    assert nth > 2
