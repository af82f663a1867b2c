"""Values without an annotation: what the body gets live is what a replay would read."""

from __future__ import annotations

import datetime as dt
import enum
import math
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula_runtime.core.errors import InputError
from pyrula_runtime.forms.plain import plain_json


class Colour(enum.Enum):
    red = "r"


class Word(str):
    __slots__ = ()


@dataclass
class Point:
    x: int
    y: int


@pytest.mark.parametrize(
    ("value", "tree"),
    [
        (None, None),
        ((1, (2, 3)), [1, [2, 3]]),
        ({1: "a"}, {"1": "a"}),
        ({1}, [1]),
        (Point(1, 2), {"x": 1, "y": 2}),
        ([Point(1, 2)], [{"x": 1, "y": 2}]),
        (Colour.red, "r"),
        (Word("w"), "w"),
        (OrderedDict(a=1), {"a": 1}),
        (b"bytes", "bytes"),
        (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (dt.datetime(2024, 2, 29, tzinfo=dt.UTC), "2024-02-29T00:00:00Z"),
        (2**64 - 1, 2**64 - 1),
        (-(2**63), -(2**63)),
        (["null", None, 1.5], ["null", None, 1.5]),
    ],
)
def test_values_become_json(value: Any, tree: Any) -> None:
    made = plain_json(value)
    assert (made, type(made)) == (tree, type(tree))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.nan, "nan is no JSON number"),
        ({"a": [1, (math.inf,)]}, "inf is no JSON number"),
        ({1: math.nan}, "nan is no JSON number"),
        (2**64, "64-bit"),
        ([-(2**63) - 1], "64-bit"),
        ("\ud800", "surrogates"),
        (object(), "object"),
        (lambda: None, "not JSON"),
    ],
)
def test_what_json_cannot_hold_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        plain_json(value)


def test_a_value_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(InputError, match="not JSON"):
        plain_json(endless)


def test_the_tree_shares_nothing_with_the_value() -> None:
    inner = [1]
    tree = plain_json({"inner": inner})
    inner.append(2)
    assert tree == {"inner": [1]}


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
)


@given(anything)
def test_the_tree_is_what_its_bytes_say(value: Any) -> None:
    try:
        tree = plain_json(value)
    except InputError:
        return
    again = orjson.loads(orjson.dumps(tree))
    assert repr(again) == repr(tree)
