"""Dropping runs that ended long ago: found by a look without the write lock, dropped if they still are as they were."""

from __future__ import annotations

from collections.abc import Iterable

import apsw

from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores.sqlite.queries import named
from pyrula_runtime.stores.sqlite.transaction import Tx, rows

SQL = named("retention")
_PARTS = ("document", "journal", "inbox", "dossier", "fact")

Found = tuple[RunStatus, int]


def look(db: apsw.Connection, statuses: Iterable[RunStatus], last_ms: int, limit: int) -> list[Found]:
    """Runs that ended so and not later than that, longest ended first, but for the children of those that live."""
    found: list[Found] = []
    for status in sorted(statuses):
        left = limit - len(found)
        found += [(status, n) for (n,) in (rows(db, SQL["look"], (status, last_ms, left)) if left else ())]
    return found


def drop(tx: Tx, found: Iterable[Found], older_than_ms: int) -> int:
    """Drop these, unless they have been sent on meanwhile; how many went."""
    gone = 0
    for status, n in found:
        if tx.rows(SQL["run"], n, status, tx.wall_ms - older_than_ms):
            gone += 1
            for part in _PARTS:
                tx.rows(SQL[part], n)
    return gone
