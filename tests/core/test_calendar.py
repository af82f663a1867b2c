"""When schedules come, in zones that set their clocks, against a calendar that was written a second time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from pyrula_runtime.core.calendar import Timing
from pyrula_runtime.core.cron import Cron
from pyrula_runtime.scheduling.zones import zone_named
from tests.core.reference_calendar import SCHEDULES, Schedule, firings

# set forward and back by an hour; by half an hour; back for Ramadan alone; never
ZONES = ["America/New_York", "Australia/Lord_Howe"]
MORE_ZONES = ["Africa/Casablanca", "Europe/Dublin", "America/Santiago", "Asia/Kathmandu", "Antarctica/Troll", "UTC"]
YEAR = 2026


def timing(cron: str, zone: str) -> Timing:
    return Timing(cron=Cron.parse(cron), zone=zone_named(zone))


def times(cron: str, zone: str, start_ms: int, end_ms: int) -> Iterator[int]:
    comes = timing(cron, zone)
    found_ms = comes.next_ms(start_ms - 1)
    while found_ms < end_ms:
        yield found_ms
        found_ms = comes.next_ms(found_ms)


def compare(schedules: Sequence[Schedule], zone: str, year: int) -> None:
    start_ms = 1000 * int(datetime(year, 1, 1, tzinfo=ZoneInfo("UTC")).timestamp())
    end_ms = 1000 * int(datetime(year + 1, 1, 1, tzinfo=ZoneInfo("UTC")).timestamp())
    for schedule in schedules:
        expected = [1000 * at_s for at_s in firings(schedule, zone, year)]
        assert list(times(schedule.cron, zone, start_ms, end_ms)) == expected, schedule.cron


@pytest.mark.parametrize("zone", ZONES)
def test_a_year_is_as_the_second_calendar_has_it(zone: str) -> None:
    compare(SCHEDULES[1:], zone, YEAR)  # without that of every minute


@pytest.mark.nightly
@pytest.mark.parametrize("zone", ZONES + MORE_ZONES)
@pytest.mark.parametrize("year", [2011, 2024, 2027])
def test_more_years_and_zones(zone: str, year: int) -> None:
    compare(SCHEDULES, zone, year)


def local(cron: str, zone: str, day: str, count: int) -> list[str]:
    """The first times from the beginning of a day, as clocks show them, with what is ahead of UTC."""
    wall = ZoneInfo(zone)
    comes = timing(cron, zone)
    at_ms = 1000 * int(datetime.fromisoformat(day).replace(tzinfo=wall).timestamp()) - 1
    found = []
    for _ in range(count):
        at_ms = comes.next_ms(at_ms)
        found.append(datetime.fromtimestamp(at_ms / 1000, wall).strftime("%d %H:%M %z"))
    return found


@pytest.mark.parametrize(
    ("cron", "zone", "day", "shown"),
    [
        # named times in a gap are made up for at its end, together
        ("30 2 * * *", "Europe/Berlin", "2026-03-29", ["29 03:00 +0200", "30 02:30 +0200"]),
        ("0,30 2 * * *", "Europe/Berlin", "2026-03-29", ["29 03:00 +0200", "30 02:00 +0200"]),
        ("0 3 * * *", "Europe/Berlin", "2026-03-29", ["29 03:00 +0200", "30 03:00 +0200"]),
        # named times that come twice count once
        ("30 2 * * *", "Europe/Berlin", "2026-10-25", ["25 02:30 +0200", "26 02:30 +0100"]),
        ("0 2,3 * * *", "Europe/Berlin", "2026-10-25", ["25 02:00 +0200", "25 03:00 +0100"]),
        # a rhythm goes by the wall
        ("30 * * * *", "Europe/Berlin", "2026-03-29T01:00", ["29 01:30 +0100", "29 03:30 +0200"]),
        ("30 * * * *", "Europe/Berlin", "2026-10-25T02:00", ["25 02:30 +0200", "25 02:30 +0100", "25 03:30 +0100"]),
        # half an hour back, to 01:30, at two o'clock: two o'clock comes, once
        (
            "*/15 2 * * *",
            "Australia/Lord_Howe",
            "2026-04-05",
            ["05 02:00 +1030", "05 02:15 +1030", "05 02:30 +1030", "05 02:45 +1030"],
        ),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-05", ["05 01:45 +1100", "06 01:45 +1030"]),
        # a day that was left out as a whole
        ("0 12 * * *", "Pacific/Apia", "2011-12-29", ["29 12:00 -1000", "31 00:00 +1400", "31 12:00 +1400"]),
        ("0 * 30 12 *", "Pacific/Apia", "2011-12-29", ["30 00:00 +1400"]),
    ],
)
def test_when_clocks_are_set(cron: str, zone: str, day: str, shown: list[str]) -> None:
    assert local(cron, zone, day, len(shown)) == shown


def test_an_interval_counts_from_the_epoch_in_any_zone() -> None:
    every = Timing(every_ms=90_000, zone=zone_named("Europe/Berlin"))
    assert every.next_ms(0) == 90_000
    assert every.next_ms(89_999) == 90_000
    assert every.next_ms(90_000) == 180_000


def test_what_comes_is_always_later() -> None:
    comes = timing("* * * * *", "UTC")
    assert comes.next_ms(59_999) == 60_000
    assert comes.next_ms(60_000) == 120_000
