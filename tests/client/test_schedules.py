"""Schedules to people: what there is, when it comes, and what can be done about it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from pyrula.workflows import IllegalTransition, RunStatus, Schedule, UsageError, WorkflowClient, open_store
from pyrula.workflows.sync import WorkflowClient as SyncClient
from pyrula_runtime.client.schedules import Schedules
from pyrula_runtime.client.sync_schedules import SyncSchedules
from pyrula_runtime.core.scheduling import ScheduleState
from pyrula_runtime.scheduling.records import dump_state, timing_of
from pyrula_runtime.stores.protocol import ScheduleRecord
from tests.client.test_sync import public

HOUR_MS = 3_600_000
HOURLY = Schedule(cron="@hourly", timezone="Europe/Berlin")


async def put(url: str, schedule: Schedule | None = HOURLY, **state: Any) -> None:
    """A schedule as a worker's code declares it."""
    store = open_store(url)
    await store.open()
    now_ms = (await store.schedules()).now_ms
    declared = None if schedule is None else schedule.declared("report", "3", takes_time=True)
    made = ScheduleState(schedule_id="report", declared=declared, by="w-1", after_ms=now_ms, **state)
    next_ms = None if declared is None else made.next_due_ms(timing_of(declared))
    assert await store.put_schedule(
        ScheduleRecord(schedule_id="report", rev=0, record=dump_state(made), next_ms=next_ms)
    )
    await store.close()


async def test_they_are_listed(client: WorkflowClient, url: str) -> None:
    assert await client.schedules.list() == ()
    await put(url, passed_over=4, fired_ms=HOUR_MS)
    (told,) = await client.schedules.list()
    assert (told.name, told.workflow, told.version) == ("report", "report", "3")
    assert (told.cron, told.every_ms, told.timezone, told.overlap) == ("@hourly", None, "Europe/Berlin", "skip")
    assert (told.catch_up_ms, told.jitter_ms, told.declared, told.paused) == (HOUR_MS, 0, True, False)
    assert (told.last_ms, told.waiting_ms, told.passed_over) == (HOUR_MS, None, 4)
    assert told.next_ms is not None
    assert told.next_ms % HOUR_MS == 0


async def test_one_that_a_newer_version_wrote_is_told_in_a_sentence(client: WorkflowClient, url: str) -> None:
    store = open_store(url)
    await store.open()
    await store.put_schedule(ScheduleRecord(schedule_id="report", rev=0, record=b"{}", next_ms=None))
    await store.close()
    for ask in (client.schedules.list(), client.schedules.pause("report")):
        with pytest.raises(UsageError, match="schedule 'report' was written by a newer version of Pyrula"):
            await ask


async def test_one_that_no_code_declares_is_still_told_of(client: WorkflowClient, url: str) -> None:
    await put(url, None)
    (told,) = await client.schedules.list()
    assert (told.declared, told.cron, told.next_ms) == (False, None, None)
    with pytest.raises(UsageError, match="is declared by no code any more"):
        await client.schedules.trigger("report")
    await client.schedules.pause("report")
    await client.schedules.resume("report")


async def test_a_pause_keeps_it_from_firing_and_resume_goes_on_from_now(client: WorkflowClient, url: str) -> None:
    await put(url)
    for _ in range(2):
        await client.schedules.pause("report")
        (rest,) = await client.schedules.list()
        assert (rest.paused, rest.next_ms) == (True, None)
    for _ in range(2):
        await client.schedules.resume("report")
        (on,) = await client.schedules.list()
        assert not on.paused
        assert on.next_ms is not None


async def test_a_run_can_be_begun_now(client: WorkflowClient, url: str) -> None:
    await put(url)
    run = await client.schedules.trigger("report")
    told = await run.describe()
    assert (run.workflow, told["schedule"], told["version"], told["status"]) == ("report", "report", "3", "queued")
    assert datetime.fromisoformat(told["input"]["scheduled_at"]) <= datetime.now(UTC)
    with pytest.raises(IllegalTransition, match=f"run {run.run_id} of schedule 'report' has not ended"):
        await client.schedules.trigger("report")
    await run.cancel()
    again = await client.schedules.trigger("report")
    await client.submit("report", {})
    assert [each.run_id for each in await client.list(schedule="report")] == [again.run_id, run.run_id]
    assert [each.run_id for each in await client.list("report", "queued", schedule="report")] == [again.run_id]


