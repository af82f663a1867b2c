"""`pyrula runs cancel|pause|resume|requeue|fork`: an act on runs; those that are named, or all that flags describe.

What flags describe is looked up first and its number told, so that nobody cancels a thousand runs who meant ten; on a
terminal it is asked for. However it ends, by itself, by Ctrl-C or because the store went away, the last line says to
how many it was done and how many are as they were.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pyrula_runtime.cli.commands import example
from pyrula_runtime.cli.endings import FAILED, say
from pyrula_runtime.cli.flags import STORE, flag
from pyrula_runtime.cli.numbers import Ago, Rate, Whole
from pyrula_runtime.cli.runs import print_runs
from pyrula_runtime.cli.session import ask
from pyrula_runtime.core.acts import CAUSES, MOST, POSSIBLE, Act
from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.spans import spoken

if TYPE_CHECKING:
    from pyrula_runtime.client.bulk import Bulk, BulkResult
    from pyrula_runtime.client.telling import RunSummary
    from pyrula_runtime.client.workflow_client import WorkflowClient
    from pyrula_runtime.stores.protocol import Store

    Runs = Sequence[str | RunSummary]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

# rows of a dry run
_SHOWN = 1_000
_CLEAR = "\r\x1b[K"
# what a run is told to be then, and what it would be
_TOLD = {
    Act.cancel: ("cancellation requested", "be cancelled"),
    Act.pause: ("paused", "be paused"),
    Act.resume: ("goes on", "go on"),
    Act.requeue: ("queued again", "be queued again"),
    Act.fork: ("forked as", "be forked"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """One call of a command."""

    act: Act
    store_url: str | None
    rate: float | None
    terms: dict[str, str | None]  # of a fork


def _runs(act: Act) -> Callable[[Decorated], Decorated]:
    """The arguments and flags that say which runs, and how fast."""
    statuses = sorted(POSSIBLE[act])
    parameters = [
        click.argument("run_ids", metavar="[RUN]...", nargs=-1),
        click.option("--workflow", metavar="NAME", help="Runs of this workflow."),
        click.option(
            "--status",
            multiple=True,
            type=click.Choice(statuses),
            help="Runs in this status; may be given several times.",
        ),
        click.option("--cause", type=click.Choice([each.value for each in CAUSES]), help="Runs quarantined for this."),
        click.option(
            "--older-than", type=Ago(), metavar="TIME", help="Runs that ended (else: were submitted) longer ago: 2h."
        ),
        click.option(
            "--newer-than", type=Ago(), metavar="TIME", help="Runs that ended (else: were submitted) since: 30min."
        ),
        click.option("--limit", type=Whole(1, MOST), metavar="NUMBER", help="At most so many, the oldest. [all]"),
        click.option(
            "--rate", type=Rate(), metavar="N/s", help="Evenly spaced, so many at most: 5/s, 30/min. [unlimited]"
        ),
        click.option("--dry-run", is_flag=True, help="Show which runs it would be, and change nothing."),
        click.option("--yes", is_flag=True, help="Do not ask."),
        flag(STORE),
    ]

    def decorate(command: Decorated) -> Decorated:
        for parameter in reversed(parameters):
            command = parameter(command)
        return command

    return decorate


@click.command(epilog=example("pyrula runs cancel 01JA6Z5V7Q8D3K4M9N0P2R5T6W"))
@_runs(Act.cancel)
def cancel(**given: Any) -> int:
    """Cancel runs.

    One that never began ends at once; any other is unwound by a worker, so that its own compensation can run. Exit code
    1 if any refuses.
    """
    return _done(Act.cancel, given)


@click.command(epilog=example("pyrula runs pause --workflow process_order --status queued"))
@_runs(Act.pause)
def pause(**given: Any) -> int:
    """Stop runs until they are resumed.

    They are taken from their workers; a step that is under way is performed again then. Messages are kept. Exit code 1
    if any refuses.
    """
    return _done(Act.pause, given)


@click.command(epilog=example("pyrula runs resume --workflow process_order --rate 5/s"))
@_runs(Act.resume)
def resume(**given: Any) -> int:
    """Let paused runs go on.

    Exit code 1 if any refuses.
    """
    return _done(Act.resume, given)


@click.command(epilog=example("pyrula runs requeue --status quarantined --cause loop_blocked --rate 5/s"))
@_runs(Act.requeue)
def requeue(**given: Any) -> int:
    """Send runs on after a fix.

    Those named, or all that failed, are paused or were quarantined and that the flags describe. A failed run goes on at
    the step that failed it; what is held against a run is forgiven. Exit code 1 if any refuses.
    """
    return _done(Act.requeue, given)


@click.command(epilog=example("pyrula runs fork 01JA6Z5V7Q8D3K4M9N0P2R5T6W --from charge"))
@click.option(
    "--from",
    "step",
    metavar="STEP",
    help="The first step that is done again: its name, or its id as `runs show` has it. [the one that failed the run]",
)
@click.option("--version", metavar="TEXT", help="Pin the new runs to this version. [as the old ones are]")
@_runs(Act.fork)
def fork(**given: Any) -> int:
    """Restart runs from a step, each as a new run.

    The old ones stay as they are. A new run begins with what the old one had recorded before that step. Exit code 1 if
    any refuses.
    """
    return _done(Act.fork, given)


def _done(act: Act, given: dict[str, Any]) -> int:
    """Do it to the runs that the command line gives."""
    run_ids, dry_run, yes = given.pop("run_ids"), given.pop("dry_run"), given.pop("yes")
    terms: dict[str, str | None] = {name: given.pop(name) for name in ("step", "version") if name in given}
    order = _Order(act=act, store_url=given.pop("store_url"), rate=given.pop("rate"), terms=terms)
    is_described = any(value not in (None, ()) for value in given.values())
    if run_ids and is_described:
        raise UsageError("give the ids of runs, or flags that say which runs; not both")
    if run_ids:
        return _look(order, run_ids) if dry_run else _do(order, run_ids, quiet=False)
    if not is_described:
        raise UsageError(
            f"say which runs: their ids, or flags such as --status {min(POSSIBLE[act])} or --workflow NAME"
        )
    runs = _described(order, given)
    if not runs:
        say(f"no run that can be {act.done} is like that")
        return 0
    if dry_run:
        print_runs(runs[:_SHOWN])
        click.echo(f"{_counted(runs)} would be {act.done}", err=True)
        return 0
    if not yes and sys.stdin is not None and sys.stdin.isatty():
        click.confirm(f"{act.capitalize()} {_counted(runs)}?", abort=True, err=True)
    return _do(order, runs, quiet=True)


def _described(order: _Order, described: dict[str, Any]) -> Sequence[RunSummary]:
    async def work(client: WorkflowClient, _store: Store) -> Sequence[RunSummary]:
        return await client.choose(order.act, **described | {"status": described["status"] or None})

    return ask(order.store_url, work)


def _counted(runs: Sequence[RunSummary]) -> str:
    """`3 runs (2 quarantined, 1 failed)`."""
    kinds = Counter(run.status.value for run in runs)
    if len(kinds) == 1:
        return f"{len(runs):,} {runs[0].status} run{'s' * (len(runs) > 1)}"
    return f"{len(runs):,} runs ({', '.join(f'{count:,} {status}' for status, count in kinds.most_common())})"


def _look(order: _Order, run_ids: Sequence[str]) -> int:
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
            if status in POSSIBLE[order.act]:
                click.echo(f"{run_id}: {status}, would {_TOLD[order.act][1]}")
            else:
                say(f"run {run_id} is {status} and would stay so")
                code = FAILED
        return code

    return ask(order.store_url, work)


def _do(order: _Order, runs: Runs, *, quiet: bool) -> int:
    async def work(client: WorkflowClient, _store: Store) -> int:
        going = client.bulk(order.act, runs, rate=order.rate, **order.terms)
        progress = _Progress(going, order.rate, is_shown=quiet or order.rate is not None)
        try:
            async for result in going:
                progress.tell(result)
        finally:
            progress.end()
        return FAILED if going.refused else 0

    return ask(order.store_url, work)


class _Progress:
    """A line for each run, and on a terminal one that counts instead."""

    def __init__(self, going: Bulk, rate: float | None, *, is_shown: bool) -> None:
        self._going = going
        self._rate = rate
        self._total = going.left
        self._is_shown = is_shown and sys.stderr.isatty()
        # the ids of forks are news
        self._is_quiet = self._is_shown and sys.stdout.isatty() and going.act is not Act.fork

    def tell(self, result: BulkResult) -> None:
        """One more is done."""
        self._clear()
        if result.refusal is not None:
            say(str(result.refusal))
        elif not self._is_quiet:
            click.echo(f"{result.run_id}: {_TOLD[self._going.act][0]} {result.fork_id or ''}".rstrip())
        if self._is_shown and (left := self._going.left):
            rest = "" if self._rate is None else f", {spoken(round(1000 * left / self._rate))} to go"
            done = self._going.act.done
            click.echo(f"{self._going.done:,} of {self._total:,} {done}{rest}", err=True, nl=False)

    def end(self) -> None:
        """Say what was done and what was not."""
        self._clear()
        if self._total == 1 and not self._is_quiet:
            return
        refused = f", {self._going.refused:,} refused" if self._going.refused else ""
        left = f", {self._going.left:,} are as they were" if self._going.left else ""
        say(f"{self._going.done:,} of {self._total:,} runs {self._going.act.done}{refused}{left}")

    def _clear(self) -> None:
        if self._is_shown:
            click.echo(_CLEAR, err=True, nl=False)
