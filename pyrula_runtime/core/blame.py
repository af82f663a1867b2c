"""Blame: what the death of a worker means for the runs that it held, decided from evidence and never from proximity.

A run is **charged** when its code blocked past the limit, or when it alone can have ended its worker: no other was in
flight, and its code was executing. Any other death leaves **marks**, which accuse nobody: on all runs in flight, but if
the worker was killed from outside without a reason that we know of, only on those that were executing. The run that was
executing becomes a **suspect** at its first mark, any other at its second, and a suspect is retried alone, in a cell.
Dying there by its own doing convicts, whatever it was waiting for: one charge, and one for each death that marked it. A
cell that was killed from outside (no sign of memory) says nothing until the third time in the same step. Committing the
step that was open clears a suspect. Charges and marks count while they are younger than the window; more charges than
are forgiven quarantine the run, with its evidence.

The law: over any fault history, a run whose code never blocks or kills is never quarantined. So what is unknown is
never a verdict: a torn record of the black box charges nobody, and who had not begun is nobody's neighbour. A GIL that
was kept past the limit by a thread that nobody can name is a death like any other: it leaves marks, and in a cell it is
the doing of the only one there.

A charged run is a suspect too: what has killed one worker is not tried again among neighbours. And so is one that lost
its marks to time before it was cleared: a cell costs it nothing, doubt might cost others much.

**What may go wrong.** Something of the app's own, in a thread of no run, ends every worker that it finds. Then no run
gets far, and one that was marked twice may be convicted in its cell for it. That is the price of catching code that
kills from a thread nobody knows of; a `requeue` after the fix forgives it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyrula_runtime.core.deaths import FROM_OUTSIDE, OWN_DOING
from pyrula_runtime.core.deaths import Cause as Cause
from pyrula_runtime.core.deaths import Death as Death
from pyrula_runtime.core.deaths import Evidence as Evidence
from pyrula_runtime.core.deaths import Executing as Executing
from pyrula_runtime.core.errors import ErrorRecord
from pyrula_runtime.core.poison import poisoned

# times that a cell may be killed from outside in the same step before it counts against the run
KILLS_THAT_CONVICT = 3
# charges whose stack is kept; of older ones only the facts are
_STACKS_KEPT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How many charges are forgiven within how many milliseconds."""

    max_retries: int = 3
    window_ms: int = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A death that a run was near. `op_id` is what it executed then, if that is known."""

    at_ms: int
    cause: Cause
    worker: str
    op_id: str = ""
    step: str = ""
    executing: bool = False
    in_cell: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """One strike against the budget."""

    at_ms: int
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """All that is held against a run. A suspect is claimed by cells alone."""

    charges: tuple[Charge, ...] = ()
    marks: tuple[Mark, ...] = ()
    is_suspect: bool = False


NOTHING = Record()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a death means for one run. `error` is set if it is quarantined."""

    record: Record
    charged: int = 0
    marked: bool = False
    error: ErrorRecord | None = None


def current(record: Record, now_ms: int, budget: Budget) -> Record:
    """The record without what is too old to count."""
    return replace(
        record,
        charges=tuple(each for each in record.charges if now_ms - each.at_ms < budget.window_ms),
        marks=tuple(each for each in record.marks if now_ms - each.at_ms < budget.window_ms),
    )


def judged(run_id: str, record: Record, death: Death, budget: Budget) -> Judgement:
    """What this death means for this run, which its worker held."""
    record = current(record, death.evidence.at_ms, budget)
    if death.cause is Cause.blameless:
        return Judgement(record=record)
    found = _found(run_id, death)
    evidence = _of_run(death.evidence, found)
    if _is_charged(run_id, found, death):
        return _charged(record, evidence, budget, with_marks=death.in_cell)
    if not _is_marked(run_id, found, death):
        return Judgement(record=record)
    marked = _marked(record, evidence, death, executing=found is not None)
    if _convicts(marked.marks):
        return _charged(record, evidence, budget, with_marks=True)
    return Judgement(record=marked, marked=True)


def cleared(record: Record) -> Record:
    """The record of a suspect that has come past the place where it was marked. Charges stay until they are too old."""
    return replace(record, marks=(), is_suspect=False)


