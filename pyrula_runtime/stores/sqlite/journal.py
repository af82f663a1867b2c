"""Journal entries: appended at a position, read in pages of whole entries."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import apsw

from pyrula_runtime.stores.sqlite.queries import named

SQL = named("journal")
PAGE_BYTES = 1_000_000


def append(db: apsw.Connection, run: int, start: int, entries: Sequence[bytes]) -> None:
    """Write entries at the positions from `start` on."""
    for seq, body in enumerate(entries, start):
        db.execute(SQL["append"], (run, seq, body))


def page(db: apsw.Connection, run: int, start: int, max_bytes: int = PAGE_BYTES) -> tuple[bytes, ...]:
    """Whole entries from `start`, together at most `max_bytes`, but at least one if there is any."""
    found: list[bytes] = []
    size = 0
    for (body,) in db.execute(SQL["page"], (run, start)):
        size += len(body)
        if found and size > max_bytes:
            break
        found.append(body)
    return tuple(found)


def clear(db: apsw.Connection, run: int) -> None:
    """Drop all entries."""
    db.execute(SQL["clear"], (run,))


def stands(db: apsw.Connection, run: int, start: int, entries: Sequence[bytes]) -> bool:
    """Whether exactly these entries are at the positions from `start` on."""
    there = islice(db.execute(SQL["page"], (run, start)), len(entries))
    return [body for (body,) in there] == list(entries)


def read(db: apsw.Connection, run_id: str, start: int, max_bytes: int) -> tuple[bytes, ...]:
    """A page of the journal of the run with this id."""
    for (run,) in db.execute(SQL["number"], (run_id,)):
        return page(db, run, start, max_bytes)
    return ()
