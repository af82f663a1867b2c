"""The cursor, rule by rule: its answers, its mismatches word for word, withdrawals, attempts and requeues."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyrula_runtime.core.cursor import Answer, Asked, Cursor
from pyrula_runtime.core.entries import Entry, Op, OpKind
from pyrula_runtime.core.errors import JournalMismatch
from tests.core.journals import attempt, cancel, completed, deadline, failed, op, requeued, withdrawn

OTHER_A = Op(op_id="a#1", kind=OpKind.step, name="other")


def asking(journal: list[Entry], *op_ids: str) -> Cursor:
    """A cursor before its first entry, whose body has asked for these operations."""
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


def mismatch(act: Callable[[], object]) -> str:
    with pytest.raises(JournalMismatch) as raised:
        act()
    return str(raised.value)


# answers


def test_nobody_has_the_outcome_of_a_new_operation() -> None:
    cursor = Cursor([])
    assert not cursor.replaying
    assert cursor.ask(op("a#1")) is Answer.perform
    assert cursor.wants(op("a#1"))
    assert cursor.is_open(op("a#1"))
    assert cursor.take_unperformed() == [Asked(op("a#1"))]


@pytest.mark.parametrize("outcome", [completed("a#1"), failed("a#1"), withdrawn("a#1")])
def test_an_operation_with_an_outcome_is_recorded(outcome: Entry) -> None:
    cursor = Cursor([outcome])
    assert cursor.ask(op("a#1")) is Answer.recorded
    assert cursor.take_unperformed() == []


def test_failed_attempts_alone_are_no_outcome() -> None:
    cursor = Cursor([attempt("a#1", 1)])
    assert cursor.ask(op("a#1")) is Answer.perform


def test_entries_enter_in_their_order_and_close_their_operations() -> None:
    journal: list[Entry] = [completed("b#1", 2), failed("a#1"), cancel(), deadline()]
    cursor = asking(journal, "a#1", "b#1", "c#1")
    assert cursor.replay_next() is journal[0]
    assert [cursor.is_open(op(each)) for each in ("a#1", "b#1", "c#1")] == [True, False, True]
    assert cursor.replaying
    assert replayed(cursor) == journal[1:]
    assert [cursor.is_open(op(each)) for each in ("a#1", "b#1", "c#1")] == [False, False, True]
    assert cursor.wants(op("a#1"))
    assert not cursor.replaying


def test_operations_that_change_places_still_match() -> None:
    journal: list[Entry] = [completed("a#1"), completed("b#1")]
    assert replayed(asking(journal, "b#1", "a#1")) == journal


def test_the_length_is_the_whole_journals_and_grows_with_what_is_appended() -> None:
    cursor = asking([completed("a#1")], "a#1", "b#1")
    assert cursor.length == 1
    replayed(cursor)
    assert cursor.length == 1
    cursor.append(completed("b#1"))
    cursor.append(cancel())
    assert cursor.length == 3
    assert not cursor.is_open(op("b#1"))
    assert not cursor.replaying


# what is to be performed


def test_nothing_is_given_out_before_everything_recorded_is_replayed() -> None:
    cursor = asking([completed("a#1"), completed("b#1")], "c#1", "a#1", "b#1")
    assert cursor.take_unperformed() == []
    cursor.replay_next()
    assert cursor.take_unperformed() == []
    cursor.replay_next()
    assert cursor.take_unperformed() == [Asked(op("c#1"))]


def test_operations_are_given_out_once_in_the_order_of_asking() -> None:
    cursor = asking([], "b#1", "a#1")
    assert [asked.op.op_id for asked in cursor.take_unperformed()] == ["b#1", "a#1"]
    cursor.ask(op("c#1"))
    assert [asked.op.op_id for asked in cursor.take_unperformed()] == ["c#1"]
    assert cursor.take_unperformed() == []


def test_failed_attempts_are_restored_with_the_time_of_the_next() -> None:
    journal: list[Entry] = [attempt("a#1", 1, at_ms=5_000), attempt("a#1", 2, at_ms=9_000)]
    cursor = asking(journal, "a#1", "b#1")
    replayed(cursor)
    a, b = cursor.take_unperformed()
    assert (a.op, a.attempts, a.retry_at_ms) == (op("a#1"), 2, 10_000)
    assert (b.op, b.attempts, b.retry_at_ms) == (op("b#1"), 0, 0)
    assert cursor.is_open(op("a#1"))


def test_a_live_attempt_is_noted_too() -> None:
    cursor = asking([], "a#1")
    (asked,) = cursor.take_unperformed()
    cursor.append(attempt("a#1", 1, at_ms=500))
    assert (asked.attempts, asked.retry_at_ms, asked.settled) == (1, 1_500, False)


# withdrawals


def test_a_live_withdrawal_is_to_be_appended_once() -> None:
    cursor = asking([], "a#1", "b#1")
    assert cursor.withdraw(op("a#1")) is True
    assert cursor.withdraw(op("a#1")) is False
    cursor.append(withdrawn("a#1"))
    assert not cursor.is_open(op("a#1"))
    assert not cursor.wants(op("a#1"))
    assert cursor.finish_replay() == []
    assert [asked.op.op_id for asked in cursor.take_unperformed()] == ["b#1"]


def test_whoever_was_given_an_operation_sees_its_withdrawal() -> None:
    cursor = asking([], "a#1")
    (asked,) = cursor.take_unperformed()
    cursor.withdraw(op("a#1"))
    assert asked.withdrawn


def test_a_withdrawal_after_the_outcome_changes_nothing() -> None:
    cursor = asking([], "a#1")
    cursor.append(completed("a#1"))
    assert cursor.withdraw(op("a#1")) is False
    assert cursor.wants(op("a#1"))


def test_a_withdrawal_on_record_is_not_appended_again() -> None:
    cursor = asking([completed("a#1"), withdrawn("b#1")], "a#1", "b#1")
    cursor.replay_next()
    assert cursor.withdraw(op("b#1")) is False
    assert cursor.is_open(op("b#1"))
    assert replayed(cursor) == [withdrawn("b#1")]
    assert not cursor.is_open(op("b#1"))
    assert cursor.finish_replay() == []


def test_a_withdrawal_during_replay_that_is_missing_comes_out_at_its_end() -> None:
    cursor = asking([completed("a#1"), completed("c#1")], "a#1", "b#1", "c#1", "d#1")
    cursor.replay_next()
    assert cursor.withdraw(op("d#1")) is False
    assert cursor.withdraw(op("b#1")) is False
    replayed(cursor)
    assert cursor.take_unperformed() == []
    assert cursor.finish_replay() == [op("d#1"), op("b#1")]
    assert cursor.finish_replay() == []


def test_the_last_entry_is_replayed_before_the_body_runs_on_it_so_withdrawing_then_is_live() -> None:
    cursor = asking([completed("a#1")], "a#1", "b#1")
    cursor.replay_next()
    assert cursor.withdraw(op("b#1")) is True
    assert cursor.finish_replay() == []


@pytest.mark.parametrize("outcome", [completed("b#1"), failed("b#1")])
def test_an_outcome_on_record_that_is_withdrawn_before_its_place_is_unwanted_but_fits(outcome: Entry) -> None:
    cursor = asking([completed("a#1"), outcome], "a#1", "b#1")
    cursor.replay_next()
    assert cursor.withdraw(op("b#1")) is False
    assert replayed(cursor) == [outcome]
    assert not cursor.wants(op("b#1"))
    assert cursor.finish_replay() == []


def test_attempts_of_a_withdrawn_operation_fit() -> None:
    journal: list[Entry] = [attempt("a#1", 1), withdrawn("a#1")]
    cursor = asking(journal, "a#1")
    cursor.withdraw(op("a#1"))
    assert replayed(cursor) == journal


# mismatches


def test_another_operation_under_the_same_id_is_told_when_it_is_asked_for() -> None:
    assert mismatch(lambda: Cursor([completed("a#1")]).ask(OTHER_A)) == (
        "the journal has step 'a' (a#1) where the code now asks for step 'other' (a#1)"
    )


def test_another_operation_under_the_same_id_is_told_by_its_attempts() -> None:
    cursor = Cursor([attempt("a#1", 1)])
    assert cursor.ask(OTHER_A) is Answer.perform
    assert mismatch(cursor.replay_next) == "journal entry 1 is step 'a' (a#1), but the code asks for step 'other' (a#1)"


@pytest.mark.parametrize("entry", [completed("b#1"), failed("b#1"), attempt("b#1", 1), withdrawn("b#1")])
def test_an_entry_of_an_operation_that_nobody_asks_for(entry: Entry) -> None:
    cursor = asking([completed("x#1"), cancel(), entry], "a#1", "x#1", "c#1", "d#1")
    cursor.withdraw(op("d#1"))
    cursor.replay_next()
    cursor.replay_next()
    assert mismatch(cursor.replay_next) == (
        "journal entry 3 is step 'b' (b#1), but the code asks for step 'a' (a#1), step 'c' (c#1)"
    )
    assert cursor.take_unperformed() == []


def test_a_mismatch_leaves_the_cursor_where_it_was() -> None:
    cursor = asking([completed("a#1")])
    assert mismatch(cursor.replay_next) == "journal entry 1 is step 'a' (a#1), but the code asks for nothing"
    assert cursor.replaying
    cursor.ask(op("a#1"))
    assert replayed(cursor) == [completed("a#1")]


def test_a_mismatch_names_five_operations_and_counts_the_others() -> None:
    five = [f"{name}#1" for name in "abcde"]
    named = "step 'a' (a#1), step 'b' (b#1), step 'c' (c#1), step 'd' (d#1), step 'e' (e#1)"
    told = "journal entry 1 is step 'x' (x#1), but the code asks for "
    assert mismatch(asking([completed("x#1")], *five).replay_next) == told + named
    assert mismatch(asking([completed("x#1")], *five, "f#1", "g#1").replay_next) == f"{told}{named}, 2 more"


def test_a_recorded_withdrawal_that_the_code_no_longer_does() -> None:
    cursor = asking([completed("a#1"), withdrawn("b#1")], "a#1", "b#1")
    cursor.replay_next()
    assert mismatch(cursor.replay_next) == "journal entry 2 cancels step 'b' (b#1), but the code still waits for it"
    assert cursor.is_open(op("b#1"))


# the body's end


def test_a_body_that_used_up_its_journal_may_end() -> None:
    cursor = asking([completed("a#1")], "a#1", "b#1")
    replayed(cursor)
    cursor.check_ended()


@pytest.mark.parametrize("left", [completed("b#1"), failed("b#1"), attempt("b#1", 1), withdrawn("b#1")])
def test_a_body_may_not_end_before_an_operation_it_never_asked_for(left: Entry) -> None:
    journal: list[Entry] = [completed("a#1"), cancel(), deadline(), left]
    cursor = asking(journal, "a#1")
    cursor.replay_next()
    assert mismatch(cursor.check_ended) == "journal entry 4 is step 'b' (b#1), but the code ended before it"
    asked = asking(journal, "a#1", "b#1")
    asked.replay_next()
    asked.check_ended()


def test_blows_that_are_left_when_the_body_ends_do_not_matter() -> None:
    Cursor([cancel(), deadline()]).check_ended()


# blows and requeues


def test_blows_on_record_are_known_before_they_are_replayed() -> None:
    cursor = Cursor([cancel()])
    assert cursor.on_record(type(cancel()))
    assert not cursor.on_record(type(deadline()))
    cursor.append(deadline())
    assert not cursor.on_record(type(deadline()))


def test_a_requeued_journal_replays_what_still_counts_and_tells_places_as_stored() -> None:
    journal: list[Entry] = [completed("a#1"), failed("b#1"), cancel(), requeued(1), completed("b#1"), completed("c#1")]
    cursor = asking(journal, "a#1", "b#1")
    assert cursor.length == 6
    assert not cursor.on_record(type(cancel()))
    assert cursor.replay_next() == completed("a#1")
    assert cursor.replay_next() == completed("b#1")
    assert mismatch(cursor.replay_next) == "journal entry 6 is step 'c' (c#1), but the code asks for nothing"
    assert mismatch(cursor.check_ended) == "journal entry 6 is step 'c' (c#1), but the code ended before it"


def test_a_voided_outcome_is_performed_again_from_its_first_attempt() -> None:
    cursor = Cursor([attempt("a#1", 1), failed("a#1"), requeued(0)])
    assert not cursor.replaying
    assert cursor.ask(op("a#1")) is Answer.perform
    assert cursor.take_unperformed() == [Asked(op("a#1"))]
    assert cursor.length == 3


def test_a_body_waits_while_an_operation_that_it_wants_is_open() -> None:
    cursor = Cursor([])
    assert not cursor.waits()
    cursor.ask(op("a#1"))
    cursor.ask(op("b#1"))
    cursor.append(completed("a#1"))
    assert cursor.waits()
    cursor.append(attempt("b#1", 1))
    assert cursor.waits()
    cursor.withdraw(op("b#1"))
    assert not cursor.waits()
