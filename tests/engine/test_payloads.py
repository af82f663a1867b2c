"""What users put into a store, through a codec and back; and what whoever lacks the codec can still read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula_runtime.core.entries import AttemptFailed, Completed, Entry, Failed, Json, Op, OpKind, Requeued, Withdrawn
from pyrula_runtime.core.errors import CodecFailed, ErrorRecord
from pyrula_runtime.engine.codec import dump_entry
from pyrula_runtime.engine.payloads import PLAIN, Payloads
from pyrula_runtime.stores.protocol import Received
from tests.engine.fake_host import claim_of

SECRET = "the cat's name is Ernest"
OP = Op(op_id="charge#1", kind=OpKind.step, name="charge")
ERROR = ErrorRecord(type="CardDeclined", message=SECRET, traceback=f"line with {SECRET}", detail={"op_id": "charge#1"})
ENTRIES: list[Entry] = [
    Completed(op=OP, at_ms=1, value={"said": SECRET}),
    Failed(op=OP, at_ms=2, error=ERROR),
    AttemptFailed(op=OP, at_ms=3, number=1, error=ERROR, retry_at_ms=4),
    Withdrawn(op=OP, at_ms=5),
    Requeued(at_ms=6, void_from=1),
]


class Mirror:
    """Bytes in the mirror: no encryption, but no secret stands there as it is."""

    def encode(self, payload: bytes) -> bytes:
        return payload[::-1]

    def decode(self, payload: bytes) -> bytes:
        return payload[::-1]


class Broken:
    """A codec whose key server is away."""

    def encode(self, payload: bytes) -> bytes:
        raise OSError("no key")

    def decode(self, payload: bytes) -> bytes:
        raise OSError("no key")


payloads = Payloads(Mirror())


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: type(entry).__name__)
def test_an_entry_comes_back_and_shows_its_frame_alone(entry: Entry) -> None:
    stored = payloads.dump_entry(entry)
    assert payloads.load_entry(stored) == entry
    assert SECRET.encode() not in stored
    seen = PLAIN.for_people().load_entry(stored)
    assert (type(seen), seen.at_ms) == (type(entry), entry.at_ms)
    if isinstance(entry, Completed | Failed | AttemptFailed | Withdrawn):
        assert seen.op == entry.op  # type: ignore[union-attr]


@given(st.recursive(st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(), st.lists, max_leaves=8))
def test_any_value_comes_back(value: Json) -> None:
    assert payloads.load_json(payloads.dump_json(value)) == value
    entry = Completed(op=OP, at_ms=1, value=value)
    assert payloads.load_entry(payloads.dump_entry(entry)) == entry


def test_an_error_shows_its_type_and_details_alone() -> None:
    stored = payloads.dump_error(ERROR)
    assert payloads.load_error(stored) == ERROR
    assert SECRET.encode() not in stored
    seen = PLAIN.for_people().load_error(stored)
    assert (seen.type, seen.detail) == (ERROR.type, ERROR.detail)
    assert "PYRULA_CODEC" in seen.message


def test_without_a_codec_what_is_stored_is_as_it_always_was() -> None:
    for entry in ENTRIES:
        assert PLAIN.dump_entry(entry) == dump_entry(entry)
    assert PLAIN.dump_json({"a": 1}) == b'{"a":1}'


def test_what_was_stored_before_the_codec_came_stays_readable() -> None:
    for entry in ENTRIES:
        assert payloads.load_entry(PLAIN.dump_entry(entry)) == entry
    assert payloads.load_json(b'"old"') == "old"
    assert payloads.load_error(PLAIN.dump_error(ERROR)) == ERROR


@pytest.mark.parametrize(
    ("reader", "reason"),
    [(PLAIN, "none is set here"), (Payloads(Broken()), "cannot decode it: OSError: no key")],
    ids=["no codec", "broken codec"],
)
def test_what_cannot_be_read_says_why(reader: Payloads, reason: str) -> None:
    for read in (
        lambda: reader.load_json(payloads.dump_json(1)),
        lambda: reader.load_error(payloads.dump_error(ERROR)),
        lambda: reader.load_entry(payloads.dump_entry(ENTRIES[0])),
        lambda: reader.opened(claim_of(input=payloads.dump_json(1))),
    ):
        with pytest.raises(CodecFailed, match=reason):
            read()
    assert "PYRULA_CODEC" in str(PLAIN.for_people().load_json(payloads.dump_json(1)))


def test_what_cannot_be_written_says_why_and_keeps_the_cause() -> None:
    with pytest.raises(CodecFailed, match="cannot encode: OSError: no key") as failed:
        Payloads(Broken()).dump_json(1)
    assert isinstance(failed.value.__cause__, OSError)


def test_a_claim_is_opened_with_its_messages() -> None:
    letter = Received(seq=1, message_id="m", name="go", body=payloads.dump_json(SECRET))
    claim = payloads.opened(claim_of(input=payloads.dump_json([SECRET]), inbox=(letter,)))
    assert claim.input == PLAIN.dump_json([SECRET])
    assert [each.body for each in claim.inbox] == [PLAIN.dump_json(SECRET)]
    plain = claim_of(input=b"1")
    assert PLAIN.opened(plain) is plain


def test_a_message_that_nobody_here_can_read_is_told_though_the_input_is_plain() -> None:
    letter = Received(seq=1, message_id="m", name="go", body=payloads.dump_json(SECRET))
    with pytest.raises(CodecFailed, match="none is set here"):
        PLAIN.opened(claim_of(input=b"1", inbox=(letter,)))
