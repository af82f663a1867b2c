"""Lock arithmetic: the token, the rhythm of renewals, and when lapsed locks are nobody's fault."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from pyrula_runtime.core.locks import Token, block_limit_s, outage_grace, renew_every_s

TTL_MS = 30_000


def test_two_renewals_may_be_lost_before_a_lock_lapses() -> None:
    assert renew_every_s(30) == 10
    assert 2 * renew_every_s(7.5) < 7.5 <= 3 * renew_every_s(7.5)
    assert not outage_grace(round(1.1 * renew_every_s(30) * 1000), 0, 30_000), "no round is that late by itself"


@pytest.mark.parametrize(("silence_ms", "grace"), [(0, False), (20_000, False), (20_001, True), (10 * TTL_MS, True)])
def test_grace_needs_a_silence_in_which_a_lock_may_have_lapsed(silence_ms: int, grace: object) -> None:
    alive_ms = 1_700_000_000_000
    assert outage_grace(alive_ms + silence_ms, alive_ms, TTL_MS) is grace


def test_a_clock_set_back_is_no_outage() -> None:
    assert outage_grace(1_000, 500_000, TTL_MS) is False


def test_a_token_is_another_when_any_part_of_it_is() -> None:
    token = Token(run_id="r", fence=1, nonce="n")
    assert token == Token(run_id="r", fence=1, nonce="n")
    others = [replace(token, run_id="s"), replace(token, fence=2), replace(token, nonce="m")]
    assert len({token, *others}) == 4
    with pytest.raises(FrozenInstanceError):
        token.fence = 2  # type: ignore[misc]


@pytest.mark.parametrize(("timeout_s", "limit_s"), [(None, 90.0), (60.0, 90.0), (600.0, 600.0)])
def test_code_may_block_for_three_lives_of_a_lock_or_as_long_as_its_workflow_may_take(
    timeout_s: float | None, limit_s: float
) -> None:
    assert block_limit_s(30.0, timeout_s) == limit_s
