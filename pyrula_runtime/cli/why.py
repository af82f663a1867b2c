"""`pyrula runs why`: what a run waits for, or what became of it.

Whether a worker has a supervisor is written in its black box, which only its own host can read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from pyrula_runtime.cli.commands import example
from pyrula_runtime.cli.flags import STORE, flag
from pyrula_runtime.cli.runs import now_ms
from pyrula_runtime.cli.session import ask
from pyrula_runtime.core.errors import ConfigurationError, RunNotFound
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.core.why import RunFacts, WorkerFacts, failed_before
from pyrula_runtime.core.why import why as reason

if TYPE_CHECKING:
    from pyrula_runtime.client.workflow_client import WorkflowClient
    from pyrula_runtime.engine.payloads import Payloads
    from pyrula_runtime.stores.protocol import RunRecord, Store, WorkerRecord

# entries that are looked at; of many steps side by side, the one that goes on first may stand further back
_TAIL = 200


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
        return reason(_facts(record, await _tail(store, record), client.payloads), workers, now_ms())

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


async def _tail(store: Store, record: RunRecord) -> Sequence[bytes]:
    """The last entries of a run that waits for a time alone: they say if it is the next attempt of a step."""
    if record.status is not RunStatus.waiting or record.due_ms is None or record.awaits is not None:
        return ()
    first = max(0, record.journal_len - _TAIL)
    found: list[bytes] = []
    while page := await store.read_journal(record.run_id, first + len(found)):
        found += page
    return found


def _facts(record: RunRecord, tail: Sequence[bytes], payloads: Payloads) -> RunFacts:
    payloads = payloads.for_people()
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
        awaits=record.awaits,
        failed=failed_before(record.due_ms, [payloads.load_entry(raw) for raw in tail]),
        has_begun=record.fence > 0,
        error=None if record.error is None else payloads.load_error(record.error),
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
