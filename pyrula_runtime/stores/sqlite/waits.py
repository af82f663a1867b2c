"""Suspending runs and sending them on: when what they wait for has come, they are claimable again where they stood.

A run waits while it is neither claimable nor held; `due_ms` and `hears` say for what. The turn that suspends it looked
at clock and inbox before its write; here both are looked at again inside of it, so nothing falls in between.
"""

from __future__ import annotations

import apsw

from pyrula_runtime.core.status import Moves, RunStatus
from pyrula_runtime.stores.protocol import Wait, Wake, Woken
from pyrula_runtime.stores.sqlite.queries import named
from pyrula_runtime.stores.sqlite.transaction import Tx, rows

SQL = named("waits")
MOST_AT_ONCE = 500  # a transaction keeps everybody else from writing


def go_on(tx: Tx, run: int, status: RunStatus, *, is_change: bool = True) -> None:
    """Make a run claimable that is not held; a change of its own counts as a revision."""
    tx.rows(SQL["go_on"], run, status, int(is_change))
    tx.wakes.add(Wake.ready)


def has_come(tx: Tx, wait: Wait, inbox_len: int, *, cancelled: bool) -> bool:
    """Whether the run has what it is about to wait for."""
    return (
        (wait.due_ms is not None and wait.due_ms <= tx.wall_ms)
        or (wait.inbox_seen is not None and wait.inbox_seen < inbox_len)
        or (cancelled and not wait.cancel_seen)
    )


def ring_if_sooner(tx: Tx, run: int, status: RunStatus, due_ms: int | None) -> None:
    """Tell whoever makes the timer round, if no other run is due before this one."""
    if due_ms is not None and not tx.rows(SQL["sooner"], status, due_ms, run):
        tx.wakes.add(Wake.timer)


def look(db: apsw.Connection, moves: Moves, now_ms: int) -> Woken:
    """When the next run is due."""
    dues = [due_ms for status in moves for (due_ms,) in rows(db, SQL["next"], (status,))]
    return Woken(woken=0, next_due_ms=min(dues, default=None), now_ms=now_ms)


def wake_due(tx: Tx, moves: Moves, limit: int) -> Woken:
    """Send on the runs whose time has come."""
    woken, left = 0, min(limit, MOST_AT_ONCE)
    for status, target in moves.items():
        woken += len(tx.rows(SQL["due"], target, status, tx.wall_ms, left - woken))
    if woken:
        tx.wakes.add(Wake.ready)
    following = look(tx.db, moves, tx.wall_ms)
    return Woken(woken=woken, next_due_ms=following.next_due_ms, now_ms=tx.wall_ms)
