"""Day numbers against the library's dates."""

from __future__ import annotations

from calendar import monthrange
from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from pyrula_runtime.core.civil import date_of, day_number, is_leap, month_length, weekday
from tests.core.patience import patient

EPOCH = date(1970, 1, 1)
DATES = st.dates(date(1583, 1, 1), date(3000, 12, 31))


@patient
@given(DATES)
def test_a_day_has_the_number_that_the_library_gives_it(day: date) -> None:
    number = (day - EPOCH).days
    assert day_number(day.year, day.month, day.day) == number
    assert date_of(number) == (day.year, day.month, day.day)
    assert weekday(number) == day.isoweekday() % 7


def test_every_day_of_a_cycle_comes_after_the_one_before() -> None:
    day = date(1999, 12, 31)
    for number in range(day_number(1999, 12, 31), day_number(2401, 1, 1)):
        assert date_of(number) == (day.year, day.month, day.day)
        day += timedelta(days=1)


@patient
@given(st.integers(1583, 3000), st.integers(1, 12))
def test_months_have_their_lengths(year: int, month: int) -> None:
    assert month_length(year, month) == monthrange(year, month)[1]
    assert is_leap(year) == (monthrange(year, 2)[1] == 29)
