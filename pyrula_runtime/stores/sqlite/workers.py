"""The register of workers: what each told about itself, and how long ago."""

from __future__ import annotations

import json

import apsw

from pyrula_runtime.stores.protocol import Serves, WorkerRecord
from pyrula_runtime.stores.sqlite.queries import named
from pyrula_runtime.stores.sqlite.transaction import Tx

SQL = named("workers")


def beat(tx: Tx, worker: WorkerRecord, forget_after_ms: int) -> None:
    """Register or refresh a worker, and forget those that went silent."""
    tx.rows(SQL["forget"], tx.mono_ms - forget_after_ms)
    tx.rows(
        SQL["beat"],
        worker.incarnation,
        worker.worker_id,
        worker.pid,
        worker.host,
        json.dumps([[serves.workflow, serves.version] for serves in worker.serves]),
        worker.capacity,
        worker.running,
        int(worker.draining),
        tx.mono_ms,
    )


def retire(tx: Tx, incarnation: str) -> None:
    """Forget a worker."""
    tx.rows(SQL["retire"], incarnation)


def known(db: apsw.Connection, mono_ms: int) -> tuple[WorkerRecord, ...]:
    """All workers, with the age of their last beat."""
    return tuple(
        WorkerRecord(
            incarnation=incarnation,
            worker_id=worker_id,
            pid=pid,
            host=host,
            serves=tuple(Serves(workflow=workflow, version=version) for workflow, version in json.loads(serves)),
            capacity=capacity,
            running=running,
            draining=bool(draining),
            age_ms=mono_ms - beat_ms,
        )
        for incarnation, worker_id, pid, host, serves, capacity, running, draining, beat_ms in db.execute(SQL["all"])
    )
