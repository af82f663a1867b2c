"""Which journal entries still count after requeues, and where a requeued run goes on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula_runtime.core.entries import (
    AttemptFailed,
    Completed,
    Entry,
    Failed,
    OpKind,
    Requeued,
    Resumed,
    Withdrawn,
    begun_anew,
    in_force,
    is_own_doing,
    requeue_from,
)
from pyrula_runtime.core.tree import OnEnd
from tests.core.journals import (
    BROKEN,
    attempt,
    cancel,
    child,
    completed,
    deadline,
    failed,
    op,
    patch,
    requeued,
    started,
    withdrawn,
)
from tests.core.patience import patient

A, B, C = completed("a#1"), completed("b#1"), completed("c#1")


def positions(journal: list[Entry]) -> list[int]:
    return [position for position, _ in in_force(journal)]


def test_an_operation_is_named_by_kind_name_and_id() -> None:
    assert str(op("pack()#1/weigh#2")) == "step 'pack()#1/weigh' (pack()#1/weigh#2)"


# what counts


def test_without_a_requeue_everything_counts_at_its_place() -> None:
    assert in_force([]) == []
    assert in_force([A, cancel(), B]) == [(0, A), (1, cancel()), (2, B)]
    assert in_force([A, Resumed(at_ms=5), B]) == [(0, A), (2, B)]


def test_a_requeue_voids_from_its_mark_to_itself() -> None:
    assert in_force([A, failed("b#1"), requeued(1), B]) == [(0, A), (3, B)]
    assert in_force([A, B, requeued(0), C]) == [(3, C)]
    assert in_force([A, requeued(1), B]) == [(0, A), (2, B)]


@pytest.mark.parametrize(
    ("second", "left"),
    [(6, [0, 1, 4, 5]), (5, [0, 1, 4]), (4, [0, 1]), (2, [0, 1]), (1, [0]), (0, [])],
)
def test_a_second_requeue_voids_what_the_first_left(second: int, left: list[int]) -> None:
    journal: list[Entry] = [A, B, failed("c#1"), requeued(2), C, failed("d#1"), requeued(second)]
    assert positions(journal) == left


def test_a_later_requeue_brings_nothing_back() -> None:
    assert positions([A, failed("b#1"), requeued(1), requeued(2), B]) == [0, 4]


marks = st.integers(0, 40)
journals = st.lists(st.just(A) | st.builds(requeued, marks), max_size=40)


@patient
@given(journal=journals)
def test_nothing_voided_ever_counts_again(journal: list[Entry]) -> None:
    voided: set[int] = set()
    for length in range(1, len(journal) + 1):
        counting = positions(journal[:length])
        assert counting == sorted(set(counting) - voided)
        voided = set(range(length)) - set(counting)


@patient
@given(journal=journals)
def test_what_counts_is_what_no_later_requeue_reaches(journal: list[Entry]) -> None:
    def counts(position: int) -> bool:
        later = [each.void_from for each in journal[position:] if isinstance(each, Requeued)]
        return not isinstance(journal[position], Requeued) and all(position < mark for mark in later)

    assert in_force(journal) == [(position, A) for position in range(len(journal)) if counts(position)]


# where a requeued run goes on


def test_a_run_goes_on_at_the_failure_that_ended_it_and_the_step_is_tried_anew() -> None:
    journal: list[Entry] = [A, attempt("b#1", 1), C, attempt("b#1", 2), failed("b#1"), completed("undo#1")]
    assert requeue_from(journal, "b#1") == 4
    assert in_force([*journal, requeued(4)]) == [(0, A), (2, C)]
    assert requeue_from([A, failed("b#1"), failed("c#1")], "c#1") == 2


def test_a_run_whose_own_code_failed_goes_on_at_the_end() -> None:
    assert requeue_from([], None) == 0
    assert requeue_from([A, failed("b#1"), C], None) == 3
    assert requeue_from([A, attempt("b#1", 1)], "c#1") == 2


@pytest.mark.parametrize("blow", [cancel(), deadline()])
@pytest.mark.parametrize("failed_op", [None, "undo#1"])
def test_a_run_that_was_struck_goes_on_from_the_blow(blow: Entry, failed_op: str | None) -> None:
    assert requeue_from([A, blow, completed("tidy#1"), failed("undo#1")], failed_op) == 1


def test_a_step_that_failed_before_the_blow_is_the_earlier_place() -> None:
    assert requeue_from([A, failed("b#1"), cancel()], "b#1") == 1


def test_withdrawals_at_the_end_are_done_again() -> None:
    broken: list[Entry] = [A, withdrawn("b#1"), B, withdrawn("c#1"), withdrawn("d#1")]
    assert requeue_from(broken, None) == 3
    assert requeue_from([withdrawn("b#1")], None) == 0
    assert requeue_from([A, withdrawn("b#1"), C], None) == 3


def test_a_second_requeue_looks_only_at_what_counts() -> None:
    first: list[Entry] = [A, failed("b#1"), cancel(), requeued(1)]
    assert requeue_from(first, "b#1") == 4
    again: list[Entry] = [*first, attempt("b#1", 1), failed("b#1")]
    assert requeue_from(again, "b#1") == 5
    assert requeue_from([*first, B, withdrawn("c#1")], None) == 5
    assert requeue_from([A, withdrawn("b#1"), requeued(2)], None) == 1


entries = st.sampled_from([A, failed("b#1"), attempt("b#1", 1), withdrawn("c#1"), cancel(), deadline()])


@patient
@given(journal=st.lists(entries | st.builds(requeued, marks), max_size=40), failed_op=st.sampled_from(["b#1", None]))
def test_what_is_left_after_a_requeue_is_the_beginning_of_what_counted(
    journal: list[Entry], failed_op: str | None
) -> None:
    start = requeue_from(journal, failed_op)
    before, left = in_force(journal), in_force([*journal, requeued(start)])
    settled = {
        entry.op.op_id for at, entry in before if at < start and isinstance(entry, Completed | Failed | Withdrawn)
    }
    kept = [(at, entry) for at, entry in before if not isinstance(entry, AttemptFailed) or entry.op.op_id in settled]
    assert left == kept[: len(left)]
    assert not any(entry in (cancel(), deadline()) for _, entry in left)
    assert not left or left[-1][1] != withdrawn("c#1") or len(left) < len(before)


def test_a_child_whose_failure_was_voided_is_started_again_and_one_that_completed_is_not() -> None:
    done = Completed(op=child("pack#1"), at_ms=0, value=1)
    broken = Failed(op=child("ship#1"), at_ms=0, error=BROKEN)
    journal: list[Entry] = [started("pack#1"), started("ship#1"), done, broken, requeued(2)]
    assert positions(journal) == [0]
    assert positions([*journal[:4], requeued(3)]) == [0, 2]


def test_what_was_voided_begins_anew_at_the_newest_requeue() -> None:
    journal: list[Entry] = [A, failed("b#1"), requeued(1, at_ms=5), C, requeued(0, at_ms=9)]
    assert begun_anew(journal[:3]) == {"b#1": 5}
    assert begun_anew(journal) == {"a#1": 9, "b#1": 9, "c#1": 9}


def given_up(op_id: str) -> Withdrawn:
    return Withdrawn(op=child(op_id), at_ms=0)


def test_a_child_that_was_cancelled_because_it_was_given_up_is_started_again_unless_it_was_to_go_on() -> None:
    journal: list[Entry] = [started("ship#1"), started("pack#1", on_end=OnEnd.abandon), given_up("ship#1")]
    journal += [given_up("pack#1"), requeued(2)]
    assert positions(journal) == [1]


def test_children_end_with_a_run_that_has_ended_but_not_with_one_that_was_paused() -> None:
    done = Completed(op=child("done#1"), at_ms=0, value=1)
    journal: list[Entry] = [started("ship#1"), started("pack#1", on_end=OnEnd.abandon), started("done#1"), done, A]
    assert positions([*journal, requeued(4)]) == [0, 1, 2, 3]
    assert positions([*journal, requeued(4, has_ended=True)]) == [1, 2, 3]
    assert positions([*journal, requeued(3, has_ended=True)]) == [1, 2]


def test_what_is_told_is_over_when_it_is_written() -> None:
    assert {kind for kind in OpKind if kind.is_over_when_written} == {OpKind.emit, OpKind.tell}


def test_what_the_body_itself_brings_about_does_not_come_in_from_outside() -> None:
    mark = Completed(op=patch("way"), at_ms=1, value=None)
    own: list[Entry] = [withdrawn("a#1"), started("a#1"), mark]
    others: list[Entry] = [completed("a#1"), failed("a#1"), attempt("a#1", 1), cancel(), requeued(0)]
    assert [is_own_doing(entry) for entry in (*own, *others)] == [True] * 3 + [False] * 5
