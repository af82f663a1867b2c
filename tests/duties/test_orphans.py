"""The orphan scan: it comes no later than the interval after a lock can have lapsed, and not before it needs to."""

from __future__ import annotations

import pytest

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.duties.orphans import OrphanScan
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Store
from tests.store.samples import TTL_MS, claimed, sign_of_life, status_of

INTERVAL_S = 60.0
LONGEST = 1.1  # a round's rest varies by a tenth


async def pass_by(store: Store, clock: ManualClock, over_ms: int) -> None:
    """Time goes by, and other workers live."""
    for left_ms in range(over_ms, 0, -10_000):
        clock.move(min(left_ms, 10_000))
        await sign_of_life(store)


@pytest.mark.parametrize("held_ms", [0, 10_000, 29_999])
async def test_a_lock_that_lapsed_is_found_within_the_interval(store: Store, clock: ManualClock, held_ms: int) -> None:
    await sign_of_life(store)
    dead = await claimed(store)
    await pass_by(store, clock, held_ms)
    scan = OrphanScan(store, TTL_MS, INTERVAL_S)
    await scan.act()
    assert await status_of(store, dead.token.run_id) is RunStatus.running
    rest_ms = round(scan.round.period_s * LONGEST * 1000)
    assert rest_ms <= TTL_MS - held_ms + INTERVAL_S * LONGEST * 1000
    await pass_by(store, clock, rest_ms)
    await scan.act()
    assert await status_of(store, dead.token.run_id) is RunStatus.queued


async def test_a_lock_taken_after_the_look_is_found_within_the_interval(store: Store, clock: ManualClock) -> None:
    scan = OrphanScan(store, TTL_MS, INTERVAL_S)
    await scan.act()
    rest_ms = round(scan.round.period_s * LONGEST * 1000)
    dead = await claimed(store)
    assert rest_ms <= TTL_MS + INTERVAL_S * LONGEST * 1000
    await pass_by(store, clock, rest_ms)
    await scan.act()
    assert await status_of(store, dead.token.run_id) is RunStatus.queued


async def test_the_rest_is_two_intervals_at_most_however_long_locks_live_here(store: Store) -> None:
    scan = OrphanScan(store, 100 * TTL_MS, INTERVAL_S)
    await scan.act()
    assert scan.round.period_s <= 2 * INTERVAL_S


async def test_orphans_are_found_though_what_comes_first_could_not_all_be_done(
    store: Store, clock: ManualClock
) -> None:
    async def partly() -> None:
        raise StoreUnavailable("a node is away")

    await sign_of_life(store)
    dead = await claimed(store)
    await pass_by(store, clock, TTL_MS + 1)
    scan = OrphanScan(store, TTL_MS, INTERVAL_S, first=partly)
    with pytest.raises(StoreUnavailable, match="a node is away"):
        await scan.act()
    assert await status_of(store, dead.token.run_id) is RunStatus.queued
    assert scan.round.period_s == INTERVAL_S
