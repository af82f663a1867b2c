"""`pyrula runs list`, and how runs look in a table."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from pyrula_runtime.cli.commands import example
from pyrula_runtime.cli.flags import STORE, flag
from pyrula_runtime.cli.numbers import Whole
from pyrula_runtime.cli.session import as_json, ask
from pyrula_runtime.cli.tables import table
from pyrula_runtime.core.spans import ago, ahead, spoken
from pyrula_runtime.core.status import RunStatus

if TYPE_CHECKING:
    from pyrula_runtime.client.telling import RunSummary
    from pyrula_runtime.client.workflow_client import WorkflowClient
    from pyrula_runtime.stores.protocol import Store

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
@click.option("--schedule", metavar="NAME", help="Only runs that this schedule began.")
@click.option("--suspects", is_flag=True, help="Only runs that are tried again alone.")
@click.option("--limit", type=Whole(1, 10_000), metavar="NUMBER", default=50, help="How many, newest first. [50]")
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON document.")
@flag(STORE)
def list_runs(
    *,
    workflow: str | None,
    statuses: Sequence[str],
    schedule: str | None,
    suspects: bool,
    limit: int,
    wants_json: bool,
    store_url: str | None,
) -> None:
    """List runs, newest first."""

    async def work(client: WorkflowClient, _store: Store) -> Sequence[RunSummary]:
        wanted = [RunStatus(status) for status in statuses] or None
        return await client.list(workflow, wanted, limit, schedule=schedule, suspects=suspects)

    found = ask(store_url, work)
    if wants_json:
        click.echo(as_json([asdict(each) for each in found]))
    elif found:
        print_runs(found)
        if len(found) == limit:
            click.echo(f"only the newest {limit}; --limit shows more", err=True)
    else:
        click.echo("no runs", err=True)


def print_runs(runs: Sequence[RunSummary]) -> None:
    """Runs as a table, for people."""
    rows = [_row(each, now_ms()) for each in runs]
    headings = ["run", "workflow", "status", "created", "took", "error"]
    if any(each.priority for each in runs):
        headings.insert(3, "priority")
        for row, run in zip(rows, runs, strict=True):
            row.insert(3, f"{run.priority}")
    table(headings, rows)


def _starts(run: RunSummary, now_at_ms: int) -> str:
    is_to_start = run.status is RunStatus.waiting and run.started_ms is None and run.start_at_ms is not None
    return f"starts {ahead(run.start_at_ms, now_at_ms)}" if is_to_start and run.start_at_ms else ""


def _row(run: RunSummary, now_at_ms: int) -> list[str]:
    ended_ms = run.finished_ms or (now_at_ms if run.status is RunStatus.running else None)
    took = "" if run.started_ms is None or ended_ms is None else spoken(ended_ms - run.started_ms)
    alone = "a suspect: it is tried again alone" if run.suspect else _starts(run, now_at_ms)
    error = alone if run.error is None else str(run.error).partition("\n")[0]
    if len(error) > _ERROR_WIDTH:
        error = error[: _ERROR_WIDTH - 1] + "…"
    name = run.workflow if run.version is None else f"{run.workflow} {run.version}"
    return [run.run_id, name, run.status.value, ago(run.created_ms, now_at_ms), took, error]
