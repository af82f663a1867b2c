"""`pyrula runs`: list them, say why one does not go on, cancel and requeue them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from pyrula_runtime.cli.commands import example
from pyrula_runtime.cli.endings import USAGE, say
from pyrula_runtime.cli.flags import STORE, flag
from pyrula_runtime.cli.session import as_json, ask
from pyrula_runtime.cli.tables import table
from pyrula_runtime.core.errors import RunNotFound, UsageError
from pyrula_runtime.core.spans import ago, spoken
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.core.why import RunFacts, WorkerFacts
from pyrula_runtime.core.why import why as reason

if TYPE_CHECKING:
    from pyrula_runtime.client.telling import RunSummary
    from pyrula_runtime.client.workflow_client import WorkflowClient
    from pyrula_runtime.stores.protocol import RunRecord, Store, WorkerRecord

# characters of an error in a row
_ERROR_WIDTH = 80


def now_ms() -> int:
    """The time for "ago"."""
    return time.time_ns() // 1_000_000


@click.command("list", epilog=example("pyrula runs list --workflow process_order --status failed --status paused"))
@click.option("--workflow", metavar="NAME", help="Only runs of this workflow.")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice([status.value for status in RunStatus]),
    help="Only runs in this status; may be given several times.",
)
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, help="How many, newest first. [50]")
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON document.")
@flag(STORE)
def list_runs(
    *, workflow: str | None, statuses: Sequence[str], limit: int, wants_json: bool, store_url: str | None
) -> None:
    """List runs, newest first."""

    async def work(client: WorkflowClient, _store: Store) -> Sequence[RunSummary]:
        wanted = [RunStatus(status) for status in statuses] or None
        return await client.list(workflow=workflow, status=wanted, limit=limit)

    found = ask(store_url, work)
    if wants_json:
        click.echo(as_json([asdict(each) for each in found]))
    elif found:
        table(["run", "workflow", "status", "created", "took", "error"], [_row(each, now_ms()) for each in found])
        if len(found) == limit:
            click.echo(f"only the newest {limit}; --limit shows more", err=True)
    else:
        click.echo("no runs", err=True)


def _row(run: RunSummary, now_at_ms: int) -> list[str]:
    ended_ms = run.finished_ms or (now_at_ms if run.status is RunStatus.running else None)
    took = "" if run.started_ms is None or ended_ms is None else spoken(ended_ms - run.started_ms)
    error = "" if run.error is None else str(run.error).partition("\n")[0]
    if len(error) > _ERROR_WIDTH:
        error = error[: _ERROR_WIDTH - 1] + "…"
    name = run.workflow if run.version is None else f"{run.workflow} {run.version}"
    return [run.run_id, name, run.status.value, ago(run.created_ms, now_at_ms), took, error]


@click.command(epilog=example("pyrula runs why 01JA6Z5V7Q8D3K4M9N0P2R5T6W"))
@click.argument("run_id", metavar="RUN")
@flag(STORE)
def why(run_id: str, store_url: str | None) -> None:
    """Say what a run waits for, or what became of it."""

    async def work(_client: WorkflowClient, store: Store) -> str:
        record = await store.read(run_id)
        if record is None:
            raise RunNotFound(run_id)
        workers = [_facts_of_worker(worker, await _load(store, worker)) for worker in await store.workers()]
        return reason(_facts(record), workers, now_ms())

    click.echo(ask(store_url, work))


def _facts(record: RunRecord) -> RunFacts:
    from pyrula_runtime.engine.codec import load_error

    return RunFacts(
        run_id=record.run_id,
        workflow=record.workflow,
        version=record.version,
        status=record.status,
        cancel_requested=record.cancel_requested,
        owner=record.owner,
        lock_left_ms=record.lock_left_ms,
        finished_ms=record.finished_ms,
        error=None if record.error is None else load_error(record.error),
    )


async def _load(store: Store, worker: WorkerRecord) -> int:
    """How many runs it holds now; what it reports itself is some seconds old."""
    return len(await store.holdings(worker.incarnation))


def _facts_of_worker(worker: WorkerRecord, running: int) -> WorkerFacts:
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
    )


@click.command(epilog=example("pyrula runs cancel 01JA6Z5V7Q8D3K4M9N0P2R5T6W"))
@click.argument("run_ids", metavar="RUN...", nargs=-1, required=True)
@flag(STORE)
def cancel(run_ids: Sequence[str], store_url: str | None) -> int:
    """Cancel runs.

    One that never began ends at once; any other is unwound by a worker, so that its own compensation can run.
    """
    return _each(run_ids, store_url, lambda client, run_id: client.cancel(run_id), "cancellation requested")


@click.command(epilog=example("pyrula runs requeue 01JA6Z5V7Q8D3K4M9N0P2R5T6W"))
@click.argument("run_ids", metavar="RUN...", nargs=-1, required=True)
@flag(STORE)
def requeue(run_ids: Sequence[str], store_url: str | None) -> int:
    """Send runs on after a fix.

    For runs that failed, are paused or were quarantined. A failed one goes on at the step that failed it.
    """
    return _each(run_ids, store_url, lambda client, run_id: client.requeue(run_id), "queued again")


def _each(
    run_ids: Sequence[str],
    store_url: str | None,
    act: Callable[[WorkflowClient, str], Awaitable[None]],
    done: str,
) -> int:
    """Do it to each run; one that refuses does not keep the others from it."""

    async def work(client: WorkflowClient, _store: Store) -> int:
        code = 0
        for run_id in run_ids:
            try:
                await act(client, run_id)
            except UsageError as error:
                say(str(error))
                code = USAGE
            else:
                click.echo(f"{run_id}: {done}")
        return code

    return ask(store_url, work)
