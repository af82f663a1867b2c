"""How a run goes when nothing happens to it: what every disturbed one must come to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from pyrula_runtime.core.status import RunStatus
from tests.faults.world import World

Outcome = tuple[RunStatus, bytes | None, bytes | None, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Undisturbed:
    """Status, result, error and journal of a run, and how often each of its operations left its mark."""

    outcome: Outcome
    marks: Counter[str]


async def undisturbed(world: World, workflow: str) -> Undisturbed:
    """Let a worker execute one run in peace."""
    worker = await world.start()
    run = await world.submit(workflow)
    outcome = await outcome_of(world, run)
    assert await worker.drain() == 0
    return Undisturbed(outcome=outcome, marks=world.marks(run))


async def outcome_of(world: World, run: str) -> Outcome:
    """What a run comes to, once it has ended."""
    record = await world.ended(run)
    return record.status, record.result, record.error, await world.journal(run)
