"""`pyrula-supervisor status`: how it is, for people once or live, and for programs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import click

from pyrula_runtime.cli.commands import example
from pyrula_runtime.cli.endings import FAILED
from pyrula_runtime.core.errors import NoSupervisor
from pyrula_supervisor.asking import Door
from pyrula_supervisor.cli.doors import door
from pyrula_supervisor.cli.group import named
from pyrula_supervisor.requests import Request

_EVERY_S = 1.0
# wide enough never to cut a line that goes into a pipe
_PIPE_COLUMNS = 10_000

Document = dict[str, Any]


@click.command(epilog=example("pyrula-supervisor status --watch"))
@click.option("--json", "wants_json", is_flag=True, help="Print the status document; with --watch, one line a second.")
@click.option("--watch", is_flag=True, help="Go on showing it until Ctrl-C.")
@named
def status(*, wants_json: bool, watch: bool, name: str | None) -> int:
    """Show how the supervisor and its workers are.

    Exit code 0 if all is well, 1 if something is not as it should be, 3 if no supervisor answers.
    """
    to = door(name)
    if watch:
        return _watch(to, _json_lines() if wants_json else _live())
    document = _asked(to)
    if wants_json:
        from pyrula_runtime.cli.session import as_json

        click.echo(as_json(document))
    else:
        from pyrula_supervisor.cli.board import board

        _console().print(board(document))
    return _code(document)


def _asked(to: Door) -> Document:
    reply = to.ask(Request(command="status"))
    if reply.document is None:
        raise NoSupervisor(reply.text or f"the supervisor {to.name!r} did not tell how it is")
    return reply.document


def _code(document: Document) -> int:
    return FAILED if document["supervisor"]["degraded"] else 0


def _console() -> Any:
    from rich.console import Console

    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else _PIPE_COLUMNS, highlight=False)


def _watch(to: Door, shown: AbstractContextManager[Callable[[Document], None]]) -> int:
    """Show it every second, until somebody has seen enough: the exit code of what was seen last."""
    document = _asked(to)
    try:
        with shown as show:
            while True:
                show(document)
                time.sleep(_EVERY_S)
                document = _asked(to)
    except KeyboardInterrupt:
        return _code(document)


@contextmanager
def _json_lines() -> Iterator[Callable[[Document], None]]:
    from pyrula_runtime.cli.session import compact

    yield lambda document: click.echo(compact(document))


@contextmanager
def _live() -> Iterator[Callable[[Document], None]]:
    from rich.live import Live

    from pyrula_supervisor.cli.board import board

    console = _console()
    if not console.is_terminal:
        yield lambda document: console.print(board(document), "")
        return
    with Live(console=console, auto_refresh=False, screen=True) as live:
        yield lambda document: live.update(board(document), refresh=True)
