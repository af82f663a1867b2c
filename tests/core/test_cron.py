"""What cron expressions mean, and what is said of those that mean nothing."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from pyrula_runtime.core.cron import Cron
from pyrula_runtime.core.errors import UsageError
from tests.core.patience import patient

EPOCH = datetime(1970, 1, 1)
MINUTE = timedelta(minutes=1)


def times(text: str, start: datetime, count: int) -> list[str]:
    """The next times, in a calendar without a zone."""
    cron, found = Cron.parse(text), list[str]()
    minute = (start - EPOCH) // MINUTE
    while len(found) < count:
        minute = cron.next_minute(minute)
        found.append((EPOCH + minute * MINUTE).strftime("%a %Y-%m-%d %H:%M"))
        minute += 1
    return found


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("5 4 * * *", ["Thu 2026-01-01 04:05", "Fri 2026-01-02 04:05"]),
        ("*/20 10 * * *", ["Thu 2026-01-01 10:00", "Thu 2026-01-01 10:20", "Thu 2026-01-01 10:40"]),
        ("10-30/10 0 * * *", ["Thu 2026-01-01 00:10", "Thu 2026-01-01 00:20", "Thu 2026-01-01 00:30"]),
        ("5/25 23 * * *", ["Thu 2026-01-01 23:05", "Thu 2026-01-01 23:30", "Thu 2026-01-01 23:55"]),
        ("0 0 31 * *", ["Sat 2026-01-31 00:00", "Tue 2026-03-31 00:00"]),
        ("0 0 L 2 *", ["Sat 2026-02-28 00:00", "Sun 2027-02-28 00:00", "Tue 2028-02-29 00:00"]),
        ("0 0 1,L 1 *", ["Thu 2026-01-01 00:00", "Sat 2026-01-31 00:00"]),
        ("0 0 29 2 *", ["Tue 2028-02-29 00:00", "Sun 2032-02-29 00:00"]),
        ("0 0 * * FRI#2", ["Fri 2026-01-09 00:00", "Fri 2026-02-13 00:00"]),
        ("0 0 * * 5#L,MON#1", ["Mon 2026-01-05 00:00", "Fri 2026-01-30 00:00", "Mon 2026-02-02 00:00"]),
        ("0 0 * * 7", ["Sun 2026-01-04 00:00"]),
        ("0 0 * * sat-7", ["Sat 2026-01-03 00:00", "Sun 2026-01-04 00:00", "Sat 2026-01-10 00:00"]),
        ("0 0 13 * FRI", ["Fri 2026-01-02 00:00", "Fri 2026-01-09 00:00", "Tue 2026-01-13 00:00"]),
        ("0 0 */2 * FRI", ["Fri 2026-01-09 00:00", "Fri 2026-01-23 00:00"]),
        ("0 0 1 jan,JUL *", ["Thu 2026-01-01 00:00", "Wed 2026-07-01 00:00"]),
        ("@monthly", ["Thu 2026-01-01 00:00", "Sun 2026-02-01 00:00"]),
        ("@Yearly", ["Thu 2026-01-01 00:00", "Fri 2027-01-01 00:00"]),
    ],
)
def test_what_an_expression_names(text: str, first: list[str]) -> None:
    assert times(text, datetime(2026, 1, 1), len(first)) == first


def test_the_minute_that_is_asked_from_counts() -> None:
    assert times("30 10 * * *", datetime(2026, 1, 1, 10, 30), 1) == ["Thu 2026-01-01 10:30"]
    assert times("30 10 * * *", datetime(2026, 1, 1, 10, 31), 1) == ["Fri 2026-01-02 10:30"]
    assert times("30 10 31 12 *", datetime(2026, 12, 31, 11), 1) == ["Fri 2027-12-31 10:30"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("* * * *", "has 4 fields, but needs 5"),
        ("@often", "has 1 fields, but needs 5"),
        ("60 * * * *", "the minute '60' is not from 0 to 59"),
        ("* 24 * * *", "the hour '24' is not from 0 to 23"),
        ("* * 0 * *", "the day of month '0' is not from 1 to 31"),
        ("* * * 13 *", "the month '13' is not from 1 to 12 or JAN to DEC"),
        ("* * * * 8", "the day of week '8' is not from 0 to 7 or SUN to SAT"),
        ("* * * * L", "the day of week 'L' is not from 0 to 7 or SUN to SAT"),
        ("-5 * * * *", "the minute '' is not from 0 to 59"),
        ("\u0665 * * * *", "is not from 0 to 59"),
        ("30-10 * * * *", "the minute '30-10' ends before it begins"),
        ("*/0 * * * *", "the step '0', but a step is a whole number from 1"),
        ("*/x * * * *", "has the step 'X'"),
        ("1,,2 * * * *", "the minute '' is not from 0 to 59"),
        ("* * * * MON#6", "has the place '6' in a month"),
        ("0 0 30 2 *", "never comes: no month that it names has such a day"),
        ("0 0 31 4,6 *", "never comes"),
    ],
)
def test_what_means_nothing_is_refused_in_a_sentence(text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        Cron.parse(text)
    assert said in str(refused.value)
    assert repr(text) in str(refused.value)


def test_the_longest_pause_there_is_is_looked_through() -> None:
    # a 29th of February that is a Sunday, over a year 2100 that is no leap year
    found = times("0 0 29 2 */7", datetime(2032, 3, 1), 3)
    assert found == ["Sun 2060-02-29 00:00", "Sun 2088-02-29 00:00", "Sun 2128-02-29 00:00"]


def field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    # cronsim takes a range of one number that has a step for the number alone
    span = st.tuples(number, number).filter(lambda pair: pair[0] < pair[1]).map(lambda pair: f"{pair[0]}-{pair[1]}")
    stepped = st.tuples(st.one_of(st.just("*"), span, number.map(str)), st.integers(1, high)).map(
        lambda pair: f"{pair[0]}/{pair[1]}"
    )
    return st.one_of(
        st.just("*"),
        st.lists(st.one_of(number.map(str), span, stepped), min_size=1, max_size=3).map(",".join),
    )


@patient
@given(
    st.tuples(field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 6)).map(" ".join),
    st.datetimes(datetime(2000, 1, 1), datetime(2060, 1, 1)),
)
def test_it_agrees_with_another_reader_of_cron(text: str, start: datetime) -> None:
    """Where no zone is in play; cronsim is what others use."""
    theirs = CronSim(text, start.replace(second=59))
    expected = [next(theirs).strftime("%a %Y-%m-%d %H:%M") for _ in range(5)]
    assert times(text, start + MINUTE, 5) == expected
