"""A year of schedules, fired by two hosts in moved time, against the calendar that was written a second time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pyrula_runtime.scheduling.firing import run_id_of
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.workflows.starting import Schedule
from tests.core.reference_calendar import SCHEDULES, firings
from tests.duties.starting.schedules import duty, put, runs_of
from tests.store.sites import model_site

YEAR = 2026
START_MS = 1000 * int(datetime(YEAR, 1, 1, tzinfo=UTC).timestamp()) - 1
END_MS = 1000 * int(datetime(YEAR + 1, 1, 1, tzinfo=UTC).timestamp())


async def live_through(zone: str, crons: set[str], folder: Path) -> None:
    site = model_site(folder)
    clock: ManualClock = site.clock
    clock.set_wall(START_MS - clock.wall_ms())
    store = await site.open()
    chosen = [each for each in SCHEDULES if each.cron in crons]
    assert len(chosen) == len(crons)
    states = [
        await put(store, clock, Schedule(cron=each.cron, timezone=zone, overlap="allow"), each.cron) for each in chosen
    ]
    hosts = [duty(store, clock), duty(await site.open(), clock)]
    while (next_ms := (await store.schedules(due_only=True)).next_ms) is not None and next_ms < END_MS:
        clock.move(next_ms - clock.wall_ms())
        await asyncio.gather(*(host.act() for host in hosts))
    for schedule, state in zip(chosen, states, strict=True):
        expected = [run_id_of(store, state, 1000 * at_s) for at_s in firings(schedule, zone, YEAR)]
        assert await runs_of(store, schedule.cron) == expected, schedule.cron
    for host in hosts:
        host.stop()
    await site.close()


async def test_a_year_in_new_york(tmp_path: Path) -> None:
    nightly = {"30 2 * * *", "*/15 2 * * *", "45 1 * * 0", "0 2 L * *"}
    await live_through("America/New_York", nightly, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("zone", ["Australia/Lord_Howe", "Africa/Casablanca", "Europe/Dublin"])
async def test_a_year_elsewhere(zone: str, tmp_path: Path) -> None:
    await live_through(zone, {each.cron for each in SCHEDULES[3:]}, tmp_path)
