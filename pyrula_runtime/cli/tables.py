"""Output for people: tables, aligned fields, times; colour only on a terminal, and rich loaded only for a table."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence

import click

from pyrula_runtime.core.spans import ago, ahead

# control characters but newline and tab: stored text may come from anywhere, and a terminal obeys them
_CONTROL = {code: "\N{REPLACEMENT CHARACTER}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}
# wide enough never to cut a line that goes into a pipe
_PIPE_COLUMNS = 10_000
_SIZES = ("B", "KB", "MB", "GB", "TB")
_STATUS_COLOURS = {
    "queued": "yellow",
    "running": "cyan",
    "waiting": "blue",
    "paused": "magenta",
    "completed": "green",
    "failed": "red",
    "cancelled": "bright_black",
    "quarantined": "bright_red",
}


def harmless(text: str) -> str:
    """Text that a terminal can only show."""
    return text.translate(_CONTROL)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under headings, as wide as the terminal is; into a pipe as wide as they are."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table(*headings, box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for row in rows:
        made.add_row(*(Text(harmless(cell), style=_STATUS_COLOURS.get(cell, "")) for cell in row))
    width = None if sys.stdout.isatty() else _PIPE_COLUMNS
    Console(file=sys.stdout, width=width, highlight=False, soft_wrap=False).print(made)


def fields(pairs: Iterable[tuple[str, str]]) -> None:
    """Print names and values, aligned; a value of several lines stays in its column."""
    kept = [(name, harmless(value)) for name, value in pairs if value]
    width = max((len(name) for name, _ in kept), default=0)
    for name, value in kept:
        first, *more = value.split("\n")
        click.echo("\n".join([f"{name:<{width}}  {first}", *(f"{'':<{width}}  {line}" for line in more)]))


def local(at_ms: int) -> str:
    """A date in the time zone of this machine."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_ms / 1000))


def dated(at_ms: int | None, now_ms: int) -> str:
    """A date and how long ago it was; nothing for what has not happened."""
    return "" if at_ms is None else f"{local(at_ms)} ({ago(at_ms, now_ms)})"


def coming(at_ms: int | None, now_ms: int) -> str:
    """A date to come and how soon it is; nothing for what does not come."""
    return "" if at_ms is None else f"{local(at_ms)} ({ahead(at_ms, now_ms)})"


def size(count: int) -> str:
    """Bytes as people read them."""
    if count < 1000:
        return f"{count} B"
    power = min((len(str(count)) - 1) // 3, 4)
    amount = count / 1000**power
    return f"{amount:.0f} {_SIZES[power]}" if amount >= 100 else f"{amount:.1f} {_SIZES[power]}"