async def test_a_run_that_is_begun_now_cancels_others_where_times_do(client: WorkflowClient, url: str) -> None:
    await put(url, Schedule(every=60, overlap="cancel_other"))
    first, second = await client.schedules.trigger("report"), await client.schedules.trigger("report")
    told = [(await each.describe())["cancel_requested"] for each in (first, second)]
    assert told == [True, False]


async def test_times_that_are_over_can_be_made_up_for_once(client: WorkflowClient, url: str) -> None:
    await put(url)
    now = datetime.now(UTC)
    start = (now - timedelta(hours=4)).replace(minute=0, second=0, microsecond=0)
    times = await client.schedules.times("report", start, start + timedelta(hours=3))
    assert times == tuple(start + timedelta(hours=each) for each in range(3))
    assert str(times[0].tzinfo) == "Europe/Berlin"
    runs = await client.schedules.backfill("report", start, start + timedelta(hours=3))
    assert [datetime.fromisoformat((await run.describe())["input"]["scheduled_at"]) for run in runs] == list(times)
    again = await client.schedules.backfill("report", start - timedelta(hours=1), start + timedelta(hours=3))
    assert len(again) == 1
    assert len(await client.list("report", RunStatus.queued)) == 4


async def test_the_next_times_in_its_own_zone(client: WorkflowClient, url: str) -> None:
    await put(url, Schedule(cron="30 9 * * *", timezone="Asia/Kathmandu"), paused=True)
    found = await client.schedules.next("report", 3)
    assert [each.strftime("%H:%M %z") for each in found] == ["09:30 +0545"] * 3
    assert [later - earlier for earlier, later in pairwise(found)] == [timedelta(days=1)] * 2


@pytest.mark.parametrize("cron", ["@yearly", "0 0 29 2 *", "0 0 31 12 */7"])
async def test_more_times_than_calendars_have_are_refused(client: WorkflowClient, url: str, cron: str) -> None:
    await put(url, Schedule(cron=cron, timezone="Europe/Berlin"))
    with pytest.raises(
        UsageError, match=r"comes only [1-7],?\d{3} times before the year 9900, and 10,000 were asked for"
    ):
        await client.schedules.next("report", 10_000)


async def test_one_is_forgotten(client: WorkflowClient, url: str) -> None:
    await put(url)
    await client.schedules.drop("report")
    assert await client.schedules.list() == ()
    with pytest.raises(UsageError, match="no schedule 'report' in this store, nor any other"):
        await client.schedules.drop("report")


Ask = Callable[[Schedules], Coroutine[Any, Any, Any]]
NOW = datetime.now(UTC)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda of: of.pause("reprot"), "no schedule 'reprot' in this store; the schedules are: report"),
        (lambda of: of.next("report", 0), "count is 0"),
        (lambda of: of.next("report", True), "count is True"),
        (lambda of: of.times("report", datetime(2026, 1, 1), NOW), "must be a datetime from 1970 to 9900 that says"),
        (lambda of: of.times("report", datetime(1969, 1, 1, tzinfo=UTC), NOW), "must be a datetime from 1970 to 9900"),
        (lambda of: of.times("report", NOW, datetime.max.replace(tzinfo=UTC)), "must be a datetime from 1970 to 9900"),
        (lambda of: of.times("report", NOW - timedelta(days=999), NOW), "comes more than 10,000 times in between"),
        (lambda of: of.backfill("report", NOW, NOW + timedelta(days=1)), "a backfill is for times that are over"),
    ],
)
async def test_what_cannot_be_is_refused_in_a_sentence(client: WorkflowClient, url: str, ask: Ask, said: str) -> None:
    await put(url)
    with pytest.raises(UsageError, match=said):
        await ask(client.schedules)


async def test_the_names_are_the_same_without_a_loop() -> None:
    assert public(SyncSchedules) == public(Schedules)


def test_all_of_it_without_a_loop(sync_client: SyncClient, url: str) -> None:
    asyncio.run(put(url))
    schedules = sync_client.schedules
    assert [each.name for each in schedules.list()] == ["report"]
    schedules.pause("report")
    schedules.resume("report")
    run = schedules.trigger("report")
    assert run.status() is RunStatus.queued
    assert len(schedules.next("report", 2)) == 2
    end = datetime.now(UTC) - timedelta(hours=1)
    start = end - timedelta(hours=2)
    assert len(schedules.times("report", start, end)) == 2
    assert [made.workflow for made in schedules.backfill("report", start, end)] == ["report"] * 2
    schedules.drop("report")
    assert schedules.list() == ()
