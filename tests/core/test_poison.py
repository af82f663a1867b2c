"""The poison budget: which charges still count, and which one is one too many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula_runtime.core.poison import Budget, charged, recent
from tests.core.patience import patient

HOUR_MS = 3_600_000
NOW_MS = 1_700_000_000_000
THREE = Budget()


def test_three_charges_within_an_hour_are_forgiven_unless_told_otherwise() -> None:
    assert Budget(max_retries=3, window_ms=HOUR_MS) == THREE


def test_the_fourth_charge_within_the_window_quarantines() -> None:
    charges: tuple[int, ...] = ()
    verdicts = []
    for minute in range(5):
        charges, quarantined = charged(charges, NOW_MS + minute * 60_000, THREE)
        verdicts.append(quarantined)
    assert verdicts == [False, False, False, True, True]
    assert charges == tuple(NOW_MS + minute * 60_000 for minute in range(5))


@pytest.mark.parametrize(("age_ms", "counts"), [(0, True), (HOUR_MS - 1, True), (HOUR_MS, False), (HOUR_MS + 1, False)])
def test_a_charge_counts_until_the_window_has_passed(age_ms: int, *, counts: bool) -> None:
    old = NOW_MS - age_ms
    assert recent((old,), NOW_MS, THREE) == ((old,) if counts else ())
    assert charged((old, old, old), NOW_MS, THREE) == (((old,) * 3 if counts else ()) + (NOW_MS,), counts)


def test_only_charges_that_counted_are_kept() -> None:
    young = NOW_MS - 5
    assert charged((NOW_MS - 2 * HOUR_MS, young), NOW_MS, THREE) == ((young, NOW_MS), False)


def test_a_charge_from_before_the_clock_was_set_back_counts() -> None:
    assert recent((NOW_MS + 1,), NOW_MS, THREE) == (NOW_MS + 1,)


def test_without_budget_the_first_charge_quarantines() -> None:
    assert charged((), NOW_MS, Budget(max_retries=0)) == ((NOW_MS,), True)


@patient
@given(
    steps_ms=st.lists(st.integers(0, 2_000), max_size=30),
    max_retries=st.integers(0, 5),
    window_ms=st.integers(1, 5_000),
)
def test_a_verdict_needs_more_charges_than_the_budget_within_one_window(
    steps_ms: list[int], max_retries: int, window_ms: int
) -> None:
    budget = Budget(max_retries=max_retries, window_ms=window_ms)
    kept: tuple[int, ...] = ()
    told: list[int] = []
    for step_ms in steps_ms:
        now_ms = (told[-1] if told else NOW_MS) + step_ms
        told.append(now_ms)
        kept, quarantined = charged(kept, now_ms, budget)
        assert kept == tuple(at for at in told if at > now_ms - window_ms)
        assert quarantined == (sum(now_ms - at < window_ms for at in told) >= max_retries + 1)
