"""`pyrula runs replay`: would this run go on with the code of today? Nothing is performed and nothing is written.

For a deploy: replay the runs that are under way through the new code, and see before it serves what would be paused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from pyrula_runtime.cli.commands import example
from pyrula_runtime.cli.endings import FAILED, say
from pyrula_runtime.cli.flags import STORE, flag
from pyrula_runtime.cli.session import ask
from pyrula_runtime.cli.worker import of_app
from pyrula_runtime.core.errors import RunNotFound, UsageError
from pyrula_runtime.core.rehearsing import End, Verdict, verdict

if TYPE_CHECKING:
    from pyrula_runtime.client.workflow_client import WorkflowClient
    from pyrula_runtime.engine.payloads import Payloads
    from pyrula_runtime.engine.program import Program
    from pyrula_runtime.stores.protocol import RunRecord, Store


@click.command(epilog=example("pyrula runs replay 01JA6Z5V7Q8D3K4M9N0P2R5T6W --workflow app"))
@click.argument("run_ids", metavar="RUN...", nargs=-1, required=True)
@click.option(
    "--workflow",
    "targets",
    multiple=True,
    required=True,
    metavar="MODULE[:ATTR]",
    help="The code: a workflow, or a module, for all that it registers; may be given several times.",
)
@flag(STORE)
def replay(run_ids: Sequence[str], targets: Sequence[str], store_url: str | None) -> int:
    """Replay runs through the code of today, without effects.

    Says of each run whether its journal fits the code, and what the code would do next. Exit code 1 if one does not
    fit.
    """
    from pyrula_runtime.workflows import app

    programs = {each.name: each for each in of_app(app.programs, targets)}

    async def work(client: WorkflowClient, store: Store) -> int:
        code = 0
        for run_id in run_ids:
            judged = await _judged(store, run_id, programs, client.payloads)
            word = click.style("fits", fg="green") if judged.fits else click.style("does not fit", fg="red")
            click.echo(f"{run_id} {word}: {judged.sentence}")
            code = code if judged.fits else FAILED
        if code:
            say("what does not fit is paused when a worker takes it, and loses nothing")
        return code

    return ask(store_url, work)


async def _judged(store: Store, run_id: str, programs: dict[str, Program], payloads: Payloads) -> Verdict:
    from pyrula_runtime.client.door import Door
    from pyrula_runtime.engine.rehearsal import rehearse

    record = await store.read(run_id)
    if record is None:
        raise RunNotFound(run_id)
    program = programs.get(record.workflow)
    if program is None:
        raise UsageError(f"run {run_id} is one of {record.workflow!r}, but the code given defines {_listed(programs)}")
    journal = await Door(store).journal(record)
    rehearsed = await rehearse(record, journal, program, payloads)
    return verdict(_end(record, payloads), _end(rehearsed.record, payloads), rehearsed.next_steps)


def _end(record: RunRecord, payloads: Payloads) -> End:
    return End(
        status=record.status,
        value=None if record.result is None else payloads.load_json(record.result),
        error=None if record.error is None else payloads.for_people().load_error(record.error),
    )


def _listed(programs: dict[str, Program]) -> str:
    return ", ".join(map(repr, sorted(programs)))
