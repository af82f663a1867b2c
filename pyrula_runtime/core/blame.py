"""Blame: what the death of a worker means for the runs that it held, decided from evidence and never from proximity.

A run is **charged** when its code blocked past the limit, or when it alone can have killed its worker. Any other death
leaves **marks**, which accuse nobody: the run that was executing becomes a **suspect** at its first, any other run in
flight at its second, and a suspect is retried alone, in a cell. Dying there by its own doing convicts: one charge, and
one for each death that marked it. A cell that somebody killed (SIGKILL, no sign of memory) says nothing until the
third time in the same step. Committing the step that was open clears a suspect. Charges and marks count while they are
younger than the window; more charges than are forgiven quarantine the run, with its evidence.

The law: over any fault history, a run whose code never blocks or kills is never quarantined. So what is unknown is
never a verdict: a torn record of the black box marks nobody.

A charged run is a suspect too: what has killed one worker is not tried again among neighbours.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from pyrula_runtime.core.errors import ErrorRecord, Json

# times that a cell may be killed in the same step by somebody else before it counts against the run
KILLS_THAT_CONVICT = 3
# charges whose stack is kept; of older ones only the facts are
_STACKS_KEPT = 3


class Cause(StrEnum):
    """Why a worker ended, as far as blame goes."""

    loop_blocked = "loop_blocked"  # killed because one turn's code kept the lane, or the GIL, past the limit
    crashed = "crashed"  # a signal of its own doing: SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL
    exited = "exited"  # os._exit, or an exit code that is none of ours
    out_of_memory = "out_of_memory"  # with evidence: a counter of the kernel, or its peak beside the limit
    store_frozen = "store_frozen"  # killed because it stood still with the store's write lock
    killed = "killed"  # SIGKILL by we do not know whom, or an end that nobody saw
    blameless = "blameless"  # a stop, a deploy, a decision of ours that has nothing to do with its runs


# ends that a process brings on itself
OWN_DOING = frozenset({Cause.crashed, Cause.exited, Cause.out_of_memory})
# the error that a quarantined run shows
_ERRORS = {
    Cause.loop_blocked: "EventLoopBlocked",
    Cause.crashed: "WorkerCrashed",
    Cause.exited: "WorkerExited",
    Cause.out_of_memory: "OutOfMemory",
    Cause.store_frozen: "StoreFrozen",
    Cause.killed: "WorkerKilled",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How many charges are forgiven within how many milliseconds."""

    max_retries: int = 3
    window_ms: int = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Executing:
    """Code of a run that had a thread when its worker ended. `op_id` and `step` are empty in a workflow's body."""

    run_id: str
    op_id: str = ""
    step: str = ""
    for_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of one death, for people; unknown is empty or 0. `line` is the innermost of the user's code."""

    at_ms: int  # wall clock
    cause: Cause
    worker: str
    pid: int = 0
    exit: str = ""  # in words
    op_id: str = ""
    step: str = ""
    for_ms: int = 0  # how long that code had run
    line: str = ""
    stack: str = ""
    rss_bytes: int = 0
    limit_bytes: int = 0


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
class Death:
    """The end of a worker that held runs.

    `executing` is what its threads executed (None: unknown), `in_flight` all runs that it held. `guilty` is the run
    whose code was found blocking, if that is the cause and the black box still says so after the death.
    """

    cause: Cause
    in_cell: bool
    executing: tuple[Executing, ...] | None
    in_flight: Collection[str]
    evidence: Evidence
    guilty: str = ""


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
    found = next((each for each in death.executing or () if each.run_id == run_id), None)
    evidence = _of_run(death.evidence, found)
    if _is_charged(run_id, found, death):
        return _charged(record, evidence, budget, with_marks=death.in_cell)
    if not _is_marked(run_id, found, death):
        return Judgement(record=record)
    record = _marked(record, evidence, death, executing=found is not None)
    if death.in_cell and _kills_in_step(record, evidence.op_id) >= KILLS_THAT_CONVICT:
        return _charged(record, evidence, budget, with_marks=True)
    return Judgement(record=record, marked=True)


