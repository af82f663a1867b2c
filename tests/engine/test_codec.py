"""Entries survive being written: what comes back is what was recorded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula_runtime.core.blame import NOTHING, Cause, Charge, Evidence, Mark, Record
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
    Resumed,
    Started,
    Withdrawn,
)
from pyrula_runtime.core.errors import ErrorRecord, InputError
from pyrula_runtime.core.tree import OnEnd
from pyrula_runtime.engine.codec import (
    dossier_of,
    dump_entry,
    dump_error,
    dump_json,
    dump_record,
    load_entry,
    load_error,
    load_json,
    load_record,
)
from pyrula_runtime.stores.protocol import CLEAN, Dossier

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
    st.builds(Completed, op=OPS, at_ms=NUMBERS, value=JSON, message=NUMBERS),
    st.builds(Failed, op=OPS, at_ms=NUMBERS, error=ERRORS, message=NUMBERS),
    st.builds(Started, op=OPS, at_ms=NUMBERS, child_id=TEXT, on_end=st.sampled_from(OnEnd)),
    st.builds(Withdrawn, op=OPS, at_ms=NUMBERS),
    st.builds(AttemptFailed, op=OPS, at_ms=NUMBERS, number=NUMBERS, error=ERRORS, retry_at_ms=NUMBERS),
    st.builds(CancelRequested, at_ms=NUMBERS),
    st.builds(DeadlinePassed, at_ms=NUMBERS),
    st.builds(Resumed, at_ms=NUMBERS),
    st.builds(Requeued, at_ms=NUMBERS, void_from=NUMBERS, has_ended=st.booleans()),
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


EVIDENCE = st.builds(
    Evidence,
    at_ms=NUMBERS,
    cause=st.sampled_from(Cause),
    worker=TEXT,
    pid=NUMBERS,
    exit=TEXT,
    op_id=TEXT,
    step=TEXT,
    for_ms=NUMBERS,
    line=TEXT,
    stack=TEXT,
    rss_bytes=NUMBERS,
    limit_bytes=NUMBERS,
)
MARKS = st.builds(
    Mark,
    at_ms=NUMBERS,
    cause=st.sampled_from(Cause),
    worker=TEXT,
    op_id=TEXT,
    step=TEXT,
    executing=st.booleans(),
    in_cell=st.booleans(),
)
RECORDS = st.builds(
    Record,
    charges=st.lists(st.builds(Charge, at_ms=NUMBERS, evidence=EVIDENCE), max_size=3).map(tuple),
    marks=st.lists(MARKS, max_size=3).map(tuple),
    is_suspect=st.booleans(),
)


@given(RECORDS)
def test_what_is_held_against_a_run_comes_back_as_it_was(record: Record) -> None:
    assert load_record(dump_record(record)) == record
    assert dossier_of(record) == Dossier(record=dump_record(record), is_suspect=record.is_suspect)


def test_nothing_against_a_run_is_no_bytes() -> None:
    assert (dump_record(NOTHING), load_record(b"")) == (b"", NOTHING)
    assert dossier_of(NOTHING) == CLEAN


def test_a_record_of_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    charge = b'{"at_ms":1,"new":2,"evidence":{"at_ms":1,"cause":"struck_by_lightning","worker":"w","volts":9}}'
    record = load_record(b'{"charges":[' + charge + b'],"pardons":[],"is_suspect":true}')
    evidence = Evidence(at_ms=1, cause=Cause.killed, worker="w")
    assert record == Record(charges=(Charge(at_ms=1, evidence=evidence),), is_suspect=True)
