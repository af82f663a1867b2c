"""Entries survive being written: what comes back is what was recorded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula_runtime.core.entries import (
    AttemptFailed,
    CancelRequested,
    Completed,
    DeadlinePassed,
    Entry,
    Failed,
    Op,
    OpKind,
    Requeued,
    Withdrawn,
)
from pyrula_runtime.core.errors import ErrorRecord, InputError
from pyrula_runtime.engine.codec import dump_entry, dump_error, dump_json, load_entry, load_error, load_json

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
NUMBERS = st.integers(0, 2**53)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OPS = st.builds(Op, op_id=TEXT, kind=st.sampled_from(OpKind), name=TEXT)
ERRORS = st.builds(
    ErrorRecord, type=TEXT, message=TEXT, traceback=TEXT, detail=st.dictionaries(TEXT, TEXT | st.none(), max_size=2)
)
ENTRIES: st.SearchStrategy[Entry] = st.one_of(
    st.builds(Completed, op=OPS, at_ms=NUMBERS, value=JSON),
    st.builds(Failed, op=OPS, at_ms=NUMBERS, error=ERRORS),
    st.builds(Withdrawn, op=OPS, at_ms=NUMBERS),
    st.builds(AttemptFailed, op=OPS, at_ms=NUMBERS, number=NUMBERS, error=ERRORS, retry_at_ms=NUMBERS),
    st.builds(CancelRequested, at_ms=NUMBERS),
    st.builds(DeadlinePassed, at_ms=NUMBERS),
    st.builds(Requeued, at_ms=NUMBERS, void_from=NUMBERS),
)


@given(ENTRIES)
def test_an_entry_comes_back_as_it_was(entry: Entry) -> None:
    assert load_entry(dump_entry(entry)) == entry


@given(ERRORS)
def test_an_error_comes_back_as_it_was(error: ErrorRecord) -> None:
    assert load_error(dump_error(error)) == error


def test_an_entry_of_a_newer_version_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="newer version"):
        load_entry(b'{"at":1,"k":"zz","o":"a#1","t":"step","m":"a","e":{"type":"E","message":""}}')


def test_what_json_cannot_hold_is_an_input_error() -> None:
    with pytest.raises(InputError, match="not JSON"):
        dump_json({1, 2})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="not JSON"):
        load_json(b"{")
