"""The schedules' duty: each time fires once, whoever tries; overlaps, outages and hosts that come and go."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.scheduling import pause
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.scheduling.firing import run_id_of
from pyrula_runtime.scheduling.records import dump_state
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import ScheduleRecord, Store
from pyrula_runtime.stores.seam import Crossing, Deed, Phase, Seam
from pyrula_runtime.workflows.starting import Schedule
from tests.duties.starting.schedules import complete_one, duty, kept, put, runs_of, statuses_of
from tests.store.sites import Site

EVERY_S = 10
EVERY_MS = 10_000
OFTEN = Schedule(every=EVERY_S, overlap="allow", catch_up=3600)


def nominal(after_ms: int, number: int = 1) -> int:
    """The time that comes in this place after a moment."""
    return (after_ms // EVERY_MS + number) * EVERY_MS


async def test_each_time_fires_once_however_many_hosts_try(site: Site, store: Store, clock: ManualClock) -> None:
    state = await put(store, clock, OFTEN)
    hosts = [duty(await site.open(), clock) for _ in range(3)]
    for step_ms in (1_000, 9_000, 3_000, 12_000, 40_000, 1, 9_999):
        clock.move(step_ms)
        await asyncio.gather(*(host.act() for host in hosts))
    times = [nominal(state.after_ms, number) for number in range(1, 8)]
    assert await runs_of(store) == [run_id_of(store, state, each) for each in times]
    assert (await kept(store)).after_ms == times[-1]
    for host in hosts:
        host.stop()


async def test_a_run_is_told_its_time_and_named_by_its_schedule(store: Store, clock: ManualClock) -> None:
    state = await put(store, clock, replace(OFTEN, timezone="Asia/Kathmandu"))
    clock.move(EVERY_MS)
    await duty(store, clock).act()
    run = await store.read(run_id_of(store, state, nominal(state.after_ms)))
    assert run is not None
    assert (run.workflow, run.schedule_id, run.status) == ("order", "order", RunStatus.queued)
    given = json.loads(run.input)["scheduled_at"]
    assert given.endswith("+05:45")
    assert datetime.fromisoformat(given) == datetime.fromtimestamp(nominal(state.after_ms) / 1000, UTC)


async def test_it_comes_again_when_the_next_is_due(store: Store, clock: ManualClock) -> None:
    nudged = asyncio.Event()
    schedules = duty(store, clock, nudged.set)
    await schedules.act()
    state = await put(store, clock, OFTEN)
    clock.move(nominal(state.after_ms) - clock.wall_ms() - 20)  # the manual clock stands still, the alarm does not
    await schedules.act()
    await asyncio.wait_for(nudged.wait(), 20)
    assert await runs_of(store) == []
    clock.move(20)
    await schedules.act()
    assert len(await runs_of(store)) == 1
    schedules.stop()


async def test_skip_passes_over_what_comes_while_a_run_goes_on(store: Store, clock: ManualClock) -> None:
    await put(store, clock, Schedule(every=EVERY_S))
    schedules = duty(store, clock)
    for _ in range(3):
        clock.move(EVERY_MS)
        await schedules.act()
    assert (await statuses_of(store), (await kept(store)).passed_over) == ([RunStatus.queued], 2)
    await complete_one(store)
    clock.move(EVERY_MS)
    await schedules.act()
    assert await statuses_of(store) == [RunStatus.completed, RunStatus.queued]
    schedules.stop()


async def test_buffer_one_begins_when_the_run_before_has_ended(site: Site, store: Store, clock: ManualClock) -> None:
    nudged = asyncio.Event()
    await put(store, clock, Schedule(every=EVERY_S, overlap="buffer_one"))
    schedules = duty(await site.open(), clock, nudged.set)
    for _ in range(3):
        clock.move(EVERY_MS)
        await schedules.act()
    assert (await statuses_of(store), (await kept(store)).passed_over) == ([RunStatus.queued], 1)
    nudged.clear()
    await complete_one(store)
    while await statuses_of(store) != [RunStatus.completed, RunStatus.queued]:
        await asyncio.wait_for(nudged.wait(), 20)
        nudged.clear()
        await schedules.act()
    assert (await kept(store)).buffered_ms is None
    schedules.stop()


async def test_what_another_host_let_wait_is_found_at_the_poll(site: Site, store: Store, clock: ManualClock) -> None:
    await put(store, clock, Schedule(every=100_000, overlap="buffer_one"))
    first, second = duty(store, clock), duty(await site.open(), clock)
    for _ in range(2):
        clock.move(100_000_000)
        await first.act()
    first.stop()  # and is heard of no more
    assert (await kept(store)).buffered_ms is not None
    await complete_one(store)
    clock.move(31_000)
    await second.act()
    assert await statuses_of(store) == [RunStatus.completed, RunStatus.queued]
    second.stop()


async def test_cancel_other_cancels_what_goes_on(store: Store, clock: ManualClock) -> None:
    await put(store, clock, Schedule(every=EVERY_S, overlap="cancel_other"))
    schedules = duty(store, clock)
    for _ in range(2):
        clock.move(EVERY_MS)
        await schedules.act()
    first, second = await runs_of(store)
    told = [await store.read(run_id) for run_id in (first, second)]
    assert [run.cancel_requested for run in told if run] == [True, False]
    schedules.stop()


async def test_after_an_outage_recent_times_are_made_up_for(store: Store, clock: ManualClock) -> None:
    state = await put(store, clock, replace(OFTEN, catch_up=25))
    clock.move(1_000_000)
    await duty(store, clock).act()
    assert len(await runs_of(store)) in (2, 3)
    assert (await kept(store)).after_ms > state.after_ms + 900_000


async def test_a_hundred_and_fifty_times_take_two_writes(store: Store, clock: ManualClock) -> None:
    await put(store, clock, OFTEN)
    clock.move(150 * EVERY_MS)
    await duty(store, clock).act()
    assert len(await runs_of(store)) == 150


async def test_a_paused_or_removed_schedule_fires_nothing(store: Store, clock: ManualClock) -> None:
    state = await put(store, clock, OFTEN)
    rest = pause(state)
    assert rest is not None
    await store.put_schedule(ScheduleRecord(schedule_id="order", rev=1, record=dump_state(rest), next_ms=None))
    gone = replace(state, schedule_id="gone", declared=None)
    await store.put_schedule(ScheduleRecord(schedule_id="gone", rev=0, record=dump_state(gone), next_ms=1))
    clock.move(100_000)
    await duty(store, clock).act()
    assert await runs_of(store) == []


@pytest.mark.parametrize("broken", [b"{}", b"not JSON"])
async def test_one_that_a_newer_version_wrote_keeps_no_other_from_firing(
    store: Store, clock: ManualClock, broken: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    await store.put_schedule(ScheduleRecord(schedule_id="newer", rev=0, record=broken, next_ms=1))
    await put(store, clock, OFTEN)
    schedules = duty(store, clock)
    for _ in range(2):
        clock.move(EVERY_MS)
        await schedules.act()
    assert len(await runs_of(store)) == 2
    assert caplog.text.count("schedule newer cannot be fired here") == 1
    schedules.stop()


async def test_one_that_cannot_be_fired_here_makes_no_other_late(store: Store, clock: ManualClock) -> None:
    await store.put_schedule(ScheduleRecord(schedule_id="newer", rev=0, record=b"{}", next_ms=1))
    state = await put(store, clock, OFTEN)
    clock.move(nominal(state.after_ms) - clock.wall_ms() - 20)
    nudged = asyncio.Event()
    schedules = duty(store, clock, nudged.set)
    await schedules.act()
    await asyncio.wait_for(nudged.wait(), 20)
    schedules.stop()


async def test_a_lost_answer_fires_nothing_twice(store: Store, clock: ManualClock) -> None:
    def fault(crossing: Crossing) -> Deed:
        return Deed.lose if crossing.verb == "fire" and crossing.phase is Phase.sent else Deed.go_on

    state = await put(store, clock, OFTEN)
    clock.move(EVERY_MS)
    with pytest.raises(StoreUnavailable):
        await duty(Seam(store, fault), clock).act()
    await duty(store, clock).act()
    assert await runs_of(store) == [run_id_of(store, state, nominal(state.after_ms))]
