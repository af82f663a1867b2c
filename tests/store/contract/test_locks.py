"""Renew, reclaim, holdings: how long a lock lives, and who may end it."""

from __future__ import annotations

import pytest

from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import CLEAN, Append, Dossier, Release, Store
from tests.store.samples import TTL_MS, alive_for, appending, claimed, new_run, request, sign_of_life

QUEUED = RunStatus.queued


async def lapse(store: Store, clock: ManualClock) -> None:
    """Let every lock lapse while the store itself is alive: somebody writes all the time."""
    for _ in range(4):
        clock.move(TTL_MS // 3)
        await store.renew([], TTL_MS)


async def lock_left(store: Store, run_id: str) -> int | None:
    record = await store.read(run_id)
    assert record is not None
    return record.lock_left_ms


async def test_renewal_gives_a_full_life_from_now(store: Store, clock: ManualClock) -> None:
    claim = await claimed(store)
    clock.move(20_000)
    assert await lock_left(store, claim.token.run_id) == TTL_MS - 20_000
    renewed = await store.renew([claim.token], TTL_MS)
    assert (renewed.lost, renewed.cancelled) == (frozenset(), frozenset())
    assert await lock_left(store, claim.token.run_id) == TTL_MS


async def test_a_renewed_run_is_never_reclaimed_however_long_it_takes(store: Store, clock: ManualClock) -> None:
    claim = await claimed(store)
    for _ in range(100):
        clock.move(TTL_MS - 1)
        await store.renew([claim.token], TTL_MS)
        assert (await store.reclaim_lapsed(QUEUED, TTL_MS, 10)).run_ids == ()
    assert (await store.commit(appending(claim.token, 0, b"a"))).append is Append.done


async def test_a_lapsed_run_is_claimable_again_and_at_the_front(store: Store, clock: ManualClock) -> None:
    claim = await claimed(store)
    await store.submit(new_run())
    await lapse(store, clock)
    lapsed = await store.reclaim_lapsed(QUEUED, TTL_MS, 10)
    assert (lapsed.run_ids, lapsed.grace) == ((claim.token.run_id,), False)
    again = (await store.claim(request(incarnation="w-2")))[0]
    assert (again.token.run_id, again.token.fence) == (claim.token.run_id, 2)


async def test_a_late_renewal_does_not_revive_a_lock(store: Store, clock: ManualClock) -> None:
    # a paused owner that wakes up after another one has taken the run
    claim = await claimed(store)
    await lapse(store, clock)
    await store.reclaim_lapsed(QUEUED, TTL_MS, 10)
    assert (await store.renew([claim.token], TTL_MS)).lost == {claim.token.run_id}
    (again,) = await store.claim(request(incarnation="w-2"))
    assert (await store.renew([claim.token, again.token], TTL_MS)).lost == {claim.token.run_id}
    assert await lock_left(store, claim.token.run_id) == TTL_MS
    assert (await store.commit(appending(claim.token, 0, b"late"))).append is Append.fenced


async def test_of_two_recoverers_on_one_stale_list_only_one_recovers(store: Store, clock: ManualClock) -> None:
    await claimed(store)
    await lapse(store, clock)
    first = await store.reclaim_lapsed(QUEUED, TTL_MS, 10)
    (holder,) = await store.claim(request(incarnation="w-2"))
    second = await store.reclaim_lapsed(QUEUED, TTL_MS, 10)
    assert (len(first.run_ids), second.run_ids) == (1, ())
    assert (await store.commit(appending(holder.token, 0, b"a"))).append is Append.done


async def test_a_stale_holding_releases_nothing(store: Store) -> None:
    claim = await claimed(store)
    (stale,) = await store.holdings("w-1")
    assert (stale.token, stale.workflow, stale.dossier) == (claim.token, "order", CLEAN)
    assert await store.release(Release(token=stale.token, status=QUEUED, ready=True, dossier=Dossier(record=b"1")))
    (again,) = await store.claim(request(incarnation="w-2"))
    assert not await store.release(Release(token=stale.token, status=QUEUED, ready=True, dossier=Dossier(record=b"2")))
    assert again.dossier == Dossier(record=b"1")
    assert await store.holdings("w-1") == ()
    assert [held.token for held in await store.holdings("w-2")] == [again.token]


async def test_reclaiming_takes_at_most_its_limit_longest_lapsed_first(store: Store, clock: ManualClock) -> None:
    claims = []
    for _ in range(3):
        claims.append(await claimed(store))
        clock.move(1_000)
    await lapse(store, clock)
    first = await store.reclaim_lapsed(QUEUED, TTL_MS, 2)
    second = await store.reclaim_lapsed(QUEUED, TTL_MS, 2)
    expected = [claim.token.run_id for claim in claims]
    assert [*first.run_ids, *second.run_ids] == expected
    assert len(first.run_ids) == 2


async def test_a_lock_that_has_exactly_ended_its_life_is_not_lapsed_yet(store: Store, clock: ManualClock) -> None:
    await claimed(store)
    for _ in range(3):
        clock.move(TTL_MS // 3)
        await store.renew([], TTL_MS)
    assert (await store.reclaim_lapsed(QUEUED, TTL_MS, 10)).run_ids == ()
    clock.move(1)
    assert len((await store.reclaim_lapsed(QUEUED, TTL_MS, 10)).run_ids) == 1


@pytest.mark.parametrize("held_ms", [0, TTL_MS // 3, TTL_MS])
async def test_no_lock_lapses_while_a_scan_says_that_none_does(store: Store, clock: ManualClock, held_ms: int) -> None:
    await claimed(store)
    await alive_for(store, clock, held_ms)
    told = await store.reclaim_lapsed(QUEUED, TTL_MS, 10)
    later = await claimed(store, "w-2")
    await alive_for(store, clock, told.quiet_ms)
    assert (await store.reclaim_lapsed(QUEUED, TTL_MS, 10)).run_ids == ()
    assert await lock_left(store, later.token.run_id) == TTL_MS - told.quiet_ms


async def test_after_an_outage_every_lock_gets_one_more_life_once(store: Store, clock: ManualClock) -> None:
    await sign_of_life(store)  # as workers give all the time
    claim, dead = await claimed(store), await claimed(store, "w-2")
    clock.move(TTL_MS * 2)  # nobody could reach the store
    outage = await store.reclaim_lapsed(QUEUED, TTL_MS, 10)
    assert (outage.run_ids, outage.grace) == ((), True)
    assert await lock_left(store, claim.token.run_id) == TTL_MS
    await alive_for(store, clock, TTL_MS // 2)
    await store.renew([claim.token], TTL_MS)
    await alive_for(store, clock, TTL_MS // 2 + 1)
    assert (await store.reclaim_lapsed(QUEUED, TTL_MS, 10)).run_ids == (dead.token.run_id,)


async def test_an_outage_is_not_forgotten_because_a_renewal_came_before_the_scan(
    store: Store, clock: ManualClock
) -> None:
    await sign_of_life(store)  # as workers give before they claim
    mine, others = await claimed(store), await claimed(store, "w-2")
    clock.move(TTL_MS * 2)
    await store.renew([mine.token], TTL_MS)
    assert (await store.reclaim_lapsed(QUEUED, TTL_MS, 10)).grace
    assert (await store.renew([others.token], TTL_MS)).lost == frozenset()


@pytest.mark.parametrize("ttl_ms", [1_000, 3_000, 5_000])
async def test_signs_of_life_in_time_are_no_outage_however_short_locks_live(
    store: Store, clock: ManualClock, ttl_ms: int
) -> None:
    await store.submit(new_run())
    await sign_of_life(store)
    (dead,) = await store.claim(request(limit=1, ttl_ms=ttl_ms))
    await store.reclaim_lapsed(QUEUED, ttl_ms, 10)
    for _ in range(5):
        for pause_ms in (ttl_ms // 3 - 1, ttl_ms * 11 // 30):  # a round's rest varies by a tenth
            clock.move(pause_ms)
            await sign_of_life(store)
        await store.submit(new_run())  # others write in between
    told = await store.reclaim_lapsed(QUEUED, ttl_ms, 10)
    assert (told.run_ids, told.grace) == ((dead.token.run_id,), False)
    clock.move(ttl_ms)
    assert (await store.reclaim_lapsed(QUEUED, ttl_ms, 10)).grace


async def test_a_wall_clock_that_jumps_ends_no_lock(store: Store, clock: ManualClock) -> None:
    claim = await claimed(store)
    clock.set_wall(+3_600_000)
    assert await store.reclaim_lapsed(QUEUED, TTL_MS, 10) == await store.reclaim_lapsed(QUEUED, TTL_MS, 10)
    clock.set_wall(-7_200_000)
    assert (await store.reclaim_lapsed(QUEUED, TTL_MS, 10)).run_ids == ()
    assert await lock_left(store, claim.token.run_id) == TTL_MS
