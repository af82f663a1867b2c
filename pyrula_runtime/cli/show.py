"""`pyrula runs show`: one run in full; its journal as a timeline, for people, or the whole document, for programs.

A journal dates outcomes, so a line says when something was over: since the run was first claimed, and since the line
before, which for steps that follow each other is how long the step took.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from pyrula_runtime.cli.commands import example
from pyrula_runtime.cli.evidence import is_poison, print_evidence
from pyrula_runtime.cli.flags import STORE, flag
from pyrula_runtime.cli.runs import now_ms
from pyrula_runtime.cli.session import as_json, ask, compact
from pyrula_runtime.cli.tables import coming, dated, fields, harmless, size
from pyrula_runtime.core.errors import JournalMismatch
from pyrula_runtime.core.limits import WARN_SHARE
from pyrula_runtime.core.spans import spoken

if TYPE_CHECKING:
    from pyrula_runtime.client.workflow_client import WorkflowClient
    from pyrula_runtime.stores.protocol import Store

# characters of a value on a line; --json has all of it
_VALUE_WIDTH = 120


@click.command(epilog=example("pyrula runs show 01JA6Z5V7Q8D3K4M9N0P2R5T6W"))
@click.argument("run_id", metavar="RUN")
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON document, with every value in full.")
@flag(STORE)
def show(run_id: str, *, wants_json: bool, store_url: str | None) -> None:
    """Show one run with its journal as a timeline."""

    async def work(client: WorkflowClient, _store: Store) -> dict[str, Any]:
        return await client.describe(run_id)

    told = ask(store_url, work)
    if wants_json:
        click.echo(as_json(told))
        return
    _print_header(told, now_ms())
    stacks = _Stacks()
    if told["journal"]:
        click.echo()
        for line in timeline(told, stacks):
            click.echo(line)
    if told["error"] is not None:
        click.echo()
        for line in _error_lines(told["error"], stacks):
            click.echo(line)
    print_evidence(told, now_ms())


def _print_header(told: dict[str, Any], now_at_ms: int) -> None:
    version = "" if told["version"] is None else f" (version {told['version']})"
    requested = " (cancellation requested)" if told["cancel_requested"] and told["finished_ms"] is None else ""
    waited = _span(told["created_ms"], told["started_ms"])
    took = _span(told["started_ms"], told["finished_ms"])
    fields(
        [
            ("run", told["run_id"]),
            ("workflow", f"{told['workflow']}{version}"),
            ("status", f"{told['status']}{requested}"),
            ("priority", f"{told['priority']}" if told["priority"] else ""),
            ("schedule", told["schedule"] or ""),
            ("created", dated(told["created_ms"], now_at_ms)),
            ("starts", coming(told["start_at_ms"], now_at_ms) if told["started_ms"] is None else ""),
            ("wakes", coming(told["due_ms"], now_at_ms) if told["started_ms"] is not None else ""),
            ("waits for", told["awaits"] or ""),
            ("started", dated(told["started_ms"], now_at_ms) + (f", queued for {waited}" if waited else "")),
            ("finished", dated(told["finished_ms"], now_at_ms) + (f", took {took}" if took else "")),
            ("charges", f"{len(told['charges'])}" if told["charges"] else ""),
            ("marks", f"{len(told['marks'])}" if told["marks"] else ""),
            ("suspect", "yes: it is tried again alone" if told["suspect"] else ""),
            ("held by", told["owner"] or ""),
            ("shows", _cut(compact(told["shown"])) if told["shown"] is not None else ""),
            ("journal", _warning(told)),
            ("input", _cut(compact(told["input"]))),
            ("result", _cut(compact(told["result"])) if told["status"] == "completed" else ""),
        ]
    )


def _warning(told: dict[str, Any]) -> str:
    """How large the journal is, once that is a reason to change the workflow."""
    share: float = told["journal_share"]
    if share < WARN_SHARE:
        return ""
    entries, bytes_ = len(told["journal"]), size(told["journal_bytes"])
    return f"{entries:,} entries, {bytes_}: {share:.0%} of what it may have; split the work, or use continue_as_new"


def _span(start_ms: int | None, end_ms: int | None) -> str:
    return "" if start_ms is None or end_ms is None else spoken(end_ms - start_ms)


class _Stacks:
    """The user's stacks, each shown once: attempts of one step mostly fail at the same line."""

    def __init__(self) -> None:
        self._shown: set[str] = set()

    def lines(self, error: dict[str, Any]) -> list[str]:
        """The stack of this error, if it has one that was not shown yet."""
        stack = (error.get("traceback") or "").rstrip("\n")
        if not stack or stack in self._shown:
            return []
        self._shown.add(stack)
        return [harmless(line) for line in stack.split("\n")]


def timeline(told: dict[str, Any], stacks: _Stacks) -> Iterator[str]:
    """The journal, a line for each entry and more for an error."""
    journal = told["journal"]
    start_ms = told["started_ms"] or told["created_ms"]
    before_ms = start_ms
    width = max(len(entry.get("op_id", "")) for entry in journal)
    yield f"{'at':>10}  {'after':>9}  {'operation':<{width}}  outcome"
    for entry in journal:
        at = f"+{spoken(entry['at_ms'] - start_ms)}"
        after = spoken(entry["at_ms"] - before_ms)
        before_ms = entry["at_ms"]
        voided = click.style(" (done again after a requeue)", dim=True) if entry.get("voided") else ""
        outcome = harmless(_outcome(entry, start_ms))
        yield f"{at:>10}  {after:>9}  {entry.get('op_id', ''):<{width}}  {outcome}{voided}"
        if "error" in entry:
            yield from (f"{'':>23}{line}" for line in stacks.lines(entry["error"]))


def _outcome(entry: dict[str, Any], start_ms: int) -> str:
    match entry["kind"]:
        case "completed":
            return _cut(compact(entry["value"]))
        case "failed":
            return f"failed: {_sentence(entry['error'])}"
        case "attempt_failed":
            again = spoken(entry["retry_at_ms"] - start_ms)
            return f"attempt {entry['attempt']} failed, next at +{again}: {_sentence(entry['error'])}"
        case "withdrawn":
            return "cancelled by the workflow itself"
        case "cancel_requested":
            return "cancellation requested"
        case "deadline_passed":
            return "the run's timeout passed"
        case "started":
            return f"started run {entry['child']}"
        case "requeued":
            return "requeued by an operator"
        case "resumed":
            return "resumed by an operator"
        case "forked":
            return f"forked from run {entry['source']}, which recorded what stands above it"
        case kind:
            return str(kind)


def _sentence(error: dict[str, Any]) -> str:
    first, newline, _ = f"{error['type']}: {error['message']}".partition("\n")
    return f"{first} …" if newline else first


def _error_lines(error: dict[str, Any], stacks: _Stacks) -> Iterator[str]:
    yield click.style(f"{error['type']}: {harmless(error['message'])}", fg="red")
    yield from stacks.lines(error)
    if is_poison(error):
        return
    if error["type"] == JournalMismatch.__name__ and error["detail"]:
        yield from (f"{name:<8}{harmless(str(value))}" for name, value in error["detail"].items())
        return
    detail = {name: value for name, value in (error.get("detail") or {}).items() if value not in ("", None)}
    if detail:
        yield harmless(", ".join(f"{name} = {value}" for name, value in detail.items()))


def _cut(text: str) -> str:
    return text if len(text) <= _VALUE_WIDTH else f"{text[:_VALUE_WIDTH]}… ({len(text):,} characters)"
