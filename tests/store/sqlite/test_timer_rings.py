"""Who makes the timer round is woken by what is due before all else, and by nothing else: sleeping runs are many."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from pyrula_runtime.core.status import DUE, RunStatus
from pyrula_runtime.stores.protocol import Event, ScheduleRecord, Wake
from pyrula_runtime.stores.sqlite import events, schedules, schema, submits, waits
from pyrula_runtime.stores.sqlite.transaction import Tx
from tests.store.samples import new_run


@pytest.fixture
def db(tmp_path: Path) -> Iterator[apsw.Connection]:
    with closing(apsw.Connection(str(tmp_path / "rings.db"))) as db:
        schema.migrate(db, tmp_path / "rings.db", 0)
        yield db


def wakes_of_start(db: apsw.Connection, at_ms: int) -> set[Wake]:
    tx = Tx(db, wall_ms=0, mono_ms=0)
    submits.submit(tx, replace(new_run(), status=RunStatus.waiting, start_at_ms=at_ms))
    return tx.wakes


def test_only_a_start_before_all_others_rings(db: apsw.Connection) -> None:
    assert [wakes_of_start(db, at_ms) for at_ms in (100, 200, 100, 99)] == [{Wake.timer}, set(), set(), {Wake.timer}]


def test_a_round_that_wakes_nobody_rings_for_nobody(db: apsw.Connection) -> None:
    wakes_of_start(db, 100)
    for now_ms, expected in ((99, set()), (100, {Wake.ready}), (101, set())):
        tx = Tx(db, wall_ms=now_ms, mono_ms=0)
        waits.wake_due(tx, DUE, 10)
        assert tx.wakes == expected


def test_only_a_schedule_before_all_others_rings(db: apsw.Connection) -> None:
    rung = []
    for name, next_ms in (("a", 100), ("b", 200), ("c", None), ("d", 99)):
        tx = Tx(db, wall_ms=0, mono_ms=0)
        schedules.put(tx, ScheduleRecord(schedule_id=name, rev=0, record=b"", next_ms=next_ms))
        rung.append(tx.wakes)
    assert rung == [{Wake.timer}, set(), set(), {Wake.timer}]


def test_an_event_that_nobody_wants_rings_for_nobody(db: apsw.Connection) -> None:
    tx = Tx(db, wall_ms=0, mono_ms=0)
    events.emit(tx, Event(event_id="e", name="n", body=b""))
    assert tx.wakes == set()
