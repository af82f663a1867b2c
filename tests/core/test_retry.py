"""When a failed step is tried again: the schedule, its ceiling, its jitter, and the policies that are refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.retry import ONCE, Retry, as_retry
from tests.core.patience import patient

YEAR_S = 366 * 24 * 3600
MILLION = 10**6

finite_s = st.floats(0, YEAR_S)
policies = st.builds(
    Retry,
    attempts=st.integers(1, 2 * MILLION),
    initial_s=finite_s,
    factor=st.floats(1, 1.7e308),
    max_s=finite_s,
    jitter=st.floats(0, 1),
)
chances = st.floats(0, 1, exclude_max=True)


def schedule(policy: Retry, chance: float = 0.0) -> list[int | None]:
    return [policy.delay_ms(failed, chance) for failed in range(1, 8)]


def test_the_delay_doubles_up_to_the_ceiling_and_then_the_step_gives_up() -> None:
    policy = Retry(attempts=7, initial_s=0.5, factor=2, max_s=6)
    assert schedule(policy) == [500, 1000, 2000, 4000, 6000, 6000, None]


def test_the_defaults_try_once() -> None:
    assert Retry() == ONCE == Retry(attempts=1, initial_s=0.5, factor=2.0, max_s=60.0, jitter=0.2, never_for=())
    assert schedule(ONCE) == [None] * 7


def test_factor_one_waits_equally_long() -> None:
    assert schedule(Retry(attempts=4, initial_s=3, factor=1)) == [3000, 3000, 3000, None, None, None, None]


def test_a_first_delay_above_the_ceiling_is_cut_to_it() -> None:
    assert schedule(Retry(attempts=3, initial_s=90, max_s=60)) == [60_000, 60_000, None, None, None, None, None]


def test_a_slow_growth_goes_on_until_the_ceiling() -> None:
    policy = Retry(attempts=MILLION, initial_s=1, factor=1.01, max_s=3600)
    assert policy.delay_ms(65, 0) == round(1.01**64 * 1000) == 1890
    assert policy.delay_ms(701, 0) == round(1.01**700 * 1000) == 1_059_160
    assert policy.delay_ms(900, 0) == 3_600_000


def test_jitter_takes_off_its_share_and_no_more() -> None:
    policy = Retry(attempts=2, initial_s=10, jitter=0.2)
    assert [policy.delay_ms(1, chance) for chance in (0, 0.5, 0.999999999)] == [10_000, 9_000, 8_000]
    assert Retry(attempts=2, initial_s=10, jitter=0).delay_ms(1, 0.9) == 10_000
    assert Retry(attempts=2, initial_s=10, jitter=1).delay_ms(1, 0.75) == 2_500


@patient
@given(policy=policies, failed=st.integers(1, 2 * MILLION), chance=chances)
@example(policy=Retry(attempts=2 * MILLION, initial_s=0, factor=1e308), failed=MILLION, chance=0.0)
def test_every_delay_lies_between_its_jitter_and_the_ceiling(policy: Retry, failed: int, chance: float) -> None:
    delay_ms, full_ms = policy.delay_ms(failed, chance), policy.delay_ms(failed, 0)
    assert (delay_ms is None) == (failed >= policy.attempts)
    if delay_ms is None or full_ms is None:
        return
    assert 0 <= delay_ms <= full_ms <= round(policy.max_s * 1000)
    assert delay_ms >= math.floor(full_ms * (1 - policy.jitter)) - 1
    if policy.initial_s == 0:
        assert full_ms == 0


@patient
@given(policy=policies, failed=st.integers(1, 2 * MILLION))
def test_delays_never_shrink(policy: Retry, failed: int) -> None:
    delays = [policy.delay_ms(number, 0) for number in (failed, failed + 1)]
    if delays[0] is not None and delays[1] is not None:
        assert delays[0] <= delays[1]


@pytest.mark.parametrize("factor", [2, 2.0, 10**6, 1e308])
def test_a_million_attempts_do_not_overflow(factor: float) -> None:
    policy = Retry(attempts=MILLION, factor=factor)
    assert policy.delay_ms(MILLION - 1, 0) == 60_000
    assert policy.delay_ms(MILLION, 0) is None


@pytest.mark.parametrize("attempts", [0, -1])
def test_a_step_is_tried_at_least_once(attempts: int) -> None:
    with pytest.raises(UsageError, match=rf"^Retry\(attempts={attempts}\): a step is tried at least once$"):
        Retry(attempts=attempts)


@pytest.mark.parametrize(
    "wrong",
    [
        {"initial_s": -0.1},
        {"initial_s": math.nan},
        {"initial_s": YEAR_S + 1},
        {"max_s": -1},
        {"max_s": math.nan},
        {"max_s": YEAR_S + 1},
        {"factor": 0.99},
        {"factor": math.nan},
        {"factor": math.inf},
        {"jitter": -0.01},
        {"jitter": 1.01},
        {"jitter": math.nan},
    ],
    ids=str,
)
def test_absurd_policies_are_refused_with_the_policy_and_the_rule(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as refusal:
        Retry(**wrong)
    ((name, value),) = wrong.items()
    assert f"{name}={value}" in str(refusal.value)
    assert str(refusal.value).startswith("Retry(")
    assert str(refusal.value).endswith(
        "): delays must be between 0 s and a year, factor >= 1 and jitter between 0 and 1"
    )


@pytest.mark.parametrize("wrong", ["2", 2.5, True, None])
def test_attempts_that_are_no_whole_number_are_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="it must be a whole number"):
        Retry(attempts=wrong)


@pytest.mark.parametrize("wrong", [ValueError, ("ValueError",), [ValueError], (ValueError(),), (int,), None])
def test_what_is_no_tuple_of_exception_classes_is_refused_before_a_step_fails(wrong: Any) -> None:
    with pytest.raises(UsageError, match="it must be a tuple of exception classes"):
        Retry(never_for=wrong)


def test_the_edges_are_allowed() -> None:
    assert Retry(attempts=2, initial_s=0, max_s=0, factor=1, jitter=0).delay_ms(1, 0.5) == 0
    assert Retry(attempts=2, initial_s=YEAR_S, max_s=YEAR_S, jitter=1).delay_ms(1, 0) == YEAR_S * 1000


def test_what_a_user_may_write_for_a_policy() -> None:
    policy = Retry(attempts=9, never_for=(ValueError,))
    assert as_retry(policy) is policy
    assert as_retry(4) == Retry(attempts=4)
    assert as_retry(None) is ONCE
    with pytest.raises(UsageError):
        as_retry(0)
