"""Where a fork begins, by step, by operation and by what failed; and what of its journal counts."""

from __future__ import annotations

import pytest

from pyrula_runtime.core.cursor import Answer, Cursor
from pyrula_runtime.core.entries import Completed, Entry, Forked, Op, OpKind, Requeued, Started
from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.forking import copied, copied_message, fork_from, signals_again
from pyrula_runtime.core.tree import OnEnd
from tests.core.journals import attempt, cancel, completed, failed, op, patch, withdrawn

A, B, C, A2 = completed("a#1"), failed("b#1"), completed("c#1"), completed("a#2")
JOURNAL: list[Entry] = [A, B, C, A2]


@pytest.mark.parametrize(
    ("step", "failed_op", "position"),
    [("b", None, 1), ("b#1", None, 1), ("c", "b#1", 2), ("a#2", None, 3), (None, "b#1", 1), (None, None, 4)],
)
def test_a_fork_begins_before_the_first_entry_of_its_step(
    step: str | None, failed_op: str | None, position: int
) -> None:
    assert fork_from("r", JOURNAL, step, failed_op) == position


def test_the_first_attempt_of_a_step_is_its_first_entry() -> None:
    assert fork_from("r", [A, cancel(), attempt("c#1", 1), A2, C], "c", None) == 2


def test_what_a_requeue_voided_is_not_where_a_step_is() -> None:
    assert fork_from("r", [A, B, C, Requeued(at_ms=5, void_from=1), completed("b#1"), C], "c", None) == 5


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("a", "run r has several operations called 'a': a#1, a#2; say which"),
        ("x", "run r has no operation 'x' on record; it has a#1, b#1, c#1, a#2"),
    ],
)
def test_a_step_that_is_not_one_is_refused(step: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        fork_from("r", JOURNAL, step, None)


def mark(name: str) -> Completed:
    return Completed(op=patch(name), at_ms=0, value=None)


@pytest.mark.parametrize("step", ["y#1", "b#1"])
def test_a_fork_from_a_patch_goes_the_new_way_as_the_first_run_did(step: str) -> None:
    journal: list[Entry] = [A, mark("x"), withdrawn("b#1"), mark("y"), A2]
    assert fork_from("r", journal, step, None) == 1
    cursor = Cursor([A])
    for op_id in ("a#1", "b#1"):
        cursor.ask(op(op_id))
    cursor.replay_next()
    assert cursor.mark(patch("x")) is Answer.perform
    assert cursor.withdraw(op("b#1"))
    assert cursor.mark(patch("y")) is Answer.perform


def test_what_the_body_did_before_an_outcome_is_copied() -> None:
    assert fork_from("r", [A, mark("x"), withdrawn("b#1"), A2], "a#2", None) == 3
    assert fork_from("r", [mark("x"), mark("y"), A], "y", None) == 0


def test_a_long_journal_is_not_told_in_full() -> None:
    journal = [completed(f"s#{number}") for number in range(12)]
    with pytest.raises(UsageError, match="s#9 and 2 more"):
        fork_from("r", journal, "x", None)
    with pytest.raises(UsageError, match="it has none"):
        fork_from("r", [], "x", None)


def test_a_fork_starts_anew_what_has_no_outcome() -> None:
    a, c = (Started(op=op(op_id), at_ms=1, child_id=f"r/{op_id}", on_end=OnEnd.cancel) for op_id in ("a#1", "c#1"))
    failed_once = attempt("a#1", 1)
    journal: list[Entry] = [a, c, attempt("b#1", 1), failed_once, A, C]
    assert copied(journal, 5) == [0, 3, 4]
    assert copied(journal, 6) == [0, 1, 3, 4, 5]


def heard(name: str, message: int) -> Completed:
    return Completed(op=Op(op_id=f"{name}#{message}", kind=OpKind.signal, name=name), at_ms=1, value=1, message=message)


def test_only_what_counts_is_copied() -> None:
    assert copied([A, B, C, Requeued(at_ms=5, void_from=1), A2, C], 5) == [0, 4]


def test_signals_are_sent_again_in_their_order_unless_they_are_copied() -> None:
    journal: list[Entry] = [heard("go", 2), A, heard("go", 1), Requeued(at_ms=5, void_from=2), heard("stop", 3)]
    assert signals_again(journal, copied(journal, 5)) == [2]
    assert signals_again(journal, copied(journal, 4)) == [2, 4]
    assert signals_again(journal, []) == [2, 0, 4]


def test_copied_messages_have_numbers_of_no_inbox_in_their_order() -> None:
    numbers = [copied_message(place) for place in range(51_200)]
    assert numbers == sorted(numbers)
    assert numbers[-1] < 0


def test_what_a_fork_waits_for_is_counted_from_the_fork() -> None:
    cursor = Cursor(
        [completed("a#1", at_ms=10), Forked(at_ms=1_000, source="s", started_ms=1), completed("b#1", at_ms=2_000)]
    )
    for op_id in ("a#1", "b#1", "c#1"):
        cursor.ask(op(op_id), 10)
    while cursor.replaying:
        cursor.replay_next()
    cursor.ask(op("d#1"), 2_000)
    assert [each.at_ms for each in cursor.take_unperformed()] == [1_000, 2_000]


def test_over_a_copy_the_body_is_the_run_that_wrote_it() -> None:
    first, second = Forked(at_ms=9, source="s1", started_ms=3), Forked(at_ms=19, source="s2", started_ms=10)
    journal: list[Entry] = [A, first, completed("b#1"), completed("c#1"), second, completed("d#1")]
    assert copied([*journal, A2], 6) == [0, 1, 2, 3, 4, 5]
    cursor, whose = Cursor(journal), []
    for op_id in ("a#1", "b#1", "c#1", "d#1"):
        cursor.ask(op(op_id))
        whose.append(cursor.run_here("r"))
        cursor.replay_next()
    assert (whose, cursor.run_here("r")) == (["s1", "s2", "s2", "r"], "r")
    assert cursor.began_ms == 3


def test_a_fork_that_copies_nothing_begins_by_itself() -> None:
    assert Cursor([Forked(at_ms=9, source="s", started_ms=3)]).began_ms is None
    assert Cursor([A]).began_ms is None
    assert Cursor([A]).run_here("r") == "r"
