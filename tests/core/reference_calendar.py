"""A calendar written a second time, as plainly as can be: every minute of a year is asked what clocks on walls show.

Nothing of the package is used here. What a schedule means stands as a predicate on the hand of each field, beside the
expression that is to be understood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

Fits = Callable[[datetime], bool]

ONE_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Schedule:
    """`daily`: it names hours and minutes, so that each local minute that fits means one firing."""

    cron: str
    daily: bool
    fits: Fits


def is_last_day(at: datetime) -> bool:
    return (at + timedelta(days=1)).month != at.month


SCHEDULES = [
    Schedule("* * * * *", False, lambda at: True),
    Schedule("*/15 * * * *", False, lambda at: at.minute % 15 == 0),
    Schedule("*/15 2 * * *", False, lambda at: at.hour == 2 and at.minute % 15 == 0),
    Schedule("30 * * * *", False, lambda at: at.minute == 30),
    Schedule("5 */2 * * *", False, lambda at: at.minute == 5 and at.hour % 2 == 0),
    Schedule("@hourly", False, lambda at: at.minute == 0),
    Schedule("0 0 * * *", True, lambda at: (at.hour, at.minute) == (0, 0)),
    Schedule("30 2 * * *", True, lambda at: (at.hour, at.minute) == (2, 30)),
    Schedule("0,15,59 1-3 * * *", True, lambda at: at.hour in (1, 2, 3) and at.minute in (0, 15, 59)),
    Schedule("45 1 * * 0", True, lambda at: (at.hour, at.minute) == (1, 45) and at.isoweekday() == 7),
    Schedule("0 2 L * *", True, lambda at: (at.hour, at.minute) == (2, 0) and is_last_day(at)),
    Schedule("0 9 * * MON-FRI", True, lambda at: (at.hour, at.minute) == (9, 0) and at.weekday() < 5),
    Schedule("0 12 13 * FRI", True, lambda at: (at.hour, at.minute) == (12, 0) and (at.day == 13 or at.weekday() == 4)),
    Schedule(
        "0 12 * 3,10 SUN#L",
        True,
        lambda at: (
            (at.hour, at.minute, at.weekday()) == (12, 0, 6)
            and at.month in (3, 10)
            and (at + timedelta(days=7)).month != at.month
        ),
    ),
    Schedule("20 2 29 2 *", True, lambda at: (at.month, at.day, at.hour, at.minute) == (2, 29, 2, 20)),
]


@cache
def minutes_of(zone: str, year: int) -> tuple[tuple[int, datetime], ...]:
    """Every minute of the year in UTC, and what a clock on a wall of the zone shows then; `fold` is kept."""
    wall = ZoneInfo(zone)
    start_s = int(datetime(year, 1, 1, tzinfo=UTC).timestamp())
    end_s = int(datetime(year + 1, 1, 1, tzinfo=UTC).timestamp())
    return tuple((at_s, datetime.fromtimestamp(at_s, wall).replace(tzinfo=None)) for at_s in range(start_s, end_s, 60))


def firings(schedule: Schedule, zone: str, year: int) -> Iterator[int]:
    """The moments (seconds since the epoch) of a year, in order."""
    before = datetime.max
    for at_s, shown in minutes_of(zone, year):
        if schedule.daily:
            is_made_up_for = shown - before > ONE_MINUTE and _any_between(schedule.fits, before, shown)
            if is_made_up_for or (shown.fold == 0 and schedule.fits(shown)):
                yield at_s
        elif schedule.fits(shown):
            yield at_s
        before = shown


def _any_between(fits: Fits, before: datetime, shown: datetime) -> bool:
    """Whether a minute fits that clocks which were set forward have left out."""
    left_out = before.replace(fold=0) + ONE_MINUTE
    while left_out < shown.replace(fold=0):
        if fits(left_out):
            return True
        left_out += ONE_MINUTE
    return False
