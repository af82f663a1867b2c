"""Deaths for tests of blame, with everything but the point of the test filled in."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pyrula_runtime.core.blame import NOTHING, Budget, Cause, Death, Evidence, Executing, Judgement, Record, judged

BUDGET = Budget()
HOUR_MS = BUDGET.window_ms
ME, OTHER = "me", "other"
OWN = (Cause.crashed, Cause.exited, Cause.out_of_memory)


def at_step(run_id: str = ME, step: str = "pay", for_ms: int = 40) -> Executing:
    return Executing(run_id=run_id, op_id=f"{step}#1" if step else "", step=step, for_ms=for_ms)


def death(
    cause: Cause,
    *executing: Executing,
    in_flight: Collection[str] = (ME,),
    at_ms: int = 1_000,
    cell: bool = False,
    guilty: str | None = "",
) -> Death:
    evidence = Evidence(
        at_ms=at_ms, cause=cause, worker="w-1", pid=7, exit="SIGSEGV", line="app.py:3", stack="the stack"
    )
    return Death(cause=cause, in_cell=cell, executing=executing, in_flight=in_flight, evidence=evidence, guilty=guilty)


def unknown(cause: Cause, *, cell: bool = False) -> Death:
    """A death of which the box does not say who was executing."""
    return replace(death(cause, cell=cell), executing=None)


def after(*deaths: Death, record: Record = NOTHING, budget: Budget = BUDGET, run_id: str = ME) -> Judgement:
    """The last of these judgements, each made on the record that the one before left."""
    judgement = Judgement(record=record)
    for one in deaths:
        judgement = judged(run_id, judgement.record, one, budget)
    return judgement


def told(judgement: Judgement) -> tuple[int, bool, bool]:
    return judgement.charged, judgement.marked, judgement.record.is_suspect
