"""What the demonstration shows: a live table on a terminal, a line now and then anywhere else."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from examples.orders import outside

# seconds between two lines where there is no table
_LINE_EVERY_S = 1.0


class Board:
    """How far the orders of one batch are."""

    def __init__(self, batch: str, total: int) -> None:
        self._console = Console(file=sys.stdout, highlight=False)
        self._batch = batch
        self._total = total
        self._ended: Counter[str] = Counter()
        self._live: Live | None = None
        self._last_line_s = -_LINE_EVERY_S  # the first order that ends is told at once
        self._told = 0
        self._status: dict[str, Any] | None = None  # of the supervisor

    def say(self, line: str) -> None:
        """One line to a person, above the table if there is one."""
        self._console.print(line, markup=False, soft_wrap=True)

    def ended(self, status: str) -> None:
        """An order came to its end."""
        self._ended[status] += 1

    def workers_are(self, status: dict[str, Any]) -> None:
        """The supervisor says how its workers are."""
        self._status = status

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the table as long as the context lasts."""
        if not self._console.is_terminal:
            yield
            return
        with Live(self._table(), console=self._console, auto_refresh=False) as self._live:
            try:
                yield
            finally:
                self.refresh()
                self._live = None

    def refresh(self) -> None:
        """Bring what is shown up to date."""
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
        elif time.monotonic() - self._last_line_s >= _LINE_EVERY_S and self._told < self._ended.total() < self._total:
            self._last_line_s = time.monotonic()
            self._told = self._ended.total()
            self.say(self._summary())

    def _summary(self) -> str:
        kinds = ", ".join(f"{count} {status}" for status, count in sorted(self._ended.items()))
        return f"{self._ended.total()} of {self._total} orders ended ({kinds})"

    def _table(self) -> Group:
        table = Table("step", "asked for", "done", box=None, padding=(0, 4, 0, 0))
        for what, tally in outside.tallies(self._batch).items():
            table.add_row(what, str(tally.requests), str(tally.effects))
        bar = ProgressBar(total=self._total, completed=self._ended.total(), width=60)
        summary = self._summary() if self._ended else "no order ended yet"
        # a bar does not end its line by itself
        return Group(table, bar, f"\n{summary}", *(_workers(self._status) if self._status else ()))


def _workers(status: dict[str, Any]) -> tuple[str, Table]:
    supervisor = status["supervisor"]
    head = (
        f"\nsupervisor {supervisor['name']} is {supervisor['state']}: {supervisor['ready']} of {supervisor['procs']} "
        f"workers ready, {supervisor['start_method']}"
    )
    table = Table("worker", "pid", "state", "turns", "turns/s", "memory", "restarts", box=None, padding=(0, 4, 0, 0))
    for child in status["children"]:
        memory = "" if child["rss_bytes"] is None else f"{child['rss_bytes'] / 1e6:.0f} MB"
        is_worker = child["role"] == "worker"
        table.add_row(
            str(child["slot"]) if is_worker else child["role"],
            str(child["pid"] or ""),
            child["state"],
            f"{child['turns_running']}/{child['capacity']}" if is_worker else "",
            f"{child['turns_per_s']:.1f}" if is_worker else "",
            memory,
            str(child["restarts"]),
        )
    return head, table
