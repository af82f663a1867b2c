"""Schedules: a nominal time is fired by one host, whatever number of them try, and never by one that is out of date."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Firing, RunQuery, ScheduleRecord, Store, SubmitRun, Wake
from tests.store.listening import woken_by
from tests.store.samples import COMPLETED, appending, new_run, request
from tests.store.sites import Site

NIGHTLY = ScheduleRecord(schedule_id="nightly", rev=0, record=b"v1", next_ms=1_000)


def firing(rev: int, run_id: str = "nightly:1000") -> Firing:
    run = replace(new_run(run=run_id), schedule_id="nightly")
    return Firing(schedule_id="nightly", rev=rev, record=b"v2", next_ms=2_000, effects=(SubmitRun(run=run),))


async def test_a_schedule_is_made_once_and_written_by_whoever_read_it_last(store: Store) -> None:
    assert await store.put_schedule(NIGHTLY)
    assert not await store.put_schedule(NIGHTLY)
    (kept,) = (await store.schedules()).records
    assert kept == replace(NIGHTLY, rev=1)
    assert await store.put_schedule(replace(kept, record=b"new", next_ms=None))
    assert not await store.put_schedule(replace(kept, record=b"too late"))
    assert (await store.schedules()).records == (replace(kept, rev=2, record=b"new", next_ms=None),)


async def test_one_nominal_time_that_two_hosts_fire_yields_one_run(site: Site, store: Store) -> None:
    other = await site.open()
    await store.put_schedule(NIGHTLY)
    # even if their ideas of the run's id differ
    fired = await asyncio.gather(store.fire(firing(1, "nightly:1000")), other.fire(firing(1, "other:1000")))
    assert sorted(fired) == [False, True]
    assert len(await store.find(RunQuery())) == 1
    (kept,) = (await store.schedules()).records
    assert (kept.rev, kept.record, kept.next_ms) == (2, b"v2", 2_000)


async def test_a_run_that_is_there_already_is_not_made_twice(store: Store) -> None:
    await store.put_schedule(NIGHTLY)
    assert await store.fire(firing(1))
    assert await store.fire(firing(2))
    assert len(await store.find(RunQuery())) == 1


async def test_schedules_are_due_by_the_clock_of_the_store(store: Store, clock: ManualClock) -> None:
    now = clock.wall_ms()
    for name, next_ms in (("b", now + 10), ("a", now + 20), ("c", None)):
        await store.put_schedule(ScheduleRecord(schedule_id=name, rev=0, record=b"", next_ms=next_ms))
    found = await store.schedules()
    assert ([each.schedule_id for each in found.records], found.next_ms, found.now_ms) == (
        ["a", "b", "c"],
        now + 10,
        now,
    )
    clock.move(9)
    assert (await store.schedules(due_only=True)).records == ()
    clock.move(1)
    found = await store.schedules(due_only=True)
    assert ([each.schedule_id for each in found.records], found.next_ms) == (["b"], now + 10)


async def test_a_dropped_schedule_is_not_fired_even_after_it_was_made_anew(store: Store) -> None:
    await store.put_schedule(NIGHTLY)
    assert await store.drop_schedule("nightly")
    assert not await store.drop_schedule("nightly")
    assert not await store.fire(firing(1))
    found = await store.schedules()
    assert (found.records, found.next_ms) == ((), None)
    assert await store.put_schedule(NIGHTLY)
    assert not await store.fire(firing(1))
    assert await store.find(RunQuery()) == ()


async def test_the_runs_of_a_schedule_can_be_found_by_status(store: Store) -> None:
    await store.put_schedule(NIGHTLY)
    await store.fire(firing(1, "run-1"))
    await store.fire(firing(2, "run-2"))
    await store.submit(new_run())
    claims = {claim.token.run_id: claim for claim in await store.claim(request())}
    await store.commit(appending(claims["run-1"].token, 0, ending=COMPLETED))
    assert [run.run_id for run in await store.find(RunQuery(schedule_id="nightly"))] == ["run-2", "run-1"]
    live = RunQuery(schedule_id="nightly", statuses=frozenset({RunStatus.running}))
    assert [(run.run_id, run.schedule_id) for run in await store.find(live)] == [("run-2", "nightly")]


async def test_an_earlier_schedule_rings(site: Site, store: Store) -> None:
    await store.put_schedule(NIGHTLY)
    sooner = ScheduleRecord(schedule_id="sooner", rev=0, record=b"", next_ms=500)
    await woken_by(site, lambda: store.put_schedule(sooner), Wake.timer)
    await woken_by(site, lambda: store.fire(replace(firing(1), next_ms=400)), Wake.timer)
