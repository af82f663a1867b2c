"""`pyrula runs requeue`: send runs on after a fix; those that are named, or all that flags describe.

What flags describe is looked up first and its number told, so that nobody sends on a thousand runs who meant ten; on a
terminal it is asked for. However it ends, by itself, by Ctrl-C or because the store went away, the last line says how
many were sent on and how many are as they were.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from pyrula_runtime.cli.commands import example
from pyrula_runtime.cli.endings import FAILED, say
from pyrula_runtime.cli.flags import STORE, flag
from pyrula_runtime.cli.numbers import Ago, Rate
from pyrula_runtime.cli.runs import print_runs
from pyrula_runtime.cli.session import ask
from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.requeueing import CAUSES, MOST, REQUEUEABLE
from pyrula_runtime.core.spans import spoken

if TYPE_CHECKING:
    from pyrula_runtime.client.requeueing import Requeueing, RequeueResult
    from pyrula_runtime.client.telling import RunSummary
    from pyrula_runtime.client.workflow_client import WorkflowClient
    from pyrula_runtime.stores.protocol import Store

    Runs = Sequence[str | RunSummary]

# rows of a dry run
_SHOWN = 1_000
_CLEAR = "\r\x1b[K"


@click.command(epilog=example("pyrula runs requeue --status quarantined --cause loop_blocked --rate 5/s"))
@click.argument("run_ids", metavar="[RUN]...", nargs=-1)
@click.option("--workflow", metavar="NAME", help="Runs of this workflow.")
@click.option(
    "--status",
    multiple=True,
    type=click.Choice(sorted(REQUEUEABLE)),
    help="Runs in this status; may be given several times.",
)
@click.option("--cause", type=click.Choice([cause.value for cause in CAUSES]), help="Runs quarantined for this.")
@click.option("--older-than", type=Ago(), metavar="TIME", help="Runs that ended longer ago, such as 2h.")
@click.option("--newer-than", type=Ago(), metavar="TIME", help="Runs that ended since, such as 30min.")
@click.option("--limit", type=click.IntRange(1, MOST), metavar="NUMBER", help="At most so many, the oldest. [all]")
@click.option("--rate", type=Rate(), metavar="N/s", help="Evenly spaced, so many at most: 5/s, 30/min. [unlimited]")
@click.option("--dry-run", is_flag=True, help="Show which runs it would be, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@flag(STORE)
def requeue(
    *,
    run_ids: Sequence[str],
    rate: float | None,
    dry_run: bool,
    yes: bool,
    store_url: str | None,
    **described: Any,
) -> int:
    """Send runs on after a fix.

    Those named, or all that failed, are paused or were quarantined and that the flags describe. A failed run goes on at
    the step that failed it; what is held against a run is forgiven. Exit code 1 if any refuses.
    """
    is_described = any(value not in (None, ()) for value in described.values())
    if run_ids and is_described:
        raise UsageError("give the ids of runs, or flags that say which runs; not both")
    if run_ids:
        return _look(run_ids, store_url) if dry_run else _send_on(run_ids, rate, store_url, quiet=False)
    if not is_described:
        raise UsageError("say which runs: their ids, or flags such as --status quarantined or --workflow NAME")
    runs = _described(described, store_url)
    if not runs:
        say("no run that can be requeued is like that")
        return 0
    if dry_run:
        print_runs(runs[:_SHOWN])
        click.echo(f"{_counted(runs)} would be requeued", err=True)
        return 0
    if not yes and sys.stdin is not None and sys.stdin.isatty():
        click.confirm(f"Requeue {_counted(runs)}?", abort=True, err=True)
    return _send_on(runs, rate, store_url, quiet=True)


def _described(described: dict[str, Any], store_url: str | None) -> Sequence[RunSummary]:
    async def work(client: WorkflowClient, _store: Store) -> Sequence[RunSummary]:
        return await client.requeueable(**described | {"status": described["status"] or None})

    return ask(store_url, work)


def _counted(runs: Sequence[RunSummary]) -> str:
    """`3 runs (2 quarantined, 1 failed)`."""
    kinds = Counter(run.status.value for run in runs)
    if len(kinds) == 1:
        return f"{len(runs):,} {runs[0].status} run{'s' * (len(runs) > 1)}"
    return f"{len(runs):,} runs ({', '.join(f'{count:,} {status}' for status, count in kinds.most_common())})"


def _look(run_ids: Sequence[str], store_url: str | None) -> int:
    """A dry run of ids."""

    async def work(client: WorkflowClient, _store: Store) -> int:
        code = 0
        for run_id in run_ids:
            try:
                status = await client.status(run_id)
            except UsageError as error:
                say(str(error))
                code = FAILED
                continue
            if status in REQUEUEABLE:
                click.echo(f"{run_id}: {status}, would be queued again")
            else:
                say(f"run {run_id} is {status} and would stay so")
                code = FAILED
        return code

    return ask(store_url, work)


def _send_on(runs: Runs, rate: float | None, store_url: str | None, *, quiet: bool) -> int:
    async def work(client: WorkflowClient, _store: Store) -> int:
        going = client.requeue_many(runs, rate=rate)
        progress = _Progress(going, rate, is_shown=quiet or rate is not None)
        try:
            async for result in going:
                progress.tell(result)
        finally:
            progress.end()
        return FAILED if going.refused else 0

    return ask(store_url, work)


class _Progress:
    """A line for each run, and on a terminal one that counts instead."""

    def __init__(self, going: Requeueing, rate: float | None, *, is_shown: bool) -> None:
        self._going = going
        self._rate = rate
        self._total = going.left
        self._is_shown = is_shown and sys.stderr.isatty()
        self._is_quiet = self._is_shown and sys.stdout.isatty()

    def tell(self, result: RequeueResult) -> None:
        """One more is done."""
        self._clear()
        if result.refusal is not None:
            say(str(result.refusal))
        elif not self._is_quiet:
            click.echo(f"{result.run_id}: queued again")
        if self._is_shown and (left := self._going.left):
            rest = "" if self._rate is None else f", {spoken(round(1000 * left / self._rate))} to go"
            click.echo(f"{self._going.requeued:,} of {self._total:,} requeued{rest}", err=True, nl=False)

    def end(self) -> None:
        """Say what was done and what was not."""
        self._clear()
        if self._total == 1 and not self._is_quiet:
            return
        refused = f", {self._going.refused:,} refused" if self._going.refused else ""
        left = f", {self._going.left:,} are as they were" if self._going.left else ""
        say(f"{self._going.requeued:,} of {self._total:,} runs requeued{refused}{left}")

    def _clear(self) -> None:
        if self._is_shown:
            click.echo(_CLEAR, err=True, nl=False)
