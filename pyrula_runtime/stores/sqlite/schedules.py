"""Schedules: written by whoever has read their present revision, so of many hosts that fire one, one does."""

from __future__ import annotations

import apsw

from pyrula_runtime.stores.protocol import Firing, ScheduleRecord, Schedules, Wake
from pyrula_runtime.stores.sqlite import effects
from pyrula_runtime.stores.sqlite.queries import named
from pyrula_runtime.stores.sqlite.transaction import Tx, rows

SQL = named("schedules")


def put(tx: Tx, schedule: ScheduleRecord) -> bool:
    """Make a schedule, or write one that is still as it was read."""
    if schedule.rev == 0:
        done = bool(tx.rows(SQL["first"], schedule.schedule_id, schedule.record, schedule.next_ms))
        return done and _ring(tx, schedule.schedule_id, schedule.next_ms)
    return _move(tx, schedule)


def _move(tx: Tx, to: ScheduleRecord | Firing) -> bool:
    done = bool(tx.rows(SQL["move"], to.schedule_id, to.rev, to.record, to.next_ms))
    return done and _ring(tx, to.schedule_id, to.next_ms)


def _ring(tx: Tx, schedule_id: str, next_ms: int | None) -> bool:
    if next_ms is not None and not tx.rows(SQL["sooner"], next_ms, schedule_id):
        tx.wakes.add(Wake.timer)
    return True


def fire(tx: Tx, firing: Firing) -> bool:
    """Move a schedule on, with what comes of it."""
    if not _move(tx, firing):
        return False
    effects.perform(tx, firing.effects)
    return True


def drop(tx: Tx, schedule_id: str) -> bool:
    """Forget a schedule."""
    return bool(tx.rows(SQL["drop"], schedule_id))


def read(db: apsw.Connection, now_ms: int, *, due_only: bool) -> Schedules:
    """All of them, or those whose time has come."""
    found = rows(db, SQL["due"], (now_ms,)) if due_only else rows(db, SQL["all"])
    soonest = rows(db, SQL["next"])
    return Schedules(
        records=tuple(
            ScheduleRecord(schedule_id=schedule_id, rev=rev, record=record, next_ms=next_ms)
            for schedule_id, rev, record, next_ms in found
        ),
        next_ms=soonest[0][0] if soonest else None,
        now_ms=now_ms,
    )
