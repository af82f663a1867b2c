"""How a run goes when nothing happens to it: what every disturbed one must come to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from pyrula_runtime.core.status import RunStatus
from tests.faults.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Undisturbed:
    """Status, result and journal of a run, and how often each of its operations left its mark."""

    outcome: tuple[RunStatus, bytes | None, list[dict[str, Any]]]
    marks: Counter[str]


async def undisturbed(world: World, workflow: str) -> Undisturbed:
    """Let a worker execute one run in peace."""
    worker = await world.start()
    run = await world.submit(workflow)
    record = await world.ended(run)
    assert record.status is RunStatus.completed
    assert await worker.drain() == 0
    return Undisturbed(outcome=(record.status, record.result, await world.journal(run)), marks=world.marks(run))
