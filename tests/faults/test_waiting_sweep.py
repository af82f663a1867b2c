"""A worker is killed at every call to the store that has to do with waiting, in every phase of it; nothing is amiss.

Whatever the moment: each child begins once, each message is taken once, each of the runs comes to the end of an
undisturbed one with its journal, and a step whose outcome was journaled before the kill is not made again.
"""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import Any

import pytest

from tests.faults.plan import Point
from tests.faults.world import NewWorld, World

Tree = list[tuple[str, str, list[dict[str, Any]]]]
PHASES = ("before", "sent", "answered")
VERBS = ("claim", "commit", "wake_due")
# the parent's first turn, its sleep, what follows it and each of the two children's ends; and the children's own
LEAST = {"claim": 4, "commit": 7, "wake_due": 2}
RESULT = b'[1,2,"no",3]'
MARKS = Counter({"leave_mark#1": 1, "answer#1": 1, "refuse#1": 1, "leave_mark#2": 1})


def marks(world: World) -> Counter[str]:
    """How often each operation of all runs has left its mark."""
    lines = world.effects.read_text().splitlines() if world.effects.exists() else []
    return Counter(line.partition(":")[2] for line in lines)


async def tree_of(world: World, run: str) -> Tree:
    """All runs with their statuses and journals, the parent first, without what differs from world to world."""
    runs = sorted(await world.runs(), key=lambda each: (each.run_id != run, each.workflow))
    return [
        (each.workflow, each.status, [{k: v for k, v in entry.items() if k not in "ce"} for entry in journal])
        for each in runs
        for journal in [await world.journal(each.run_id)]
    ]


async def is_survived(world: World, flow: str, kill: Point, expected: Tree) -> bool:
    """Kill a worker at this point, and let another one finish; False if the point was never reached."""
    run = await world.submit(flow)
    if await world.lived_through(run, await world.start(kill)):
        return False
    second = await world.start()
    record = await world.ended(run)
    assert await second.drain() == 0
    assert record.result == RESULT
    assert await tree_of(world, run) == expected
    assert set(marks(world)) == set(MARKS)
    assert sum((marks(world) - MARKS).values()) <= 1
    assert world.problems() == []
    return True


SWEEPS = [("waiting", verb, phase) for verb in VERBS for phase in PHASES] + [("plain waiting", "commit", "sent")]


@pytest.mark.parametrize(("flow", "verb", "phase"), SWEEPS)
async def test_a_kill_at_any_call_costs_a_waiting_run_nothing(
    new_world: NewWorld, flow: str, verb: str, phase: str
) -> None:
    async with new_world() as world:
        worker = await world.start()
        run = await world.submit(flow)
        assert (await world.ended(run)).result == RESULT
        assert await worker.drain() == 0
        assert marks(world) == MARKS
        expected = await tree_of(world, run)
    for nth in count(1):
        async with new_world() as world:
            if not await is_survived(world, flow, Point(verb=verb, nth=nth, phase=phase, deed="kill"), expected):
                break
    assert nth > LEAST[verb]
