"""Where code and journal part, word for word."""

from __future__ import annotations

import pytest

from pyrula_runtime.core.cursor import Cursor
from pyrula_runtime.core.entries import CancelRequested
from pyrula_runtime.core.errors import JournalMismatch
from pyrula_runtime.core.mismatch import Parting
from tests.core.journals import completed, op, withdrawn

A, B = completed("reserve#1"), completed("charge#1")


def told(mismatch: JournalMismatch) -> dict[str, object]:
    return {"sentence": str(mismatch)} | dict(mismatch.detail)


def test_another_step_is_asked_for() -> None:
    cursor = Cursor([A, B])
    cursor.ask(op("reserve#1"))
    cursor.replay_next()
    cursor.ask(op("refund#1"))
    with pytest.raises(JournalMismatch) as raised:
        cursor.replay_next()
    assert told(raised.value) == {
        "sentence": "journal entry 2 is step 'charge' (charge#1), but the code asks for step 'refund' (refund#1)",
        "entry": 2,
        "journal": "has step 'charge' (charge#1)",
        "code": "asks for step 'refund' (refund#1)",
        "fitted": "up to step 'reserve' (reserve#1)",
        "hint": "'refund' is not on record: let ctx.patched(...) decide about what is new, and give what was only "
        "renamed its old name, as in @step(name='charge')",
    }


def test_a_step_is_left_out() -> None:
    cursor = Cursor([A, B])
    cursor.ask(op("charge#1"))
    with pytest.raises(JournalMismatch) as raised:
        cursor.replay_next()
    detail = raised.value.detail
    assert detail["fitted"] == "nothing before it"
    hint = "the code no longer asks for 'reserve' here: let ctx.patched(...) decide about leaving it out"
    assert detail["hint"] == hint


def test_the_code_asks_for_nothing_or_for_thousands() -> None:
    parting = Parting(0, op("a#1"), [CancelRequested(at_ms=1)])
    assert parting.asks([], set()).detail["code"] == "asks for nothing"
    names = [op(f"s#{number}") for number in range(8)]
    assert str(parting.asks(names, set())).endswith("step 's' (s#4), 3 more")


def test_the_code_has_ended() -> None:
    with pytest.raises(JournalMismatch) as raised:
        Cursor([A]).check_ended()
    assert told(raised.value) == {
        "sentence": "journal entry 1 is step 'reserve' (reserve#1), but the code ended before it",
        "entry": 1,
        "journal": "has step 'reserve' (reserve#1)",
        "code": "has ended",
        "fitted": "nothing before it",
        "hint": "the code leaves out 'reserve' and what follows: let ctx.patched(...) decide about that",
    }


def test_the_code_no_longer_gives_something_up() -> None:
    cursor = Cursor([withdrawn("a#1")])
    cursor.ask(op("a#1"))
    with pytest.raises(JournalMismatch) as raised:
        cursor.replay_next()
    assert raised.value.detail["code"] == "waits for step 'a' (a#1)"
    assert "the code once cancelled 'a' here" in str(raised.value.detail["hint"])
