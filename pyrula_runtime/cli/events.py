"""`pyrula emit` and `pyrula events`: tell an event, and see those that have begun no run yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from pyrula_runtime.cli.commands import example
from pyrula_runtime.cli.endings import say
from pyrula_runtime.cli.flags import STORE, flag
from pyrula_runtime.cli.numbers import Whole
from pyrula_runtime.cli.runs import now_ms
from pyrula_runtime.cli.session import as_json, ask, compact
from pyrula_runtime.cli.submit import json_of
from pyrula_runtime.cli.tables import table
from pyrula_runtime.core.spans import ago

if TYPE_CHECKING:
    from pyrula_runtime.client.emitting import Emitted, WaitingEvent
    from pyrula_runtime.client.workflow_client import WorkflowClient
    from pyrula_runtime.stores.protocol import Store

# characters of a payload in a row
_PAYLOAD_WIDTH = 60


@click.command(epilog=example("""pyrula emit order.created '{"order_id": "A-17"}' --id A-17"""))
@click.argument("name")
@click.argument("json_payload", metavar="[JSON]", default="{}")
@click.option(
    "--id", "event_id", metavar="TEXT", help="Tell it once: one of the same name and id does not count again."
)
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON document.")
@flag(STORE)
def emit(*, name: str, json_payload: str, event_id: str | None, wants_json: bool, store_url: str | None) -> None:
    """Tell an event, and so begin runs.

    Each workflow that it starts begins one. JSON is the payload, which is the run's input, {} if left out; '-' reads it
    from stdin, '@FILE' from a file. Prints the event's id.
    """
    payload = json_of(json_payload)

    async def work(client: WorkflowClient, _store: Store) -> Emitted:
        return await client.emit(name, payload, id=event_id)

    emitted = ask(store_url, work, makes=True)
    if not emitted.is_new:
        say(f"an event {name!r} with the id {emitted.event_id!r} was told before, and counts once")
    click.echo(as_json(asdict(emitted)) if wants_json else emitted.event_id)


@click.command(epilog=example("pyrula events"))
@click.option("--limit", type=Whole(1, 10_000), metavar="NUMBER", default=50, help="How many, oldest first. [50]")
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON document.")
@flag(STORE)
def events(*, limit: int, wants_json: bool, store_url: str | None) -> None:
    """List events that have begun no run yet.

    No workflow wants them, or no worker could take them.
    """

    async def work(client: WorkflowClient, _store: Store) -> Sequence[WaitingEvent]:
        return await client.waiting_events(limit)

    found = ask(store_url, work)
    if wants_json:
        click.echo(as_json([asdict(each) for each in found]))
    elif found:
        table(["event", "id", "waits for", "told", "payload"], [_row(each, now_ms()) for each in found])
        if len(found) == limit:
            click.echo(f"only the oldest {limit}; --limit shows more", err=True)
    else:
        click.echo("no event waits", err=True)


def _row(event: WaitingEvent, now_at_ms: int) -> list[str]:
    payload = compact(event.payload)
    if len(payload) > _PAYLOAD_WIDTH:
        payload = payload[: _PAYLOAD_WIDTH - 1] + "…"
    waits_for = event.workflow or "any workflow that wants it"
    return [event.name, event.event_id, waits_for, ago(event.emitted_ms, now_at_ms), payload]
