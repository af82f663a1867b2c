"""A worker is killed, and its successor too; a worker is killed while it drains. Two kills cost what two kills may."""

from __future__ import annotations

import random
import signal
from itertools import count

import pytest

from pyrula.workflows import RunStatus
from tests.faults.plan import Point
from tests.faults.undisturbed import outcome_of, undisturbed
from tests.faults.world import NewWorld, World

# a plain step is waited for as long; the store's last calls have half of it
PATIENCE_S = {"gated": 10.0, "plain gated": 1.0}
PHASES = ("before", "sent", "answered")
CALLS = [("claim", 1), ("open", 1), ("holdings", 1)] + [("commit", nth) for nth in range(1, 11)]


def some_kill(chance: random.Random) -> Point:
    verb, nth = chance.choice(CALLS)
    return Point(verb=verb, nth=nth, phase=chance.choice(PHASES), deed="kill")


@pytest.mark.parametrize("seed", range(24))
async def test_kills_in_a_row_do_not_add_up_to_more(new_world: NewWorld, seed: int) -> None:
    chance = random.Random(seed)
    workflow = chance.choice(["ten", "side by side", "plain", "lucky", "overdue", "failing"])
    async with new_world() as world:
        expected = await undisturbed(world, workflow)
    async with new_world() as world:
        run = await world.submit(workflow)
        journaled: list[str] = []
        for _ in range(3):
            worker = await world.start(some_kill(chance))
            if await world.lived_through(run, worker):
                break
            before, journaled = journaled, [entry["o"] for entry in await world.journal(run) if entry["k"] in "ve"]
            assert journaled[: len(before)] == before
        await world.start()
        assert await outcome_of(world, run) == expected.outcome
        assert max((world.marks(run) - expected.marks).values(), default=0) <= 3
        assert world.problems() == []


async def drain_is_survived(world: World, workflow: str, kill: Point) -> bool:
    """Kill a worker while it drains with a step at the gate; False if it ended its drain without that."""
    gate = await world.gate()
    run = await world.submit(workflow, gate=str(gate.path))
    worker = await world.start(kill, options={"shutdown_grace": 0.0, "cancel_timeout": PATIENCE_S[workflow]})
    await gate.visit()
    code = await worker.drain()
    assert code in (0, -signal.SIGKILL)
    await world.start()
    (await gate.visit()).let_in()
    record = await world.ended(run)
    assert record.status is RunStatus.completed
    assert set(world.marks(run).values()) == {1}
    assert len(await world.journal(run)) == 3
    return code != 0


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(
    ("workflow", "verb"), [("gated", "release"), ("gated", "retire"), ("gated", "close"), ("plain gated", "release")]
)
async def test_a_kill_during_a_drain_costs_nothing(new_world: NewWorld, workflow: str, verb: str, phase: str) -> None:
    for nth in count(1):
        async with new_world() as world:
            kill = Point(verb=verb, nth=nth, phase=phase, deed="kill")
            if not await drain_is_survived(world, workflow, kill):
                break
    assert nth == 2


async def test_the_time_of_a_run_goes_on_while_its_worker_is_dead(world: World) -> None:
    gate = await world.gate()
    run = await world.submit("hurried", gate=str(gate.path))
    worker = await world.start()
    await gate.visit()
    await worker.kill()
    await world.ticked()  # a second passes
    await world.start()
    record = await world.ended(run)
    assert record.status is RunStatus.failed
    assert b"RunTimeout" in (record.error or b"")
    assert world.marks(run) == {"leave_mark#1": 1}
    assert [entry["k"] for entry in await world.journal(run)] == ["d", "w", "v"]
