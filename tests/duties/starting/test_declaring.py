"""Workers that tell the store what their code says: new, changed and removed schedules, while others say otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyrula_runtime.core.scheduling import Declaration, pause
from pyrula_runtime.duties.declaring import Declaring
from pyrula_runtime.engine.program import Program, Trigger
from pyrula_runtime.scheduling.records import dump_state
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Event, Firing, ScheduleRecord, Store
from pyrula_runtime.workflows.starting import Schedule
from tests.duties.starting.schedules import declared, kept
from tests.store.samples import worker

HOURLY, DAILY = declared(Schedule(cron="@hourly")), declared(Schedule(cron="@daily"))


def program(schedule: Declaration | None, *triggers: Trigger, version: str | None = None) -> Program:
    return Program(
        name="order",
        version=version,
        run=lambda _, given: given,
        to_json=lambda value: value,
        schedule=schedule,
        triggers=triggers,
    )


async def says(store: Store, incarnation: str, schedule: Declaration | None) -> Declaring:
    """A worker that starts."""
    await store.beat(worker(incarnation), 10**9)
    declaring = Declaring(store, [program(schedule)], incarnation)
    await declaring.act()
    return declaring


async def next_ms(store: Store) -> int | None:
    (record,) = (await store.schedules()).records
    return record.next_ms


async def test_a_new_schedule_fires_from_now_on(store: Store, clock: ManualClock) -> None:
    await says(store, "w-1", HOURLY)
    hour_ms = 3_600_000
    assert await next_ms(store) == (clock.wall_ms() // hour_ms + 1) * hour_ms
    state = await kept(store)
    assert (state.declared, state.by, state.after_ms) == (HOURLY, "w-1", clock.wall_ms())


async def test_a_worker_without_schedules_writes_nothing(store: Store) -> None:
    await says(store, "w-1", None)
    assert (await store.schedules()).records == ()


async def test_a_second_worker_of_the_same_code_changes_nothing(store: Store, clock: ManualClock) -> None:
    first = await says(store, "w-1", HOURLY)
    await says(store, "w-2", HOURLY)
    await first.act()
    (record,) = (await store.schedules()).records
    assert record.rev == 1


async def test_when_the_first_has_gone_a_fellow_speaks_for_the_schedule(store: Store) -> None:
    await says(store, "w-1", HOURLY)
    await store.retire("w-1")
    await says(store, "w-2", HOURLY)
    assert (await kept(store)).by == "w-2"


async def test_a_changed_schedule_takes_the_place_of_the_old_and_keeps_its_pause(store: Store) -> None:
    await says(store, "w-1", HOURLY)
    rest = pause(await kept(store))
    assert rest is not None
    await store.put_schedule(ScheduleRecord(schedule_id="order", rev=1, record=dump_state(rest), next_ms=None))
    await says(store, "w-2", DAILY)
    state = await kept(store)
    assert (state.declared, state.paused) == (DAILY, True)
    assert await next_ms(store) is None


async def test_an_old_worker_that_starts_again_does_not_undo_a_change(store: Store) -> None:
    await says(store, "old", HOURLY)
    await says(store, "new", DAILY)
    await says(store, "old-again", HOURLY)
    assert (await kept(store)).declared == DAILY


async def test_after_a_rollback_the_old_code_speaks_again(store: Store) -> None:
    await says(store, "old", HOURLY)
    await says(store, "new", DAILY)
    await store.retire("new")
    back = await says(store, "old-again", HOURLY)
    assert (await kept(store)).declared == DAILY  # a fellow of the new one may only be slow
    for _ in range(2):
        await back.act()
    assert (await kept(store)).declared == HOURLY


async def test_a_rollback_is_noticed_however_often_the_schedule_fires(store: Store) -> None:
    await says(store, "old", HOURLY)
    await says(store, "new", DAILY)
    await store.retire("new")
    back = await says(store, "old-again", HOURLY)
    for _ in range(2):
        (record,) = (await store.schedules()).records
        assert await store.fire(Firing(schedule_id="order", rev=record.rev, record=record.record, next_ms=None))
        await back.act()
    assert (await kept(store)).declared == HOURLY


async def test_a_schedule_that_the_code_has_no_more_fires_no_more(store: Store) -> None:
    await says(store, "old", HOURLY)
    await says(store, "new", None)
    assert (await kept(store)).declared is None
    assert await next_ms(store) is None
    await says(store, "old-again", HOURLY)
    assert (await kept(store)).declared is None


async def test_whoever_loses_a_race_compares_again(store: Store) -> None:
    await says(store, "w-1", HOURLY)

    async def somebody_is_faster() -> None:
        state = replace(await kept(store), passed_over=7)
        await store.put_schedule(ScheduleRecord(schedule_id="order", rev=1, record=dump_state(state), next_ms=None))

    slow = Declaring(store, [program(DAILY)], "w-2")
    found = await store.schedules()
    await somebody_is_faster()
    assert found.records[0].rev == 1
    await slow.act()
    state = await kept(store)
    assert (state.declared, state.passed_over) == (DAILY, 7)


async def test_a_schedule_of_a_newer_version_is_left_alone(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    await store.put_schedule(ScheduleRecord(schedule_id="order", rev=0, record=b"{}", next_ms=None))
    declaring = await says(store, "w-1", HOURLY)
    await declaring.act()
    assert (await store.schedules()).records[0].record == b"{}"
    assert caplog.text.count("is left as a newer version of Pyrula wrote it") == 1


async def test_old_code_that_starts_again_keeps_no_event_from_new_code(store: Store) -> None:
    new = Declaring(store, [program(None, Trigger(event="order.created"))], "new")
    await new.act()
    await Declaring(store, [program(None)], "old-again").act()
    await store.emit(Event(event_id="e-1", name="order.created", body=b"{}"))
    await new.act()
    assert [each.workflow for each in await store.events_pending(None, 10)] == ["order"]


async def test_events_are_subscribed_to_at_the_start(store: Store) -> None:
    triggers = [Trigger(event="order.created"), Trigger(event="order.paid")]
    await Declaring(store, [program(None, *triggers)], "w-1").act()
    await store.emit(Event(event_id="e-1", name="order.paid", body=b"{}"))
    (pending,) = await store.events_pending(frozenset({"order"}), 10)
    assert pending.event.event_id == "e-1"
    await Declaring(store, [program(None)], "w-2").act()  # the same version, without events now
    await store.emit(Event(event_id="e-2", name="order.paid", body=b"{}"))
    assert [each.workflow for each in await store.events_pending(None, 10)] == ["order", None]
