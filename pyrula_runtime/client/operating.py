"""An operator's acts on a run: read it, let the core decide, write if it still is as it was read; else once more.

An act looks at frames alone, so whoever acts needs no codec; but for a requeue that has to repeat what a child told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pyrula_runtime.client.door import Door
from pyrula_runtime.client.telling import RunSummary
from pyrula_runtime.core import operator
from pyrula_runtime.core.entries import Completed, Entry, Forked
from pyrula_runtime.core.errors import IllegalTransition
from pyrula_runtime.core.forking import copied, copied_message, fork_from, signals_again
from pyrula_runtime.core.operator import Change, Standing
from pyrula_runtime.core.status import DELIVERY, RunStatus
from pyrula_runtime.engine.parting import missed_reports, parting
from pyrula_runtime.engine.payloads import PLAIN, renumbered, value_as_stored
from pyrula_runtime.stores.protocol import CLEAN, Amendment, DeliverTo, Effect, Message, NewRun, RunRecord, SubmitRun

FRAMES = PLAIN.for_people()
_GOING_ON = {RunStatus.queued, RunStatus.running, RunStatus.waiting}


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkStart:
    """The fork to begin: its id, the step that it begins at (None: where a requeue would), its pin (None: the same)."""

    run_id: str
    step: str | None = None
    version: str | None = None


async def cancel(door: Door, run_id: str, seen: RunSummary | None = None) -> None:
    """Cancel a run; if it was `seen` before, only while it stands as it stood then."""
    await _change(door, run_id, seen, operator.cancel)


async def pause(door: Door, run_id: str, seen: RunSummary | None = None) -> None:
    """Take a run from whoever has it and keep it; if it was `seen` before, only while it stands as it stood then."""
    await _change(door, run_id, seen, operator.pause)


async def resume(door: Door, run_id: str, now_ms: int, seen: RunSummary | None = None) -> None:
    """Let a paused run go on; if it was `seen` before, only while it stands as it stood then."""
    await _change(door, run_id, seen, lambda standing: operator.resume(standing, now_ms))


async def _change(
    door: Door, run_id: str, seen: RunSummary | None, decide: Callable[[Standing], Change | None]
) -> None:
    while True:
        record = await _as_seen(door, run_id, seen)
        change = decide(_standing(record))
        if change is None or await door.amend(await _with_parting(door, record, _amendment(record, change))):
            return


async def _with_parting(door: Door, record: RunRecord, amendment: Amendment) -> Amendment:
    """A run that is dropped has no turn that would tell its relatives."""
    status = amendment.status
    if status is None or not status.is_terminal:
        return amendment
    return replace(amendment, effects=await parting(await door.store(), record, status))


async def requeue(door: Door, run_id: str, now_ms: int, seen: RunSummary | None = None) -> None:
    """Send a run on after a fix; if it was `seen` before, only while it stands as it stood then."""
    while True:
        record = await _as_seen(door, run_id, seen)
        journal = [FRAMES.load_entry(raw) for raw in await door.journal(record)]
        change = operator.requeue(_standing(record), journal, _failed_op(record), now_ms)
        amendment = _amendment(record, change)
        if record.status.is_terminal:
            store, goes_on_with = await door.store(), (*journal, *change.entries)
            missed = await missed_reports(store, record, goes_on_with, door.payloads)
            amendment = replace(amendment, effects=missed)
        if await door.amend(amendment):
            return


async def fork(door: Door, run_id: str, start: ForkStart, now_ms: int, seen: RunSummary | None = None) -> None:
    """Begin the run `start.run_id` with what this one recorded before a step (core.forking).

    It is an amendment of this run, so that what was read of it still holds when the other begins.
    """
    while True:
        record = await _as_seen(door, run_id, seen)
        journal = await door.journal(record)
        entries = [FRAMES.load_entry(raw) for raw in journal]
        kept = copied(entries, fork_from(run_id, entries, start.step, _failed_op(record)))
        effects: tuple[Effect, ...] = (
            SubmitRun(run=_fork(record, start, [journal[position] for position in kept], now_ms)),
            *(_signal(start.run_id, entries[at], journal[at]) for at in signals_again(entries, kept)),
        )
        if await door.amend(Amendment(run_id=run_id, rev=record.rev, effects=effects)):
            return


def _fork(record: RunRecord, start: ForkStart, journal: Sequence[bytes], now_ms: int) -> NewRun:
    started_ms = record.created_ms if record.started_ms is None else record.started_ms
    forked = Forked(at_ms=now_ms, source=record.run_id, started_ms=started_ms)
    return NewRun(
        run_id=start.run_id,
        workflow=record.workflow,
        version=record.version if start.version is None else start.version,
        input=record.input,
        digest=record.digest,
        status=RunStatus.queued,
        priority=record.priority,
        journal=(
            *(renumbered(entry, copied_message(place)) for place, entry in enumerate(journal)),
            PLAIN.dump_entry(forked),
        ),
        generation=record.generation,
    )


def _signal(run_id: str, entry: Entry, stored: bytes) -> DeliverTo:
    """What a wait of the first run has heard, for the fork to hear."""
    assert isinstance(entry, Completed)
    message = Message(
        run_id=run_id,
        message_id=f"forked/{entry.message}",
        name=entry.op.name,
        body=value_as_stored(stored),
    )
    return DeliverTo(message=message, moves=DELIVERY)


async def _as_seen(door: Door, run_id: str, seen: RunSummary | None) -> RunRecord:
    record = await door.record(run_id)
    if seen is not None and not _stands_as(seen, record):
        raise IllegalTransition(f"run {run_id} has changed since it was chosen: it is {record.status} now")
    return record


def _failed_op(record: RunRecord) -> str | None:
    """The operation whose failure ended the run, if one did."""
    if record.status is not RunStatus.failed or record.error is None:
        return None
    op_id = FRAMES.load_error(record.error).detail.get("op_id")
    return op_id if isinstance(op_id, str) else None


def _stands_as(seen: RunSummary, record: RunRecord) -> bool:
    """Whether nothing has happened to the run but that it went on by itself."""
    if {seen.status, record.status} <= _GOING_ON:
        return True
    return (record.status, record.journal_len, record.finished_ms) == (seen.status, seen.journal_len, seen.finished_ms)


def _goes_on(record: RunRecord, change: Change) -> bool:
    """Whether a pause is over, and with it what the run was paused for."""
    return record.status is RunStatus.paused and change.status in _GOING_ON


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
        clear_outcome=change.is_fresh_start or _goes_on(record, change),
        due_ms=change.due_ms,
    )
