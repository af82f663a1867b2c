"""Creating runs, once per id and once per idempotency key."""

from __future__ import annotations

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.stores.protocol import NewRun, Submission, Submitted, Wake
from pyrula_runtime.stores.sqlite import journal, waits
from pyrula_runtime.stores.sqlite.queries import named
from pyrula_runtime.stores.sqlite.transaction import Tx

SQL = named("submits")


def submit(tx: Tx, run: NewRun) -> Submitted:
    """Create the run, or answer with the one that has its key or its id already."""
    if run.idempotency_key is not None:
        for run_id, digest in tx.rows(SQL["key"], run.idempotency_key, tx.wall_ms):
            return _already(run_id, digest, run)
    created = tx.rows(
        SQL["run"],
        run.run_id,
        run.workflow,
        run.version,
        run.status,
        run.digest,
        tx.wall_ms,
        run.priority,
        run.start_at_ms,
        None if run.parent is None else run.parent.run_id,
        run.schedule_id,
    )
    if not created:
        ((digest,),) = tx.rows(SQL["digest"], run.run_id)
        return _already(run.run_id, digest, run)
    if tx.strained:
        raise StoreUnavailable("the disk is full: no new runs until some space is free, pyrula goes on by itself")
    ((n,),) = created
    link = (None, None) if run.parent is None else (run.parent.op_id, run.parent.on_end)
    tx.rows(SQL["input"], n, run.input, run.start_at_ms, *link)
    if run.journal or run.generation > 1:
        journal.append(tx.db, n, 0, run.journal)
        tx.rows(SQL["begin_with"], n, len(run.journal), sum(map(len, run.journal)), run.generation)
    if run.idempotency_key is not None:
        expires_ms = tx.wall_ms + run.idempotency_ttl_ms
        tx.rows(SQL["remember"], run.idempotency_key, run.run_id, run.digest, expires_ms)
    if run.start_at_ms is None:
        tx.wakes.add(Wake.ready)
    else:
        waits.ring_if_sooner(tx, n, run.status, run.start_at_ms)
    return Submitted(run_id=run.run_id, submission=Submission.created)


def _already(run_id: str, digest: str, run: NewRun) -> Submitted:
    same = digest == run.digest
    return Submitted(run_id=run_id, submission=Submission.existing if same else Submission.conflict)


def purge(tx: Tx, limit: int) -> int:
    """Drop idempotency records whose time is over."""
    return len(tx.rows(SQL["purge"], tx.wall_ms, limit))
