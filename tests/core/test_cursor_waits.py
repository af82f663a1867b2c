"""The cursor and operations that nobody performs: the time they count from, children, and patches."""

from __future__ import annotations

import pytest

from pyrula_runtime.core.cursor import Answer, Asked, Cursor
from pyrula_runtime.core.entries import Completed, Entry, Failed
from pyrula_runtime.core.errors import JournalMismatch
from tests.core.journals import BROKEN, child, completed, failed, op, patch, requeued, started


def asking(journal: list[Entry], *op_ids: str) -> Cursor:
    """A cursor before its first entry, whose body has asked for these steps."""
    cursor = Cursor(journal)
    for op_id in op_ids:
        cursor.ask(op(op_id))
    return cursor


def replayed(cursor: Cursor) -> list[Entry]:
    """Replay to the end, the body doing nothing on the way."""
    entries: list[Entry] = []
    while cursor.replaying:
        entries.append(cursor.replay_next())
    return entries


# time


def test_an_operation_keeps_the_time_of_the_body_that_asked_for_it() -> None:
    cursor = Cursor([])
    cursor.ask(op("a#1"), 5_000)
    assert cursor.asked(op("a#1")) == Asked(op("a#1"), at_ms=5_000)
    assert cursor.take_unperformed() == [cursor.asked(op("a#1"))]


def test_what_an_operator_voided_begins_anew_when_he_did_so() -> None:
    cursor = Cursor([completed("a#1", at_ms=1_000), failed("b#1", at_ms=2_000), requeued(1, at_ms=9_000)])
    for op_id in ("a#1", "b#1", "c#1"):
        cursor.ask(op(op_id), 100)
    cursor.replay_next()
    assert [(asked.op.op_id, asked.at_ms) for asked in cursor.take_unperformed()] == [("b#1", 9_000), ("c#1", 100)]


# children


def test_a_started_child_is_known_when_it_is_asked_for_again_and_waits_for_its_outcome() -> None:
    cursor = Cursor([started("ship#1")])
    assert cursor.ask(child("ship#1")) is Answer.perform
    replayed(cursor)
    (asked,) = cursor.take_unperformed()
    assert (asked.started, asked.starts) == (started("ship#1"), 1)
    assert cursor.is_open(child("ship#1"))


def test_a_child_that_starts_now_is_noted() -> None:
    cursor = Cursor([])
    cursor.ask(child("ship#1"))
    (asked,) = cursor.take_unperformed()
    assert (asked.started, asked.starts) == (None, 0)
    cursor.append(started("ship#1"))
    assert asked.started == started("ship#1")


def test_a_child_that_was_started_under_another_name_does_not_fit() -> None:
    cursor = Cursor([started("ship#1")])
    with pytest.raises(JournalMismatch) as raised:
        cursor.ask(op("ship#1"))
    assert str(raised.value) == "the journal has child 'ship' (ship#1) where the code now asks for step 'ship' (ship#1)"


def test_after_a_requeue_that_voids_its_failure_another_child_is_started() -> None:
    broken = Failed(op=child("ship#1"), at_ms=0, error=BROKEN)
    cursor = Cursor([started("ship#1"), broken, requeued(1, at_ms=7)])
    cursor.ask(child("ship#1"))
    (asked,) = cursor.take_unperformed()
    assert (asked.started, asked.starts) == (None, 1)


# patches


MARKED = Completed(op=patch("way"), at_ms=0, value=None)


def test_a_new_patch_is_to_be_appended_and_is_on_record_then() -> None:
    cursor = Cursor([])
    assert cursor.mark(patch("way")) is Answer.perform
    cursor.append(MARKED)
    assert not cursor.is_open(patch("way"))
    assert not cursor.waits()


def test_a_patch_on_record_is_so_when_it_is_asked_for() -> None:
    cursor = asking([completed("a#1"), MARKED], "a#1")
    assert cursor.mark(patch("way")) is Answer.recorded
    assert replayed(cursor) == [completed("a#1"), MARKED]


def test_a_patch_where_replay_has_none_was_put_there_by_changed_code() -> None:
    cursor = asking([completed("a#1"), completed("b#1")], "a#1", "b#1")
    assert cursor.mark(patch("way")) is Answer.passed
    assert replayed(cursor) == [completed("a#1"), completed("b#1")]


def test_a_patch_that_the_code_has_done_with_is_let_be() -> None:
    cursor = asking([MARKED, completed("a#1"), MARKED], "a#1")
    assert replayed(cursor) == [MARKED, completed("a#1"), MARKED]
    Cursor([MARKED]).check_ended()


def test_how_far_an_operation_is_can_be_asked() -> None:
    assert asking([], "a#1").asked(op("a#1")) == Asked(op("a#1"))
