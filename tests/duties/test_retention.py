"""Which runs are dropped: those that ended, once their time is over, and quarantined ones only if that was asked."""

from __future__ import annotations

from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.duties import retention
from pyrula_runtime.options import WorkerOptions
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Release, RunQuery, Store
from tests.store.samples import COMPLETED, DAY_MS, appending, claimed, new_run, request


async def statuses_of_all(store: Store) -> set[RunStatus]:
    return {record.status for record in await store.find(RunQuery())}


async def one_of_each(store: Store) -> None:
    """A run that was completed, one that was quarantined, one that waits to be claimed."""
    completed, quarantined = await claimed(store), await claimed(store)
    await store.commit(appending(completed.token, 0, ending=COMPLETED))
    await store.release(Release(token=quarantined.token, status=RunStatus.quarantined, ready=False))
    await store.submit(new_run())


async def test_without_an_option_everything_is_kept(store: Store, clock: ManualClock) -> None:
    await one_of_each(store)
    clock.move(1_000 * DAY_MS)
    await retention.drop(store, WorkerOptions())
    assert await statuses_of_all(store) == {RunStatus.completed, RunStatus.quarantined, RunStatus.queued}


async def test_what_is_quarantined_has_a_time_of_its_own(store: Store, clock: ManualClock) -> None:
    await one_of_each(store)
    options = WorkerOptions(retention=3600, retention_quarantined=7200)
    clock.move(3_600_000)
    await retention.drop(store, options)
    assert await statuses_of_all(store) == {RunStatus.quarantined, RunStatus.queued}
    clock.move(3_600_000)
    await retention.drop(store, options)
    assert await statuses_of_all(store) == {RunStatus.queued}


async def test_however_many_there_are_they_go(store: Store, clock: ManualClock) -> None:
    for _ in range(250):
        await store.submit(new_run())
    for claim in await store.claim(request(limit=250)):
        await store.commit(appending(claim.token, 0, ending=COMPLETED))
    clock.move(round(retention.LEAST_OF_SHARDS_S) * 1_000)
    await retention.drop(store, WorkerOptions(retention=1))
    assert await statuses_of_all(store) == set()
