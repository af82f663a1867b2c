"""Listen: nothing that happens after it returned is missed, and nobody is woken for what he did not ask."""

from __future__ import annotations

import asyncio

from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Amendment, Release, Store, Wake
from tests.store.listening import woken_by
from tests.store.samples import COMPLETED, TTL_MS, appending, claimed, new_run
from tests.store.sites import Site


async def test_a_new_run_wakes(site: Site, store: Store) -> None:
    await woken_by(site, lambda: store.submit(new_run()), Wake.ready)


async def test_a_released_run_wakes(site: Site, store: Store) -> None:
    claim = await claimed(store)
    release = Release(token=claim.token, status=RunStatus.queued, ready=True)
    await woken_by(site, lambda: store.release(release), Wake.ready)


async def test_a_reclaimed_run_wakes_takers_and_its_holder(site: Site, store: Store, clock: ManualClock) -> None:
    for kind in (Wake.ready, Wake.attention):
        await claimed(store)
        for _ in range(4):
            clock.move(TTL_MS // 3)
            await store.renew([], TTL_MS)
        await woken_by(site, lambda: store.reclaim_lapsed(RunStatus.queued, TTL_MS, 10), kind)


async def test_a_cancelled_holder_is_told(site: Site, store: Store) -> None:
    claim = await claimed(store)
    cancel = Amendment(run_id=claim.token.run_id, rev=2, cancel_requested=True)
    await woken_by(site, lambda: store.amend(cancel), Wake.attention)


async def test_a_run_requeued_by_an_operator_wakes(site: Site, store: Store) -> None:
    claim = await claimed(store)
    await store.commit(appending(claim.token, 0, ending=COMPLETED))
    requeue = Amendment(run_id=claim.token.run_id, rev=3, status=RunStatus.queued, ready=True, clear_outcome=True)
    await woken_by(site, lambda: store.amend(requeue), Wake.ready)


async def test_the_end_of_a_run_wakes_whoever_waits_for_it(site: Site, store: Store) -> None:
    claim = await claimed(store)
    await woken_by(site, lambda: store.commit(appending(claim.token, 0, ending=COMPLETED)), Wake.ended)


async def test_one_handle_hears_itself(store: Store) -> None:
    rung = asyncio.Event()
    listening = store.listen(lambda wake: rung.set(), frozenset({Wake.ready}))
    await store.submit(new_run())
    await asyncio.wait_for(rung.wait(), 10)
    listening.close()


async def test_no_callback_comes_after_close(store: Store) -> None:
    wakes: list[Wake] = []
    listening = store.listen(wakes.append)
    under_way = asyncio.ensure_future(store.submit(new_run()))
    listening.close()
    listening.close()
    await under_way
    await store.submit(new_run())
    await store.read("none")
    assert wakes == []
