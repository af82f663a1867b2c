"""Which wait is over next: letters before times, letters in order to the oldest who hears them, times in order."""

from __future__ import annotations

from pyrula_runtime.core.entries import Completed, Entry, Op, OpKind
from pyrula_runtime.core.waiting import Letter, OpenWait, OpenWaits, Settled, child_letters, child_of, given_back
from tests.core.journals import child, completed, requeued, started


def wait(op_id: str, due_ms: int | None = None, hears: str | None = None) -> OpenWait:
    return OpenWait(op=Op(op_id=op_id, kind=OpKind.signal, name="wait"), due_ms=due_ms, hears=hears)


def letter(seq: int, name: str = "go") -> Letter:
    return Letter(seq=seq, name=name, value=seq)


def waits(*opened: OpenWait) -> OpenWaits:
    open_waits = OpenWaits()
    for each in opened:
        open_waits.open(each)
    return open_waits


def settled(open_waits: OpenWaits, now_ms: int = 0) -> list[tuple[str, int | None]]:
    """Everything that is over now, in order: the operation and the number of its letter."""
    over = []
    while (one := open_waits.settle(now_ms)) is not None:
        over.append((one.wait.op.op_id, one.letter.seq if one.letter else None))
    return over


def test_nothing_open_is_never_over() -> None:
    open_waits = waits()
    assert open_waits.settle(10**15) is None
    assert open_waits.next_due_ms() is None
    assert not open_waits.hears


def test_times_come_in_their_order_and_never_early() -> None:
    open_waits = waits(wait("b", 20), wait("a", 10), wait("c", 20))
    assert settled(open_waits, 9) == []
    assert open_waits.next_due_ms() == 10
    assert settled(open_waits, 20) == [("a", None), ("b", None), ("c", None)]
    assert settled(open_waits, 99) == []


def test_letters_come_in_their_order_to_the_oldest_who_hears_them() -> None:
    open_waits = waits(wait("a", hears="go"), wait("b", hears="stop"), wait("c", hears="go"))
    open_waits.bring([letter(1), letter(2, "stop"), letter(3), letter(4)])
    assert settled(open_waits) == [("a", 1), ("b", 2), ("c", 3)]
    open_waits.open(wait("d", hears="go"))
    assert open_waits.settle(0) == Settled(wait=wait("d", hears="go"), letter=letter(4))


def test_a_letter_that_comes_before_anybody_hears_it_is_kept() -> None:
    open_waits = waits()
    open_waits.bring([letter(1), letter(2)])
    assert settled(open_waits) == []
    open_waits.open(wait("a", hears="go"))
    assert settled(open_waits) == [("a", 1)]


def test_a_letter_goes_before_a_time_that_has_come() -> None:
    open_waits = waits(wait("a", due_ms=5), wait("b", due_ms=1, hears="go"))
    open_waits.bring([letter(1)])
    assert settled(open_waits, 10) == [("b", 1), ("a", None)]


def test_a_wait_that_is_closed_hears_nothing_and_is_never_due() -> None:
    open_waits = waits(wait("a", 5, "go"), wait("b", 9, "go"))
    assert open_waits.close("a")
    assert not open_waits.close("a")
    assert open_waits.next_due_ms() == 9
    open_waits.bring([letter(1)])
    assert settled(open_waits, 99) == [("b", 1)]
    assert not open_waits.hears


def test_a_letter_whose_hearer_was_closed_waits_for_the_next_one() -> None:
    open_waits = waits(wait("a", hears="go"))
    open_waits.bring([letter(1)])
    open_waits.close("a")
    assert settled(open_waits) == []
    open_waits.open(wait("b", hears="go"))
    assert settled(open_waits) == [("b", 1)]


def test_two_hearers_of_one_letter_are_told_once() -> None:
    open_waits = waits()
    open_waits.bring([letter(1)])
    open_waits.open(wait("a", hears="go"))
    open_waits.open(wait("b", hears="go"))
    assert settled(open_waits) == [("a", 1)]
    assert open_waits.hears


def test_what_is_waited_for_is_told_in_words() -> None:
    assert waits(wait("nap#1", due_ms=5)).awaited() == ""
    assert waits(wait("go#1", hears="go"), wait("nap#1", due_ms=5), wait("go#2", hears="go")).awaited() == "signal 'go'"
    kin = [wait(f"kid#{number}", hears=child_letters(f"R{number}")) for number in range(1_500)]
    assert waits(*kin[:2]).awaited() == "child run R0 and child run R1"
    assert waits(*kin).awaited() == "child run R0, child run R1, child run R2 and 1,497 more"


def test_what_a_child_tells_whom_nobody_waits_for_is_a_stray() -> None:
    ours, other = child_letters("run-1"), child_letters("run-2")
    assert child_of(letter(1, ours)) == "run-1"
    open_waits = waits(wait("a", hears=ours))
    open_waits.bring([letter(1, ours), letter(2, other), letter(3), letter(4, other)])
    assert open_waits.take_strays() == (2, 4)
    assert open_waits.take_strays() == ()
    assert settled(open_waits) == [("a", 1)]


def heard(op_id: str, message: int) -> Completed:
    return Completed(op=Op(op_id=op_id, kind=OpKind.signal, name="go"), at_ms=0, value=message, message=message)


def test_signals_of_voided_entries_come_again_in_their_order() -> None:
    journal: list[Entry] = [heard("go#1", 1), completed("a#1"), heard("go#2", 4), heard("go#3", 2), requeued(1)]
    assert given_back(journal) == [letter(2), letter(4)]
    assert given_back(journal[:4]) == []


def test_a_signal_that_was_taken_over_again_does_not_come_a_third_time() -> None:
    assert given_back([heard("go#1", 1), requeued(0), heard("go#1", 1)]) == []


def test_what_a_child_told_comes_again_if_its_start_still_counts() -> None:
    told = Completed(op=child("ship#1"), at_ms=0, value=7, message=3)
    (again,) = given_back([started("ship#1", "run-1"), told, requeued(1, has_ended=True)])
    assert again == Letter(seq=3, name=child_letters("run-1"), value={"status": "completed", "result": 7})
    assert given_back([started("ship#1", "run-1"), told, requeued(0)]) == []


def test_a_letter_of_a_child_tells_whose_it_is() -> None:
    assert child_of(letter(1, child_letters("r-2"))) == "r-2"
