"""`pyrula runs signal`: send a run a signal, from a person or a script."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pyrula_runtime.cli.commands import example
from pyrula_runtime.cli.flags import STORE, flag
from pyrula_runtime.cli.session import ask
from pyrula_runtime.cli.submit import json_of

if TYPE_CHECKING:
    from pyrula_runtime.client.workflow_client import WorkflowClient
    from pyrula_runtime.stores.protocol import Store


@click.command(epilog=example("""pyrula runs signal 01JA6Z5V7Q8D3K4M9N0P2R5T6W approve '{"by": "Ann"}'"""))
@click.argument("run_id", metavar="RUN")
@click.argument("name")
@click.argument("json_payload", metavar="[JSON]", default="null")
@click.option("--message-id", metavar="TEXT", help="Send once: a repetition with the same id changes nothing.")
@flag(STORE)
def send(*, run_id: str, name: str, json_payload: str, message_id: str | None, store_url: str | None) -> int:
    """Send a signal to a run; it is kept until the run waits for it.

    JSON is the payload, null if left out; '-' reads it from stdin, '@FILE' from a file.
    """
    payload = json_of(json_payload)

    async def work(client: WorkflowClient, _store: Store) -> int:
        await client.signal(run_id, name, payload, message_id=message_id)
        click.echo(f"{run_id}: signal {name!r} sent")
        return 0

    return ask(store_url, work)