def opened_at(record: Record) -> frozenset[str]:
    """The operations that a suspect has to commit to be cleared; empty if that is not known of every mark.

    What its journal has of them already counts: a charge may be older than the last clearing.
    """
    places = [each.op_id for each in record.marks] + [each.evidence.op_id for each in record.charges[-1:]]
    return frozenset(places) if all(places) else frozenset()


def _found(run_id: str, death: Death) -> Executing | None:
    """What the run executed at the end: of several pieces of code that which had run for longest."""
    pieces = [each for each in death.executing or () if each.run_id == run_id]
    return max(pieces, key=lambda each: each.for_ms, default=None)


def _is_charged(run_id: str, found: Executing | None, death: Death) -> bool:
    if death.cause is Cause.loop_blocked:
        # who was alone with whatever kept the GIL need not be told from others
        is_only_one = death.in_cell and death.guilty is None and _there(death) == {run_id}
        return run_id == death.guilty or is_only_one
    if death.cause not in OWN_DOING or _there(death) != {run_id}:
        return False
    # alone in a worker, it may have been waiting while something of the app's own died; in a cell nothing else runs
    return death.in_cell or found is not None


def _is_marked(run_id: str, found: Executing | None, death: Death) -> bool:
    if death.cause is Cause.loop_blocked and death.guilty is not None:
        return False
    if death.cause is Cause.killed:
        return found is not None
    return run_id in _there(death)


def _there(death: Death) -> set[str]:
    """Whose code can have done it. A thread that its turn has left behind in user code counts as well."""
    return {*death.in_flight, *(each.run_id for each in death.executing or ())}


def _charged(record: Record, evidence: Evidence, budget: Budget, *, with_marks: bool) -> Judgement:
    count = 1 + (len(record.marks) if with_marks else 0)
    charges = (*record.charges, *(Charge(at_ms=evidence.at_ms, evidence=evidence) for _ in range(count)))
    kept = _with_few_stacks(charges)
    marks = () if with_marks else record.marks
    is_over = len(charges) > budget.max_retries
    changed = Record(charges=kept, marks=marks, is_suspect=not is_over)
    return Judgement(
        record=changed, charged=count, error=poisoned(len(charges), _most_telling(charges)) if is_over else None
    )


def _marked(record: Record, evidence: Evidence, death: Death, *, executing: bool) -> Record:
    mark = Mark(
        at_ms=evidence.at_ms,
        cause=evidence.cause,
        worker=evidence.worker,
        op_id=evidence.op_id,
        step=evidence.step,
        executing=executing,
        in_cell=death.in_cell,
    )
    marks = (*record.marks, mark)
    return replace(record, marks=marks, is_suspect=record.is_suspect or executing or len(marks) > 1)


def _convicts(marks: Sequence[Mark]) -> bool:
    """Whether the last mark is one kill of a cell too many in the same step."""
    kills = [each for each in marks if _is_kill_in_cell(each) and each.op_id == marks[-1].op_id]
    return marks[-1] in kills and len(kills) >= KILLS_THAT_CONVICT


def _is_kill_in_cell(mark: Mark) -> bool:
    return mark.in_cell and mark.executing and mark.cause in FROM_OUTSIDE


def _of_run(evidence: Evidence, found: Executing | None) -> Evidence:
    if found is None or evidence.op_id:
        return evidence
    return replace(evidence, op_id=found.op_id, step=found.step, for_ms=evidence.for_ms or found.for_ms)


def _most_telling(charges: Sequence[Charge]) -> Evidence:
    """The newest evidence of what the run's own code did: of a kill from outside nobody can tell why."""
    own = [each.evidence for each in charges if each.evidence.cause not in FROM_OUTSIDE]
    return own[-1] if own else charges[-1].evidence


def _with_few_stacks(charges: Sequence[Charge]) -> tuple[Charge, ...]:
    older, newest = charges[:-_STACKS_KEPT], charges[-_STACKS_KEPT:]
    return (*(replace(each, evidence=replace(each.evidence, stack="")) for each in older), *newest)
