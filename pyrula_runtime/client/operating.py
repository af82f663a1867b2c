"""An operator's acts on a run: read it, let the core decide, write if it still is as it was read; else once more."""

from __future__ import annotations

from pyrula_runtime.client.door import Door
from pyrula_runtime.client.telling import RunSummary, summary
from pyrula_runtime.core import operator
from pyrula_runtime.core.errors import IllegalTransition
from pyrula_runtime.core.operator import Change, Standing
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.payloads import PLAIN
from pyrula_runtime.stores.protocol import CLEAN, Amendment, RunRecord

# an operator's act looks at frames alone, so it needs no codec
FRAMES = PLAIN.for_people()


async def cancel(door: Door, run_id: str) -> None:
    """Cancel a run."""
    while True:
        record = await door.record(run_id)
        change = operator.cancel(_standing(record))
        if change is None or await door.amend(_amendment(record, change)):
            return


async def requeue(door: Door, run_id: str, now_ms: int, seen: RunSummary | None = None) -> None:
    """Send a run on after a fix; if it was `seen` before, only while it stands as it stood then."""
    while True:
        record = await door.record(run_id)
        if seen is not None and not _stands_as(seen, record):
            raise IllegalTransition(f"run {run_id} has changed since it was chosen: it is {record.status} now")
        journal = [FRAMES.load_entry(raw) for raw in await door.journal(record)]
        error = None if record.error is None else FRAMES.load_error(record.error)
        failed_op = None if error is None else error.detail.get("op_id")
        change = operator.requeue(_standing(record), journal, failed_op, now_ms)
        if await door.amend(_amendment(record, change)):
            return


def _stands_as(seen: RunSummary, record: RunRecord) -> bool:
    now = summary(record, FRAMES)
    return (now.status, now.journal_len, now.finished_ms) == (seen.status, seen.journal_len, seen.finished_ms)


def _standing(record: RunRecord) -> Standing:
    return Standing(
        run_id=record.run_id,
        status=record.status,
        fence=record.fence,
        cancel_requested=record.cancel_requested,
        start_at_ms=record.start_at_ms,
    )


def _amendment(record: RunRecord, change: Change) -> Amendment:
    return Amendment(
        run_id=record.run_id,
        rev=record.rev,
        status=change.status,
        ready=None if change.status is None else change.status is RunStatus.queued,
        cancel_requested=change.cancel_requested,
        dossier=CLEAN if change.is_fresh_start else None,
        expected_len=record.journal_len,
        append=tuple(map(PLAIN.dump_entry, change.entries)),
        clear_outcome=change.is_fresh_start,
        due_ms=change.due_ms,
    )
