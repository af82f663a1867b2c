"""Every call of a worker to its store is lost on its way, or on its way back, or arrives twice; nothing comes of it.

The worker goes on by itself: no other one is there to help, and no lock lapses for it (nobody scans for lapsed ones
within the time of a test). Journal and effects are those of an undisturbed run, because nobody was killed.
"""

from __future__ import annotations

from itertools import count

import pytest

from pyrula_runtime.core.status import RunStatus
from tests.faults.plan import Point
from tests.faults.undisturbed import Undisturbed, outcome_of, undisturbed
from tests.faults.world import BRISK, NewWorld, World

# the call is lost, its answer is lost, a transport sends it twice
DEEDS = {"raise": "before", "lose": "sent", "twice": "before"}
VERBS = ("claim", "commit", "holdings", "reclaim_lapsed", "beat", "ping", "purge", "retire", "close")
WORKFLOWS = ("side by side", "plain", "lucky", "overdue", "failing")
SWEEPS = [("ten", verb, deed) for verb in VERBS for deed in DEEDS] + [
    (workflow, verb, deed) for workflow in WORKFLOWS for verb in ("claim", "commit") for deed in DEEDS
]


async def is_survived(world: World, workflow: str, fault: Point, expected: Undisturbed) -> bool:
    """Whether the fault came; a run must come to its end in spite of it."""
    run = await world.submit(workflow)
    worker = await world.start(fault, options=BRISK)
    assert await outcome_of(world, run) == expected.outcome
    assert await worker.drain() == 0
    assert world.marks(run) == expected.marks
    assert world.problems() == []
    return any(event["event"] == "faulted" for event in worker.events)


@pytest.mark.parametrize(("workflow", "verb", "deed"), SWEEPS)
async def test_a_call_that_goes_astray_changes_nothing(
    new_world: NewWorld, workflow: str, verb: str, deed: str
) -> None:
    async with new_world() as world:
        expected = await undisturbed(world, workflow)
    for nth in count(1):
        async with new_world() as world:
            fault = Point(verb=verb, nth=nth, phase=DEEDS[deed], deed=deed)
            if not await is_survived(world, workflow, fault, expected):
                break
    assert nth > 1


async def test_a_successor_whose_claim_nobody_heard_of_is_found(world: World) -> None:
    first, second = await world.submit("ten"), await world.submit("ten")
    lost = Point(verb="commit", nth=10, phase="sent", deed="lose")  # it ends the first run and claims the second
    worker = await world.start(lost, options=BRISK | {"max_concurrent_turns": 1})
    assert (await world.ended(first)).status is RunStatus.completed
    assert (await world.ended(second)).status is RunStatus.completed
    assert await worker.drain() == 0
    assert set(world.marks(second).values()) == {1}
