"""What runs tell while they go on, numbered from 1 for each run, for whoever watches it."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from pyrula_runtime.stores.protocol import Fact
from pyrula_runtime.stores.sqlite.queries import named
from pyrula_runtime.stores.sqlite.transaction import Tx, rows

SQL = named("facts")


def tell(tx: Tx, run: int, bodies: Sequence[bytes]) -> None:
    """Add facts under the next numbers."""
    for body in bodies:
        tx.rows(SQL["tell"], run, tx.wall_ms, body)


def read(db: apsw.Connection, run_id: str, after: int, limit: int) -> tuple[Fact, ...]:
    """Some of the facts after a number."""
    found = rows(db, SQL["after"], (run_id, after, limit))
    return tuple(Fact(seq=seq, at_ms=at_ms, body=body) for seq, at_ms, body in found)
