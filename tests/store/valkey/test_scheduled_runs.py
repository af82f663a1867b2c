"""Runs of schedules lie in all shards, where every host would put them, and a time that has its run gets no other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pyrula.workflows import Schedule, WorkflowClient
from pyrula_runtime.core.ids import run_id
from pyrula_runtime.core.scheduling import ScheduleState
from pyrula_runtime.scheduling.firing import fire, run_id_of
from pyrula_runtime.scheduling.records import dump_state, new_run, timing_of
from pyrula_runtime.stores.protocol import RunQuery, ScheduleRecord
from pyrula_runtime.stores.valkey.address import Address
from pyrula_runtime.stores.valkey.places import shard_of_run
from pyrula_runtime.stores.valkey.settings import Settings
from pyrula_runtime.stores.valkey.store import ValkeyStore
from tests.store.valkey.audit import audit

HOUR_MS = 3_600_000
DECLARED = Schedule(cron="@hourly", overlap="allow", catch_up=86_400).declared("report", None, takes_time=False)


async def handle(address: Address, shards: int) -> ValkeyStore:
    store = ValkeyStore(address, None, Settings(guarded=True), shard_count=shards)
    await store.open()
    return store


async def put(store: ValkeyStore, after_ms: int) -> ScheduleRecord:
    """The schedule, fired up to this time."""
    state = ScheduleState(schedule_id="report", declared=DECLARED, by="w-1", after_ms=after_ms)
    next_ms = state.next_due_ms(timing_of(DECLARED))
    assert await store.put_schedule(
        ScheduleRecord(schedule_id="report", rev=0, record=dump_state(state), next_ms=next_ms)
    )
    (record,) = (await store.schedules()).records
    return record


async def test_runs_that_are_fired_lie_in_many_shards_where_every_host_would_put_them(address: Address) -> None:
    store, other = await handle(address, 8), await handle(address, 8)
    now_ms = (await store.schedules()).now_ms
    record = await put(store, now_ms - 20 * HOUR_MS)
    fired = await fire(store, record, now_ms)
    assert fired.written
    assert not (await fire(other, record, now_ms)).written
    assert len({shard_of_run(run_id) for run_id in fired.run_ids}) > 3
    assert [run.run_id for run in reversed(await other.find(RunQuery()))] == list(fired.run_ids)
    state = ScheduleState(schedule_id="report", declared=DECLARED, by="w-2", after_ms=0)
    for run in await store.find(RunQuery()):
        nominal_ms = now_ms - now_ms % HOUR_MS
        while run_id_of(other, state, nominal_ms) != run.run_id:
            nominal_ms -= HOUR_MS
            assert nominal_ms > now_ms - 21 * HOUR_MS
    for each in (store, other):
        await each.close()
    assert audit(address, shards=8) == []


async def test_a_backfill_makes_no_second_run_though_the_number_of_shards_has_changed(address: Address) -> None:
    end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    for shards, expected in ((1, 10), (8, 0), (16, 0), (8, 0)):
        store = await handle(address, shards)
        if expected:
            await put(store, (await store.schedules()).now_ms)
        async with WorkflowClient(store) as client:
            made = await client.schedules.backfill("report", end - timedelta(hours=10), end)
            assert len(made) == expected
    store = await handle(address, 8)
    async with WorkflowClient(store) as client:
        more = await client.schedules.backfill("report", end - timedelta(hours=30), end)
        assert len(more) == 20
        assert len({shard_of_run(run.run_id) for run in more}) > 3
    assert audit(address, shards=16) == []


async def test_a_backfill_finds_the_runs_that_a_former_version_has_put_into_the_first_shard(address: Address) -> None:
    store = await handle(address, 8)
    end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    nominal_ms = round((end - timedelta(hours=2)).timestamp() * 1000)
    await put(store, (await store.schedules()).now_ms)
    state = ScheduleState(schedule_id="report", declared=DECLARED, by="w-1", after_ms=0)
    await store.submit(new_run(state, DECLARED, nominal_ms, run_id(nominal_ms, state.entropy(nominal_ms))))
    async with WorkflowClient(store) as client:
        made = await client.schedules.backfill("report", end - timedelta(hours=3), end)
        times = await client.schedules.times("report", end - timedelta(hours=3), end)
    assert len(times) == 3
    assert len(made) == 2
    assert audit(address, shards=8) == []
