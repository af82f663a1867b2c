"""Every message survives its packet, and nothing else becomes a message."""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula_runtime.wire import (
    MAX_PACKET,
    Blocked,
    Buried,
    Finding,
    Fork,
    Message,
    Queue,
    Report,
    Role,
    Stack,
    Stage,
    Start,
    WireError,
    cut,
    cut_behind,
    decode,
    encode,
)

KINDS: list[type[Any]] = list(Message.__args__)
TEXT = st.text(max_size=20)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    "str": TEXT,
    "int": st.integers(-(2**53), 2**53),
    "bool": st.booleans(),
    "float": st.floats(allow_nan=False, allow_infinity=False),
    "Role": st.sampled_from(Role),
    "Stage": st.sampled_from(Stage),
    "tuple[str, ...]": st.lists(TEXT, max_size=3).map(tuple),
    "dict[str, Any]": st.dictionaries(TEXT, st.one_of(TEXT, st.integers(0, 9), st.none()), max_size=3),
    "dict[str, int]": st.dictionaries(TEXT, st.integers(0, 2**53), max_size=3),
}


def messages_of(kind: type[Any]) -> st.SearchStrategy[Any]:
    values = VALUES | {
        "Start": st.deferred(lambda: messages_of(Start)),
        "Finding": st.deferred(lambda: messages_of(Finding)),
    }
    return st.builds(kind, **{each.name: values[each.type] for each in dataclasses.fields(kind)})


MESSAGES = st.sampled_from(KINDS).flatmap(messages_of)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=5,
)


@given(MESSAGES)
def test_a_message_survives_its_packet(message: Message) -> None:
    assert decode(encode(message)) == message


@given(MESSAGES, st.data())
def test_a_field_of_another_type_makes_it_no_message(message: Message, data: st.DataObject) -> None:
    tree = orjson.loads(encode(message))
    name = data.draw(st.sampled_from(sorted(tree)))
    tree[name] = data.draw(JSON)
    try:
        found = decode(orjson.dumps(tree))
    except WireError:
        return
    assert decode(encode(found)) == found
    for each in dataclasses.fields(found):
        kind = {"str": str, "int": int, "bool": bool, "float": float}.get(str(each.type))
        assert kind is None or type(getattr(found, each.name)) is kind


@given(st.binary(max_size=200))
def test_noise_is_no_message(noise: bytes) -> None:
    with pytest.raises(WireError):
        decode(noise)


def test_unknown_fields_are_ignored_so_that_two_generations_understand_each_other() -> None:
    tree = orjson.loads(encode(Stack(incarnation="i", text="t"))) | {"later": [1]}
    assert decode(orjson.dumps(tree)) == Stack(incarnation="i", text="t")


@pytest.mark.parametrize("message", [Buried(incarnation="i", run_ids=("x" * 100,) * 1_000, final=True)])
def test_what_does_not_fit_is_refused(message: Message) -> None:
    with pytest.raises(WireError, match="does not fit"):
        encode(message)


def test_texts_that_are_cut_always_fit() -> None:
    text = cut("\x01" * 1_000_000)
    message = Blocked(incarnation="i", run_id="r", workflow="w", step="s", for_s=1.0, line=cut("é" * 10**6), stack=text)
    assert len(encode(message)) <= MAX_PACKET
    assert cut("a lone \udcff") == "a lone ?"


def test_what_begins_with_what_matters_is_cut_behind_a_line() -> None:
    text = "".join(f"line {number}\n" for number in range(10_000))
    kept = cut_behind(text)
    assert text.startswith(kept)
    assert kept.endswith("\n")
    assert cut(kept) == kept == cut_behind(kept)
    assert len(cut_behind("é" * 10**6)) == len(cut("é" * 10**6)) - len("…")
    assert cut_behind("a lone \udcff") == "a lone ?"
    with pytest.raises(WireError, match="no JSON"):
        encode(Stack(incarnation="i", text="\udcff"))


def test_numbers_must_be_finite_and_truth_is_no_number() -> None:
    report = Report(
        incarnation="i", turns_running=1, turns_done=2, capacity=3, lane_lag_ms=0, draining=False, store_ok=True
    )
    for name, value in (("turns_done", True), ("lane_lag_ms", "1"), ("store_ok", 1), ("capacity", 1.5)):
        with pytest.raises(WireError):
            decode(orjson.dumps(orjson.loads(encode(report)) | {name: value}))


def test_a_fork_carries_its_start_and_counts_are_numbers() -> None:
    start = Start(role=Role.worker, incarnation="i", slot=0, generation=1, supervisor_pid=1, workflows=("a", "b"))
    assert decode(encode(Fork(start=start))) == Fork(start=start)
    queue = orjson.loads(encode(Queue(incarnation="i", store_ok=True, store_url="u", counts={"queued": 1})))
    with pytest.raises(WireError):
        decode(orjson.dumps(queue | {"counts": {"queued": "many"}}))
