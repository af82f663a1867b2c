"""`pyrula submit`: create a run by the name of its workflow, and wait for it if asked to."""

from __future__ import annotations

import contextlib
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyrula_runtime.cli.commands import example
from pyrula_runtime.cli.endings import FAILED, say
from pyrula_runtime.cli.flags import STORE, flag
from pyrula_runtime.cli.numbers import LONGEST_WAIT_S, Finite, Moment, Span, Whole
from pyrula_runtime.cli.session import as_json, ask, compact
from pyrula_runtime.core.errors import RunEnded, RunQuarantined, UsageError
from pyrula_runtime.core.limits import HIGHEST_PRIORITY
from pyrula_runtime.options import IDEMPOTENCY_TTL, WorkerOptions

if TYPE_CHECKING:
    from pyrula_runtime.client.workflow_client import WorkflowClient
    from pyrula_runtime.stores.protocol import Store

# digits and sign of the longest whole number that has 64 bits
_LONGEST_WHOLE = 20


@click.command(epilog=example("""pyrula submit process_order '{"order_id": "A-17"}' --wait"""))
@click.argument("name")
@click.argument("json_input", metavar="[JSON]", default="{}")
@click.option("--idempotency-key", metavar="TEXT", help="Submit once: the same key gives the same run again.")
@click.option("--run-id", metavar="TEXT", help="Id of the new run; unset, one is made.")
@click.option(
    "--priority",
    type=Whole(-HIGHEST_PRIORITY, HIGHEST_PRIORITY),
    metavar="NUMBER",
    default=0,
    help="Of the runs that wait, higher ones are taken first. [0]",
)
@click.option("--delay", type=Span(), metavar="TIME", help="Begin so much later, such as 10min.")
@click.option("--start-at", type=Moment(), metavar="DATE", help="Begin then, such as 2026-12-24T18:00.")
@click.option("--wait", is_flag=True, help="Wait for the run to end and print its result; exit code 1 if it failed.")
@click.option("--timeout", type=Finite(0, LONGEST_WAIT_S), metavar="SECONDS", help="How long to wait; needs --wait.")
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON document.")
@flag(IDEMPOTENCY_TTL)
@flag(STORE)
def submit(
    *,
    name: str,
    json_input: str,
    idempotency_key: str | None,
    run_id: str | None,
    priority: int,
    delay: float | None,
    start_at: datetime | None,
    wait: bool,
    timeout: float | None,
    wants_json: bool,
    idempotency_ttl: str | None,
    store_url: str | None,
) -> int:
    """Submit a run of a workflow by its name.

    JSON is the input, {} if left out; '-' reads it from stdin, '@FILE' from a file.
    """
    if timeout is not None and not wait:
        raise UsageError("--timeout says how long to wait: give --wait with it")
    given = json_of(json_input)
    options = WorkerOptions.from_env(os.environ, idempotency_ttl=idempotency_ttl)

    async def work(client: WorkflowClient, _store: Store) -> int:
        handle = await client.submit(
            name,
            given,
            idempotency_key=idempotency_key,
            run_id=run_id,
            priority=priority,
            delay=delay,
            start_at=start_at,
        )
        if wait:
            click.echo(f"submitted {handle.run_id}", err=True)
        else:
            click.echo(as_json({"run_id": handle.run_id, "workflow": name}) if wants_json else handle.run_id)
        if not wait:
            return 0
        result, error = await _outcome(handle, timeout)
        if wants_json:
            click.echo(as_json(_document(await client.describe(handle.run_id))))
        elif error is None:
            click.echo(compact(result))
        return 0 if error is None else FAILED

    return ask(store_url, work, options.idempotency_ttl, makes=True)


async def _outcome(handle: Any, timeout: float | None) -> tuple[Any, RunEnded | TimeoutError | None]:
    """The result, or the error after telling it: the user's own stack, then a sentence."""
    try:
        return await handle.result(timeout=timeout), None
    except RunEnded as error:
        if error.error is not None and error.error.traceback:
            click.echo(error.error.traceback.rstrip("\n"), err=True)
        evidence = f"; see pyrula runs show {handle.run_id}" if isinstance(error, RunQuarantined) else ""
        say(f"{error}{evidence}")
        return None, error
    except TimeoutError as error:
        say(f"run {handle.run_id} has not ended after {timeout:g} s and goes on; see pyrula runs why {handle.run_id}")
        return None, error


def _document(told: dict[str, Any]) -> dict[str, Any]:
    return {key: told[key] for key in ("run_id", "workflow", "status", "result", "error")}


def json_of(argument: str) -> Any:
    """The JSON document that an argument is, or names: '-' is stdin, '@FILE' a file. UsageError says what is wrong."""
    return _parsed(_text_of(argument))


def _text_of(argument: str) -> str:
    try:
        if argument == "-":
            return sys.stdin.read()
        if argument.startswith("@"):
            return Path(argument[1:]).read_text("utf-8")
    except OSError as error:
        raise UsageError(f"cannot read the input from {argument[1:] or 'stdin'}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the input in {argument} is not UTF-8: {error.reason} at byte {error.start}") from error
    return argument


def _parsed(text: str) -> Any:
    import json

    import orjson

    try:
        tree = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise UsageError(
            f'the input is not JSON: {error}; quote it for the shell, as in \'{{"order_id": "A-17"}}\''
        ) from error
    # orjson makes floats of longer numbers, and so another input of it; what is too deep is refused when it is stored
    with contextlib.suppress(RecursionError):
        json.loads(text, parse_int=_whole)
    return tree


def _whole(digits: str) -> int:
    if len(digits) > _LONGEST_WHOLE or not -(2**63) <= int(digits) < 2**64:
        raise UsageError(f"the input has the number {digits[:30]}, and whole numbers have 64 bits; write it as text")
    return int(digits)
