"""Lengths of time as a person would say them, and write them."""

from __future__ import annotations

import pytest

from pyrula_runtime.core.spans import ago, ahead, per_second_in, seconds_in, spoken


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


def test_the_future_is_ahead_and_the_past_is_now() -> None:
    assert ahead(31_000, 1_000) == "in 30 s"
    assert ahead(1_000, 1_000) == "now"
    assert ahead(1_000, 9_000) == "now"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("1.5 s", 1.5),
        (" 30min ", 1_800),
        ("30m", 1_800),
        ("2h", 7_200),
        ("1d", 86_400),
        *((text, None) for text in ("", "h", "-1s", "nan", "inf", "1e30", "9" * 30, "1 week", "1h30", "2 / s")),
    ],
)
def test_a_written_span_is_understood(text: str, seconds: float | None) -> None:
    assert seconds_in(text) == seconds


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("5", 5),
        ("5/s", 5),
        ("0.5 / s", 0.5),
        ("30/min", 0.5),
        ("36/h", 0.01),
        ("0", 0),
        *((text, None) for text in ("", "/s", "-1", "nan", "inf/s", "1e30", "5s", "5/week", "5//s")),
    ],
)
def test_a_written_speed_is_understood(text: str, rate: float | None) -> None:
    assert per_second_in(text) == rate