def cleared(record: Record) -> Record:
    """The record of a suspect that has come past the place where it was marked. Charges stay until they are too old."""
    return replace(record, marks=(), is_suspect=False)


def opened_at(record: Record) -> frozenset[str]:
    """The operations that a suspect has to commit to be cleared; empty if that is not known of every mark."""
    places = [each.op_id for each in record.marks] + [each.evidence.op_id for each in record.charges[-1:]]
    return frozenset(places) if all(places) else frozenset()


def _is_charged(run_id: str, found: Executing | None, death: Death) -> bool:
    if death.cause is Cause.loop_blocked:
        return run_id == death.guilty
    if death.cause not in OWN_DOING or set(death.in_flight) - {run_id}:
        return False
    # alone in a worker, it may have been waiting while something of the app's own died; in a cell nothing else runs
    return death.in_cell or death.executing is None or found is not None


def _is_marked(run_id: str, found: Executing | None, death: Death) -> bool:
    if death.cause is Cause.loop_blocked:
        return False
    if death.cause is Cause.killed:
        return found is not None
    return run_id in death.in_flight


def _charged(record: Record, evidence: Evidence, budget: Budget, *, with_marks: bool) -> Judgement:
    count = 1 + (len(record.marks) if with_marks else 0)
    charges = (*record.charges, *(Charge(at_ms=evidence.at_ms, evidence=evidence) for _ in range(count)))
    kept = _with_few_stacks(charges)
    marks = () if with_marks else record.marks
    is_over = len(charges) > budget.max_retries
    changed = Record(charges=kept, marks=marks, is_suspect=not is_over)
    return Judgement(record=changed, charged=count, error=_poisoned(len(charges), evidence) if is_over else None)


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


def _kills_in_step(record: Record, op_id: str) -> int:
    return sum(each.in_cell and each.op_id == op_id for each in record.marks)


def _of_run(evidence: Evidence, found: Executing | None) -> Evidence:
    if found is None or evidence.op_id:
        return evidence
    return replace(evidence, op_id=found.op_id, step=found.step, for_ms=evidence.for_ms or found.for_ms)


def _with_few_stacks(charges: Sequence[Charge]) -> tuple[Charge, ...]:
    older, newest = charges[:-_STACKS_KEPT], charges[-_STACKS_KEPT:]
    return (*(replace(each, evidence=replace(each.evidence, stack="")) for each in older), *newest)


def _poisoned(charges: int, evidence: Evidence) -> ErrorRecord:
    where = f" in step {evidence.step!r}" if evidence.step else " in the workflow's body" if evidence.for_ms else ""
    line = f" at {evidence.line}" if evidence.line else ""
    message = f"its code {_DEEDS[evidence.cause]}{where}{line}; {charges} charges are more than are forgiven"
    facts: dict[str, Json] = {
        "step": evidence.step,
        "op_id": evidence.op_id,
        "duration_ms": evidence.for_ms,
        "line": evidence.line,
        "stack": evidence.stack,
        "worker": evidence.worker,
        "pid": evidence.pid,
        "exit": evidence.exit,
        "rss_bytes": evidence.rss_bytes,
        "limit_bytes": evidence.limit_bytes,
    }
    detail: dict[str, Json] = {"reason": "poison", "cause": evidence.cause.value, "charges": charges, "evidence": facts}
    return ErrorRecord(type=_ERRORS[evidence.cause], message=message, detail=detail)


_DEEDS = {
    Cause.loop_blocked: "blocked its worker",
    Cause.crashed: "crashed its worker",
    Cause.exited: "ended its worker",
    Cause.out_of_memory: "took all the memory of its worker",
    Cause.store_frozen: "stood still with the store's write lock",
    Cause.killed: "was killed again and again",
}
