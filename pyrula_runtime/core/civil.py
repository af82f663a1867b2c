"""Dates of the civil calendar as numbers: days since 1970-01-01, and what a day of that number is called.

The core may look at no clock, and the library's dates come with one; what schedules need of them is these few lines.
"""

from __future__ import annotations

_MONTH_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAYS_BEFORE = tuple(sum(_MONTH_LENGTHS[:month]) for month in range(12))
_DAYS_TO_1970 = 719_162  # from 0001-01-01
# the calendar repeats itself
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400


def is_leap(year: int) -> bool:
    """Whether the year has a 29th of February."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def month_length(year: int, month: int) -> int:
    """How many days a month (1..12) has."""
    return 29 if month == 2 and is_leap(year) else _MONTH_LENGTHS[month - 1]


def day_number(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to this date."""
    before = year - 1
    leap_days = before // 4 - before // 100 + before // 400
    this_year = _DAYS_BEFORE[month - 1] + (month > 2 and is_leap(year)) + day - 1
    return 365 * before + leap_days + this_year - _DAYS_TO_1970


def date_of(number: int) -> tuple[int, int, int]:
    """Year, month and day of the day of this number."""
    # never too late a year: leap days are at most 0.72 ahead of their average, after 96 years
    year = (number + _DAYS_TO_1970) * _CYCLE_YEARS // _CYCLE_DAYS + 1
    while day_number(year + 1, 1, 1) <= number:
        year += 1
    month = 12
    while day_number(year, month, 1) > number:
        month -= 1
    return year, month, number - day_number(year, month, 1) + 1


def weekday(number: int) -> int:
    """The day of the week: 0 is Sunday. 1970-01-01 was a Thursday."""
    return (number + 4) % 7
