"""Lengths of time as a person would say them."""

from __future__ import annotations

import pytest

from pyrula_runtime.core.spans import ago, spoken


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (-5, "0 ms"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (9_940, "9.9 s"),
        (10_000, "10 s"),
        (119_999, "119 s"),
        (120_000, "2 min"),
        (7_199_999, "119 min"),
        (7_200_000, "2 h"),
        (172_799_999, "47 h"),
        (172_800_000, "2 d"),
    ],
)
def test_a_span_is_said_in_one_unit(ms: int, words: str) -> None:
    assert spoken(ms) == words


def test_the_past_is_ago_and_the_future_is_now() -> None:
    assert ago(1_000, 31_000) == "30 s ago"
    assert ago(1_000, 1_999) == "just now"
    assert ago(9_000, 1_000) == "just now"
