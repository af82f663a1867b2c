"""A run in full, as plain JSON values: what `describe` gives and `pyrula runs show --json` prints.

Fields may be added, never renamed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyrula_runtime.core.blame import Charge, Mark
from pyrula_runtime.core.entries import (
    AttemptFailed,
    CancelRequested,
    Completed,
    DeadlinePassed,
    Entry,
    Failed,
    Forked,
    OpEntry,
    Requeued,
    Resumed,
    Started,
    Withdrawn,
    in_force,
)
from pyrula_runtime.core.errors import ErrorRecord
from pyrula_runtime.core.limits import journal_share
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.codec import error_to_json, load_record
from pyrula_runtime.engine.facts import load_fact
from pyrula_runtime.engine.payloads import Payloads
from pyrula_runtime.stores.protocol import Fact, RunRecord

_KINDS: dict[type[Entry], str] = {
    Completed: "completed",
    Failed: "failed",
    Withdrawn: "withdrawn",
    AttemptFailed: "attempt_failed",
    CancelRequested: "cancel_requested",
    DeadlinePassed: "deadline_passed",
    Started: "started",
    Requeued: "requeued",
    Resumed: "resumed",
    Forked: "forked",
}
# entries that date an operator's act and have nothing to be done again
_MARKS = (Requeued, Resumed, Forked)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """A run as a listing shows it. Times are milliseconds since the epoch; `charges` are such times.

    A suspect was near the unexplained death of a worker, or is charged already: it is tried again alone. `start_at_ms`
    is the start that was asked for, `due_ms` the time that a waiting run waits for, `schedule` what began it, if any.
    """

    run_id: str
    workflow: str
    version: str | None
    status: RunStatus
    error: ErrorRecord | None
    cancel_requested: bool
    charges: tuple[int, ...]
    suspect: bool
    journal_len: int
    created_ms: int
    started_ms: int | None
    finished_ms: int | None
    priority: int
    start_at_ms: int | None
    due_ms: int | None
    schedule: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """Something that a run told while it went on. Ids count from 1 without gaps; `type` says what `data` is.

    "status": what the code set with `ctx.set_status`. "journal_warning": how large the journal has become.
    """

    id: int
    at_ms: int
    type: str
    data: Any


def event_of(fact: Fact, payloads: Payloads) -> RunEvent:
    """A fact as clients see it."""
    kind, data = load_fact(fact.body, payloads)
    return RunEvent(id=fact.seq, at_ms=fact.at_ms, type=kind, data=data)


def summary(record: RunRecord, payloads: Payloads) -> RunSummary:
    """A record without what only the store needs."""
    return RunSummary(
        run_id=record.run_id,
        workflow=record.workflow,
        version=record.version,
        status=record.status,
        error=None if record.error is None else payloads.for_people().load_error(record.error),
        cancel_requested=record.cancel_requested,
        charges=tuple(each.at_ms for each in load_record(record.dossier.record).charges),
        suspect=record.dossier.is_suspect,
        journal_len=record.journal_len,
        created_ms=record.created_ms,
        started_ms=record.started_ms,
        finished_ms=record.finished_ms,
        priority=record.priority,
        start_at_ms=record.start_at_ms,
        due_ms=record.due_ms,
        schedule=record.schedule_id,
    )


def description(record: RunRecord, journal: Sequence[bytes], payloads: Payloads) -> dict[str, Any]:
    """The run and its journal; in the place of a payload that cannot be decoded here stands why."""
    payloads = payloads.for_people()
    entries = [payloads.load_entry(raw) for raw in journal]
    against = load_record(record.dossier.record)
    counting = {position for position, _ in in_force(entries)}
    return {
        "run_id": record.run_id,
        "workflow": record.workflow,
        "status": record.status.value,
        "version": record.version,
        "charges": [_charge(each) for each in against.charges],
        "marks": [_mark(each) for each in against.marks],
        "suspect": record.dossier.is_suspect,
        "cancel_requested": record.cancel_requested,
        "input": payloads.load_json(record.input),
        "result": None if record.result is None else payloads.load_json(record.result),
        "error": None if record.error is None else error_to_json(payloads.load_error(record.error)),
        "shown": None if record.shown is None else payloads.load_json(record.shown),
        "created_ms": record.created_ms,
        "started_ms": record.started_ms,
        "finished_ms": record.finished_ms,
        "priority": record.priority,
        "start_at_ms": record.start_at_ms,
        "due_ms": record.due_ms,
        "awaits": record.awaits,
        "schedule": record.schedule_id,
        "owner": record.owner,
        "journal_bytes": record.journal_bytes,
        "journal_share": journal_share(record.journal_len, record.journal_bytes),
        "journal": [
            _told(entry) | ({} if position in counting or isinstance(entry, _MARKS) else {"voided": True})
            for position, entry in enumerate(entries)
        ],
    }


def _charge(charge: Charge) -> dict[str, Any]:
    """One strike: the facts of the death that it is for; of older ones no stack is kept."""
    evidence = charge.evidence
    return {
        "at_ms": charge.at_ms,
        "cause": evidence.cause.value,
        "worker": evidence.worker,
        "pid": evidence.pid,
        "exit": evidence.exit,
        "step": evidence.step,
        "op_id": evidence.op_id,
        "line": evidence.line,
        "for_ms": evidence.for_ms,
        "rss_bytes": evidence.rss_bytes,
        "limit_bytes": evidence.limit_bytes,
        "stack": evidence.stack,
    }


def _mark(mark: Mark) -> dict[str, Any]:
    """A death that the run was near, which accuses nobody."""
    return {
        "at_ms": mark.at_ms,
        "cause": mark.cause.value,
        "worker": mark.worker,
        "step": mark.step,
        "op_id": mark.op_id,
        "executing": mark.executing,
        "in_cell": mark.in_cell,
    }


def _told(entry: Entry) -> dict[str, Any]:
    told: dict[str, Any] = {"kind": _KINDS[type(entry)], "at_ms": entry.at_ms}
    if isinstance(entry, OpEntry):
        told |= {"op_id": entry.op.op_id, "op": entry.op.kind.value, "name": entry.op.name}
    match entry:
        case Completed(value=value):
            told["value"] = value
        case Failed(error=error):
            told["error"] = error_to_json(error)
        case AttemptFailed(number=number, error=error, retry_at_ms=retry_at_ms):
            told |= {"attempt": number, "error": error_to_json(error), "retry_at_ms": retry_at_ms}
        case Started(child_id=child_id, on_end=on_end):
            told |= {"child": child_id, "on_end": on_end.value}
        case Requeued(void_from=void_from):
            told["void_from"] = void_from
        case Forked(source=source):
            told["source"] = source
        case _:
            pass  # the kind says it all
    return told
