"""Events until every workflow that wants them has taken them.

`event_for` holds what is still to be taken. The event's row counts that, so that one which is settled, and one which
nobody wants, is told from others by its row alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import merge
from itertools import islice
from typing import Any

import apsw

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.stores.protocol import Emission, Event, NewRun, PendingEvent, Wake
from pyrula_runtime.stores.sqlite import submits
from pyrula_runtime.stores.sqlite.queries import named
from pyrula_runtime.stores.sqlite.transaction import Tx, rows

SQL = named("events")


def is_news(db: apsw.Connection, workflow: str, version: str | None, names: frozenset[str]) -> bool:
    """Whether subscribing would change anything: a name that is subscribed to has no deferred events."""
    return {name for (name,) in rows(db, SQL["subscribed"], (workflow, version or ""))} != names


def subscribe(tx: Tx, workflow: str, version: str | None, names: frozenset[str]) -> None:
    """Replace the names, and take over what was deferred for want of a subscriber."""
    tx.rows(SQL["unsubscribe"], workflow, version or "")
    for name in sorted(names):
        tx.rows(SQL["subscribe"], workflow, version or "", name)
        for (event,) in tx.rows(SQL["deferred_of"], name):
            tx.rows(SQL["adopt"], event)
            tx.rows(SQL["assign"], workflow, event)
            tx.wakes.add(Wake.timer)


def emit(tx: Tx, event: Event) -> Emission:
    """Keep the event for each workflow that is subscribed to its name."""
    kept = tx.rows(SQL["keep"], event.event_id, event.name, event.body, event.ttl_ms, tx.wall_ms)
    if not kept:
        return Emission.duplicate
    if tx.strained:
        raise StoreUnavailable("the disk is full: no new events until some space is free, pyrula goes on by itself")
    ((n,),) = kept
    wanted_by = len(tx.rows(SQL["share"], n, event.name))
    if wanted_by:
        tx.rows(SQL["shared"], n, wanted_by)
        tx.wakes.add(Wake.timer)
    return Emission.accepted


def pending(
    db: apsw.Connection, workflows: frozenset[str] | None, limit: int, after: PendingEvent | None
) -> tuple[PendingEvent, ...]:
    """What is still to be taken, oldest first."""
    lines: Iterable[list[tuple[Any, ...]]]
    place, last = (-1, "") if after is None else after.order
    if workflows is None:
        lines = [rows(db, SQL["pending"], (place, last, limit)), rows(db, SQL["deferred"], (place, limit))]
    else:
        firsts = {workflow: place if workflow > last else place + 1 for workflow in sorted(workflows)}
        lines = [rows(db, SQL["pending_of"], (workflow, first, limit)) for workflow, first in firsts.items()]
    return tuple(map(_pending, islice(merge(*lines), limit)))


def _pending(row: tuple[Any, ...]) -> PendingEvent:
    place, workflow, event_id, name, body, ttl_ms, emitted_ms = row
    event = Event(event_id=event_id, name=name, body=body, ttl_ms=ttl_ms)
    return PendingEvent(event=event, workflow=workflow or None, emitted_ms=emitted_ms, place=place)


def settle(tx: Tx, event_id: str, workflow: str, run: NewRun | None) -> bool:
    """Take the event for a workflow, with the run that comes of it."""
    taken = tx.rows(SQL["take"], event_id, workflow)
    if not taken:
        return False
    tx.rows(SQL["taken"], taken[0][0])
    if run is not None:
        submits.submit(tx, run)
    return True


def purge(tx: Tx, limit: int) -> int:
    """Drop settled events whose time is over."""
    return len(tx.rows(SQL["purge"], tx.wall_ms, limit))
