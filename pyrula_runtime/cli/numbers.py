"""Numbers on the command line that are no options: each has bounds, and a sentence for what lies beyond them."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import click
from click.types import StringParamType

from pyrula_runtime.core.acts import CENTURY_S, HIGHEST_RATE, LOWEST_RATE
from pyrula_runtime.core.spans import per_second_in, seconds_in

# longer than anybody waits, and short enough for every clock (s)
LONGEST_WAIT_S = 366 * 86_400.0


class Whole(click.IntRange):
    """A whole number within bounds, in a person's words."""

    name = "whole number"


class Finite(click.FloatRange):
    """A number within bounds. NaN is within none, though no comparison says so."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is no number.", param, ctx)
        return number


class Ago(StringParamType):
    """How long ago, in seconds: `90s`, `30min`, `2h`, `1d`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = seconds_in(str(value))
        if seconds is None or seconds > CENTURY_S:
            self.fail(f"{value!r} is no length of time; write it like 90s, 30min, 2h or 1d.", param, ctx)
        return seconds


class Span(Ago):
    """How long from now, in seconds, in the same words."""


class Moment(StringParamType):
    """A date and time in ISO 8601; without a zone it is meant as the clock of this machine shows it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return datetime.fromisoformat(str(value)).astimezone()
        except (ValueError, OverflowError, OSError):
            self.fail(
                f"{value!r} is no date; write it like 2026-12-24, 2026-12-24T18:00 or 2026-12-24T18:00Z.", param, ctx
            )


class Rate(StringParamType):
    """How many a second: `5/s`, `30/min`, `100/h`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        rate = per_second_in(str(value))
        if rate is None or not LOWEST_RATE <= rate <= HIGHEST_RATE:
            self.fail(f"{value!r} is no rate; write it like 5/s or 30/min, from 1/h to 10000/s.", param, ctx)
        return rate
