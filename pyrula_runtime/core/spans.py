"""Lengths of time in words: one unit, as coarse as a person would say it; and back from what a person writes."""

from __future__ import annotations

import re

# largest unit first: its name, its length in milliseconds
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))
# from so many of a unit on it is said in that unit: "90 s", but "2 min"
_FROM = 2


def spoken(ms: int) -> str:
    """`12 ms`, `1.4 s`, `90 s`, `12 min`, `5 h`, `3 d`."""
    for name, length in _UNITS[:-1]:
        if ms >= _FROM * length:
            return f"{ms // length} {name}"
    if ms >= 10_000:
        return f"{ms // 1000} s"
    return f"{ms / 1000:.1f} s" if ms >= 1_000 else f"{max(ms, 0)} ms"


def ago(then_ms: int, now_ms: int) -> str:
    """How long ago, for dates in the past; clocks of two hosts may differ, so the future counts as now."""
    passed_ms = now_ms - then_ms
    return "just now" if passed_ms < 1_000 else f"{spoken(passed_ms)} ago"


def ahead(then_ms: int, now_ms: int) -> str:
    """How soon, for dates to come; what is over by the clock of this host is due now."""
    left_ms = then_ms - now_ms
    return f"in {spoken(left_ms)}" if left_ms > 0 else "now"


_NUMBER = r"\d{1,9}(?:\.\d{1,9})?"
_SPAN = re.compile(rf"({_NUMBER}) ?(s|m|min|h|d)?")
_SPEED = re.compile(rf"({_NUMBER}) ?(?:/ ?(s|m|min|h|d))?")


def seconds_in(text: str) -> float | None:
    """The length that a person wrote: `90`, `90s`, `30min` or `30m`, `2h`, `1d`. None if it is none of these."""
    found = _SPAN.fullmatch(text.strip())
    return None if found is None else float(found[1]) * _seconds(found[2])


def per_second_in(text: str) -> float | None:
    """The speed that a person wrote: `5` or `5/s`, `30/min`, `100/h`. None if it is none of these."""
    found = _SPEED.fullmatch(text.strip())
    return None if found is None else float(found[1]) / _seconds(found[2])


def _seconds(unit: str | None) -> float:
    return dict(_UNITS)["min" if unit == "m" else unit or "s"] / 1000
