"""`pyrula schedules`: what comes when, and an operator's acts on it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from pyrula_runtime.cli.commands import example
from pyrula_runtime.cli.endings import USAGE, say
from pyrula_runtime.cli.flags import STORE, flag
from pyrula_runtime.cli.numbers import Moment, Whole
from pyrula_runtime.cli.runs import now_ms
from pyrula_runtime.cli.session import as_json, ask
from pyrula_runtime.cli.tables import coming, dated, table
from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.spans import spoken

if TYPE_CHECKING:
    from pyrula_runtime.client.handle import RunHandle
    from pyrula_runtime.client.schedules import ScheduleSummary
    from pyrula_runtime.client.workflow_client import WorkflowClient
    from pyrula_runtime.stores.protocol import Store

_NAME = click.argument("name", metavar="NAME")
_NAMES = click.argument("names", metavar="NAME...", nargs=-1, required=True)
_JSON = click.option("--json", "wants_json", is_flag=True, help="Print one JSON document.")


@click.command("list", epilog=example("pyrula schedules list"))
@_JSON
@flag(STORE)
def list_schedules(*, wants_json: bool, store_url: str | None) -> None:
    """List schedules, each with the name of its workflow."""

    async def work(client: WorkflowClient, _store: Store) -> Sequence[ScheduleSummary]:
        return await client.schedules.list()

    found = ask(store_url, work)
    if wants_json:
        click.echo(as_json([asdict(each) for each in found]))
    elif found:
        headings = ["schedule", "when", "time zone", "overlap", "next", "last", "passed over", "state"]
        table(headings, [_row(each, now_ms()) for each in found])
    else:
        click.echo("no schedules", err=True)


def _row(each: ScheduleSummary, now_at_ms: int) -> list[str]:
    every = "" if each.every_ms is None else f"every {spoken(each.every_ms)}"
    return [
        each.name,
        each.cron or every,
        each.timezone or "",
        each.overlap or "",
        coming(each.next_ms, now_at_ms),
        dated(each.last_ms, now_at_ms),
        f"{each.passed_over}" if each.passed_over else "",
        _state(each),
    ]


def _state(each: ScheduleSummary) -> str:
    if not each.declared:
        return "no code declares it any more"
    if each.paused:
        return "paused"
    return "one waits for the last run to end" if each.waiting_ms is not None else ""


@click.command("next", epilog=example("pyrula schedules next nightly_report --count 3"))
@_NAME
@click.option("--count", type=Whole(1, 10_000), metavar="NUMBER", default=5, help="How many. [5]")
@_JSON
@flag(STORE)
def next_times(*, name: str, count: int, wants_json: bool, store_url: str | None) -> None:
    """Say when a schedule comes next, in its own time zone."""

    async def work(client: WorkflowClient, _store: Store) -> Sequence[datetime]:
        return await client.schedules.next(name, count)

    _print_times(ask(store_url, work), wants_json=wants_json)


def _print_times(times: Sequence[datetime], *, wants_json: bool) -> None:
    if wants_json:
        click.echo(as_json([time.isoformat() for time in times]))
        return
    for time in times:
        click.echo(time.isoformat(sep=" "))


def _for_each(names: Sequence[str], store_url: str | None, act: Callable[[Any, str], Awaitable[str]]) -> int:
    """Do it to each, tell what was done; one that refuses does not keep the others from it."""

    async def work(client: WorkflowClient, _store: Store) -> int:
        code = 0
        for name in names:
            try:
                click.echo(await act(client.schedules, name))
            except UsageError as error:
                say(str(error))
                code = USAGE
        return code

    return ask(store_url, work)


@click.command(epilog=example("pyrula schedules pause nightly_report"))
@_NAMES
@flag(STORE)
def pause(*, names: Sequence[str], store_url: str | None) -> int:
    """Let schedules fire no more.

    They rest until they are resumed; a deploy does not end that.
    """

    async def act(schedules: Any, name: str) -> str:
        await schedules.pause(name)
        return f"{name}: paused"

    return _for_each(names, store_url, act)


@click.command(epilog=example("pyrula schedules resume nightly_report"))
@_NAMES
@flag(STORE)
def resume(*, names: Sequence[str], store_url: str | None) -> int:
    """Let schedules fire again.

    They go on from now; what came meanwhile is for backfill.
    """

    async def act(schedules: Any, name: str) -> str:
        await schedules.resume(name)
        return f"{name}: fires again"

    return _for_each(names, store_url, act)


@click.command(epilog=example("pyrula schedules trigger nightly_report"))
@_NAMES
@flag(STORE)
def trigger(*, names: Sequence[str], store_url: str | None) -> int:
    """Begin a run now, and print its id."""

    async def act(schedules: Any, name: str) -> str:
        run: RunHandle[Any] = await schedules.trigger(name)
        return run.run_id

    return _for_each(names, store_url, act)


@click.command(epilog=example("pyrula schedules drop nightly_report"))
@_NAMES
@flag(STORE)
def drop(*, names: Sequence[str], store_url: str | None) -> int:
    """Forget schedules.

    One that the code of a worker still declares comes back.
    """

    async def act(schedules: Any, name: str) -> str:
        await schedules.drop(name)
        return f"{name}: forgotten"

    return _for_each(names, store_url, act)


@click.command(epilog=example("pyrula schedules backfill nightly_report --from 2026-11-01 --to 2026-11-08"))
@_NAME
@click.option("--from", "start", type=Moment(), metavar="DATE", required=True, help="The first moment.")
@click.option("--to", "end", type=Moment(), metavar="DATE", required=True, help="The end, itself left out.")
@click.option("--dry-run", is_flag=True, help="Print the times, and begin nothing.")
@flag(STORE)
def backfill(*, name: str, start: datetime, end: datetime, dry_run: bool, store_url: str | None) -> None:
    """Begin runs of times that are over.

    Those that have a run already get no other; all begin at once, and their ids are printed. A DATE without a time zone
    is meant as the clock of this machine shows it.
    """

    async def look(client: WorkflowClient, _store: Store) -> Sequence[datetime]:
        return await client.schedules.times(name, start, end)

    async def work(client: WorkflowClient, _store: Store) -> Sequence[RunHandle[Any]]:
        return await client.schedules.backfill(name, start, end)

    if dry_run:
        _print_times(ask(store_url, look), wants_json=False)
        return
    runs = ask(store_url, work)
    for run in runs:
        click.echo(run.run_id)
    say(f"{len(runs):,} runs begun")
