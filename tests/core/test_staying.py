"""How long a turn that waits for a message stays: as long as its replay took, anew from each thing that comes."""

from __future__ import annotations

import pytest

from pyrula_runtime.core.staying import LEAST_MS, MOST_MS, Stay, patience_ms


@pytest.mark.parametrize(
    ("replay_ms", "stays_ms"),
    [
        (0, 0),
        (LEAST_MS - 1, 0),
        (LEAST_MS, LEAST_MS),
        (290, 290),
        (MOST_MS, MOST_MS),
        (MOST_MS + 1, MOST_MS),
        (60_000, MOST_MS),
    ],
)
def test_it_stays_for_as_long_as_its_replay_took_if_that_is_worth_it_and_never_long(
    replay_ms: int, stays_ms: int
) -> None:
    assert patience_ms(replay_ms) == stays_ms
    stay = Stay(5_000)
    stay.caught_up(5_000 + replay_ms)
    assert stay.left_ms(90_000) == stays_ms


def test_the_stay_begins_when_there_is_nothing_more_to_do_and_is_over_some_time() -> None:
    stay = Stay(0)
    stay.caught_up(100)
    assert [stay.left_ms(now_ms) for now_ms in (700, 700, 750, 799, 800, 2_000)] == [100, 100, 50, 1, 0, 0]


def test_it_is_counted_anew_from_each_thing_that_comes() -> None:
    stay = Stay(0)
    stay.caught_up(100)
    assert stay.left_ms(100) == 100
    stay.moved()
    assert [stay.left_ms(now_ms) for now_ms in (190, 200, 289, 290)] == [100, 90, 1, 0]


def test_only_the_replay_counts_not_what_the_turn_does_afterwards() -> None:
    stay = Stay(0)
    stay.caught_up(20)
    stay.caught_up(900)
    assert stay.left_ms(900) == 20


def test_a_turn_that_has_not_caught_up_has_no_reason_to_stay() -> None:
    assert Stay(0).left_ms(500) == 0
