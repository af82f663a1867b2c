"""A worker is killed at every call to the store, in every phase of it; a new one takes over and nothing is amiss.

Whatever the moment: the run finishes, its journal is the one of an undisturbed run, a step whose outcome was journaled
before the kill has had its effect once, and any other at most twice. A verb is swept until a worker lives its whole
life, drain included, without reaching the next call of it.
"""

from __future__ import annotations

from itertools import count

import pytest

from tests.faults.keeping import kinds
from tests.faults.plan import Point
from tests.faults.undisturbed import Undisturbed, outcome_of, undisturbed
from tests.faults.world import NewWorld, World

PHASES = ("before", "sent", "answered")
# what a worker asks of its store from its start to the end of its drain
VERBS = (
    *("open", "claim", "commit", "holdings", "suspects", "reclaim_lapsed"),
    *("beat", "ping", "purge", "retire", "close"),
)
# of what a worker asks beside its turns: reads, or writes that are the same when repeated, so one moment is enough
BESIDE = ("carry", "schedules", "subscribe", "wake_due")
# outcomes that come while a commit is under way go together with the next, as those of attempts do on a busy host
LEAST_COMMITS = {"ten": 10, "side by side": 2, "plain": 4, "lucky": 3, "overdue": 3, "failing": 2}

SWEEPS = [("ten", verb, phase) for verb in VERBS for phase in PHASES]
SWEEPS += [("ten", verb, "sent") for verb in BESIDE]
SWEEPS += [
    (workflow, verb, phase)
    for workflow in LEAST_COMMITS
    if workflow != "ten"
    for verb in ("claim", "commit")
    for phase in PHASES
]


# the calls of a turn that is isolated are made on another loop
SWEPT_ISOLATED = [("ten", "claim", "answered"), ("ten", "commit", "sent"), ("side by side", "commit", "answered")]


async def is_survived(world: World, workflow: str, kill: Point, expected: Undisturbed) -> bool:
    """Kill a worker at this point, and let another one finish; False if the point was never reached."""
    run = await world.submit(workflow)
    if await world.lived_through(run, await world.start(kill)):
        return False
    journaled = [entry["o"] for entry in await world.journal(run) if entry["k"] == "v"]
    second = await world.start()
    outcome = await outcome_of(world, run)
    assert await second.drain() == 0
    marks = world.marks(run)
    assert outcome == expected.outcome
    assert marks.keys() == expected.marks.keys()
    assert all(marks[operation] == expected.marks[operation] for operation in journaled)
    assert max((marks - expected.marks).values(), default=0) <= 1
    assert world.problems() == []
    return True


# what is told apart by the store: who holds what after an answer that nobody heard
SWEPT_ON_SERVERS = [
    ("ten", "claim", "sent"),
    ("ten", "holdings", "before"),
    ("ten", "retire", "sent"),
    ("side by side", "commit", "sent"),
    ("plain", "commit", "answered"),
]


@pytest.mark.parametrize(
    ("isolation", "workflow", "verb", "phase"),
    [("lane", *sweep) for sweep in SWEEPS] + [("turn", *sweep) for sweep in SWEPT_ISOLATED],
    indirect=["isolation"],
)
async def test_a_kill_at_any_call_costs_nothing(new_world: NewWorld, workflow: str, verb: str, phase: str) -> None:
    await sweep(new_world, workflow, verb, phase)


@pytest.mark.parametrize("keeping", kinds("valkey", "cluster"), indirect=True)
@pytest.mark.parametrize(("workflow", "verb", "phase"), SWEPT_ON_SERVERS)
async def test_a_kill_at_any_call_costs_nothing_on_servers(
    new_world: NewWorld, workflow: str, verb: str, phase: str
) -> None:
    await sweep(new_world, workflow, verb, phase)


@pytest.mark.nightly
@pytest.mark.parametrize("keeping", kinds("valkey", "cluster"), indirect=True)
@pytest.mark.parametrize(("workflow", "verb", "phase"), SWEEPS)
async def test_a_whole_sweep_on_servers(new_world: NewWorld, workflow: str, verb: str, phase: str) -> None:
    await sweep(new_world, workflow, verb, phase)


async def sweep(new_world: NewWorld, workflow: str, verb: str, phase: str) -> None:
    """Kill at the first call of a verb, at the second, and so on, until a worker never comes to the next."""
    async with new_world() as world:
        expected = await undisturbed(world, workflow)
    for nth in count(1):
        async with new_world() as world:
            if not await is_survived(world, workflow, Point(verb=verb, nth=nth, phase=phase, deed="kill"), expected):
                break
    least = LEAST_COMMITS[workflow] if verb == "commit" else 1
    assert nth > least, f"{verb} was reached only {nth - 1} times"


async def test_every_verb_is_swept(world: World) -> None:
    worker = await world.start(Point(verb="", nth=0, phase="before", deed="tell"))
    await world.ended(await world.submit("ten"))
    await worker.drain()
    assert {event["verb"] for event in worker.events if event["event"] == "crossed"} == {*VERBS, *BESIDE}
