"""Blaming: one worker's death, and what it means for every run that the worker still holds in the store.

Each run is released once, with its verdict in the same write. The release consumes the fence, so whoever tells it
twice, at once or after a lost answer, charges once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from pyrula_runtime.core.blame import Budget, Cause, Death, Judgement, judged
from pyrula_runtime.engine.judged_runs import record_of, release_of
from pyrula_runtime.options import WorkerOptions
from pyrula_runtime.stores.protocol import Holding, Store

log = logging.getLogger("pyrula.duties")


@dataclass(frozen=True, slots=True, kw_only=True)
class Blamed:
    """What a death meant for one run: it was charged, or marked."""

    run_id: str
    workflow: str
    worker: str
    cause: Cause
    step: str
    line: str
    charged: int
    marked: bool
    suspect: bool
    quarantined: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """The runs that were still held, and those of them that were blamed."""

    run_ids: tuple[str, ...]
    blamed: tuple[Blamed, ...]


def budget_of(options: WorkerOptions) -> Budget:
    """How much is forgiven."""
    return Budget(max_retries=options.poison.max_retries, window_ms=round(options.poison.retry_ttl_s * 1000))


async def free_by(store: Store, deaths: Sequence[tuple[Holding, Death]], budget: Budget) -> Freed:
    """Release all of these, all in one breath, each as the death beside it decides."""
    judgements = [judged(held.token.run_id, record_of(held), death, budget) for held, death in deaths]
    answers = await asyncio.gather(
        *(_release(store, held, what) for (held, _), what in zip(deaths, judgements, strict=True))
    )
    ours = [(*who, what) for who, what, is_ours in zip(deaths, judgements, answers, strict=True) if is_ours]
    blamed = tuple(_blamed(*each) for each in ours if each[2].charged or each[2].marked)
    for each in blamed:
        _tell(each)
    return Freed(run_ids=tuple(held.token.run_id for held, _, _ in ours), blamed=blamed)


async def _release(store: Store, holding: Holding, judgement: Judgement) -> bool:
    return await store.release(await release_of(store, holding, judgement))


def _blamed(holding: Holding, death: Death, judgement: Judgement) -> Blamed:
    record = judgement.record
    evidence = record.charges[-1].evidence if judgement.charged else None
    return Blamed(
        run_id=holding.token.run_id,
        workflow=holding.workflow,
        worker=death.evidence.worker,
        cause=death.cause,
        step=evidence.step if evidence else record.marks[-1].step,
        line=evidence.line if evidence else "",
        charged=judgement.charged,
        marked=judgement.marked,
        suspect=record.is_suspect,
        quarantined=judgement.error is not None,
    )


def _tell(blamed: Blamed) -> None:
    fields = {
        "event": "run:error" if blamed.quarantined else "run:charge" if blamed.charged else "run:mark",
        "run_id": blamed.run_id,
        "workflow": blamed.workflow,
        "step": blamed.step,
        "line": blamed.line,
        "cause": blamed.cause.value,
    }
    where = (f" in step {blamed.step!r}" if blamed.step else "") + (f" at {blamed.line}" if blamed.line else "")
    worker = blamed.worker
    if blamed.quarantined:
        log.error(
            "run quarantined: %s of worker %s%s, past what is forgiven", blamed.cause, worker, where, extra=fields
        )
    elif blamed.charged:
        count = f"{blamed.charged} charges" if blamed.charged > 1 else "a charge"
        log.error("run gets %s: %s of worker %s%s", count, blamed.cause, worker, where, extra=fields)
    else:
        next_ = "it will run alone, in a cell" if blamed.suspect else "it goes on as usual"
        log.warning("run was near the death of worker %s (%s); %s", worker, blamed.cause, next_, extra=fields)
