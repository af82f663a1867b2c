"""Cron expressions: which minutes of a local calendar they name. What such a minute is in time says core.calendar.

Five fields, as in crontab(5): minute, hour, day of month, month, day of week; each a `*`, a number, a name (`JAN`,
`MON`), a range, a list of these, any of them with a step (`*/15`, `10-40/10`, `5/20`). Beyond crontab, `L` is the last
day of a month, `FRI#2` its second Friday and `FRI#L` its last. Day of month and day of week: a day has to fit both if
either begins with `*`, else it has to fit one of them, which is what cron has always done. `@hourly`, `@daily`,
`@weekly`, `@monthly` and `@yearly` are what they say.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from pyrula_runtime.core.civil import date_of, day_number, month_length, weekday
from pyrula_runtime.core.errors import UsageError

MINUTES_PER_DAY = 1_440
_LAST = "L"
_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
# longer than the longest pause of all: 40 years, over 2100, for a 29th of February on a given weekday
_HORIZON_YEARS = 41


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """An expression that was understood. `Cron.parse` makes it."""

    text: str
    minutes_of_day: tuple[int, ...]
    days: frozenset[int]
    on_last_day: bool
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday
    nth_weekdays: frozenset[tuple[int, int]]  # weekday and its place in the month, 0 for the last
    needs_both: bool  # of day of month and day of week
    by_the_clock: bool  # at named hours and minutes, that is at most so many times a day

    @classmethod
    def parse(cls, text: str) -> Cron:
        """The meaning of an expression; UsageError says what is wrong with it."""
        fields = _MACROS.get(text.strip().lower(), text).upper().split()
        if len(fields) != len(_FIELDS):
            raise UsageError(
                f"cron {text!r} has {len(fields)} fields, but needs 5: minute, hour, day of month, month, day of week"
            )
        try:
            minutes, hours, days, months, weekdays = (
                frozenset(field.read(term)) for field, term in zip(_FIELDS, fields, strict=True)
            )
        except _Fault as fault:
            raise UsageError(f"cron {text!r}: {fault}") from None
        made = cls(
            text=text,
            minutes_of_day=tuple(sorted(60 * hour + minute for hour, _ in hours for minute, _ in minutes)),
            days=frozenset(day for day, _ in days if day),
            on_last_day=any(not day for day, _ in days),
            months=frozenset(month for month, _ in months),
            weekdays=frozenset(day % 7 for day, nth in weekdays if nth is None),
            nth_weekdays=frozenset((day % 7, nth) for day, nth in weekdays if nth is not None),
            needs_both=fields[2].startswith("*") or fields[4].startswith("*"),
            by_the_clock=not (fields[0].startswith("*") or fields[1].startswith("*")),
        )
        if made._first_from(0) is None:
            raise UsageError(f"cron {text!r} never comes: no month that it names has such a day")
        return made

    def next_minute(self, start: int) -> int:
        """The first minute it names from `start` on; minutes are counted from 1970 in a calendar without a zone."""
        found = self._first_from(start)
        assert found is not None
        return found

    def _first_from(self, start: int) -> int | None:
        first_day, minute = divmod(start, MINUTES_PER_DAY)
        for day in self._days_from(first_day):
            at = bisect_left(self.minutes_of_day, minute if day == first_day else 0)
            if at < len(self.minutes_of_day):
                return day * MINUTES_PER_DAY + self.minutes_of_day[at]
        return None

    def _days_from(self, first: int) -> Iterator[int]:
        year, month, date = date_of(first)
        for months in range(12 * _HORIZON_YEARS):
            years, month_before = divmod(month - 1 + months, 12)
            if month_before + 1 in self.months:
                yield from self._days_of(year + years, month_before + 1, date if not months else 1)

    def _days_of(self, year: int, month: int, first_date: int) -> Iterator[int]:
        length, before = month_length(year, month), day_number(year, month, 1) - 1
        for date in range(first_date, length + 1):
            by_date = date in self.days or (self.on_last_day and date == length)
            by_weekday = self._fits_week(weekday(before + date), date, length)
            if (by_date and by_weekday) if self.needs_both else (by_date or by_weekday):
                yield before + date

    def _fits_week(self, day: int, date: int, length: int) -> bool:
        if day in self.weekdays:
            return True
        if not self.nth_weekdays:
            return False
        return (day, (date + 6) // 7) in self.nth_weekdays or (date + 7 > length and (day, 0) in self.nth_weekdays)


class _Fault(Exception):
    """What is wrong with one field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """One of the five. A term means numbers, each with its place in the month where that is asked for."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    names_from: int = 0
    last_means: int | None = None
    counts_weeks: bool = False

    def read(self, text: str) -> Iterator[tuple[int, int | None]]:
        """The numbers that a list of terms means."""
        for term in text.split(","):
            if self.last_means is not None and term == _LAST:
                yield self.last_means, None
            elif self.counts_weeks and "#" in term:
                day, _, place = term.partition("#")
                yield self._number(day), self._place(place)
            else:
                yield from ((number, None) for number in self._range(term))

    def _range(self, term: str) -> range:
        span, slash, step = term.partition("/")
        first, dash, last = span.partition("-")
        if span == "*":
            low, high = self.low, self.high
        else:
            low = self._number(first)
            high = self._number(last) if dash else self.high if slash else low
        if high < low:
            raise _Fault(f"the {self.name} {span!r} ends before it begins")
        if not slash:
            return range(low, high + 1)
        if not step.isdecimal() or int(step) == 0:
            raise _Fault(f"the {self.name} {term!r} has the step {step!r}, but a step is a whole number from 1")
        return range(low, high + 1, int(step))

    def _number(self, text: str) -> int:
        if text in self.names:
            return self.names.index(text) + self.names_from
        if not (text.isascii() and text.isdecimal()) or not self.low <= int(text) <= self.high:
            named = f" or {self.names[0]} to {self.names[-1]}" if self.names else ""
            raise _Fault(f"the {self.name} {text!r} is not from {self.low} to {self.high}{named}")
        return int(text)

    def _place(self, text: str) -> int:
        if text == _LAST:
            return 0
        if text not in ("1", "2", "3", "4", "5"):
            raise _Fault(f"the {self.name} has the place {text!r} in a month, but it is from 1 to 5, or L for the last")
        return int(text)


_FIELDS = (
    _Field(name="minute", low=0, high=59),
    _Field(name="hour", low=0, high=23),
    _Field(name="day of month", low=1, high=31, last_means=0),
    _Field(
        name="month",
        low=1,
        high=12,
        names=("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"),
        names_from=1,
    ),
    _Field(
        name="day of week",
        low=0,
        high=7,
        names=("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"),
        counts_weeks=True,
    ),
)
