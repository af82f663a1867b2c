"""`pyrula runs why`: what a run waits for, or what became of it.

Whether a worker has a supervisor is written in its black box, which only its own host can read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from pyrula_runtime.cli.commands import example
from pyrula_runtime.cli.flags import STORE, flag
from pyrula_runtime.cli.runs import now_ms
from pyrula_runtime.cli.session import ask
from pyrula_runtime.core.errors import ConfigurationError, RunNotFound
from pyrula_runtime.core.why import RunFacts, WorkerFacts
from pyrula_runtime.core.why import why as reason

if TYPE_CHECKING:
    from pyrula_runtime.client.workflow_client import WorkflowClient
    from pyrula_runtime.engine.payloads import Payloads
    from pyrula_runtime.stores.protocol import RunRecord, Store, WorkerRecord


@click.command(epilog=example("pyrula runs why 01JA6Z5V7Q8D3K4M9N0P2R5T6W"))
@click.argument("run_id", metavar="RUN")
@flag(STORE)
def why(run_id: str, store_url: str | None) -> None:
    """Say what a run waits for, or what became of it."""

    async def work(client: WorkflowClient, store: Store) -> str:
        record = await store.read(run_id)
        if record is None:
            raise RunNotFound(run_id)
        roles = _roles()
        workers = [
            _facts_of_worker(worker, await _load(store, worker), roles.get(worker.incarnation, ""))
            for worker in await store.workers()
        ]
        return reason(_facts(record, client.payloads), workers, now_ms())

    click.echo(ask(store_url, work))


def _roles() -> Mapping[str, str]:
    """Whose child each worker of this host is, by incarnation."""
    from pyrula_runtime.blackbox import read_box
    from pyrula_runtime.blackbox.layout import boxes_in
    from pyrula_runtime.runtime_dir import runtime_dir

    try:
        boxes = map(read_box, boxes_in(runtime_dir(os.environ)).glob("*.box"))
        return {box.incarnation: box.role for box in boxes if box is not None}
    except ConfigurationError:  # whoever only looks at runs needs no runtime directory
        return {}


def _facts(record: RunRecord, payloads: Payloads) -> RunFacts:
    return RunFacts(
        run_id=record.run_id,
        workflow=record.workflow,
        version=record.version,
        status=record.status,
        cancel_requested=record.cancel_requested,
        owner=record.owner,
        lock_left_ms=record.lock_left_ms,
        finished_ms=record.finished_ms,
        due_ms=record.due_ms,
        has_begun=record.fence > 0,
        error=None if record.error is None else payloads.for_people().load_error(record.error),
        is_suspect=record.dossier.is_suspect,
    )


async def _load(store: Store, worker: WorkerRecord) -> int:
    """How many runs it holds now; what it reports itself is some seconds old."""
    return len(await store.holdings(worker.incarnation))


def _facts_of_worker(worker: WorkerRecord, running: int, role: str) -> WorkerFacts:
    return WorkerFacts(
        incarnation=worker.incarnation,
        worker_id=worker.worker_id,
        pid=worker.pid,
        host=worker.host,
        serves=tuple((each.workflow, each.version) for each in worker.serves),
        capacity=worker.capacity,
        running=running,
        draining=worker.draining,
        age_ms=worker.age_ms,
        role=role,
    )
