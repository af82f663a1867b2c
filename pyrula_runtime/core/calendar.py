"""When a schedule's time comes next, by the law of its time zone: what a local time means while clocks are set.

**Model.** A cron expression names local minutes; a zone says how far local time is ahead of UTC at any moment. From the
two follow moments. Twice a year in most zones that is no matter of course: when clocks are set forward some local
minutes do not come, when they are set back some come twice.

**Law**, as of cron on Debian, which people know from the machine's own crontab:
- Named hours and minutes (`30 2 * * *`) mean once a day. A minute that does not come is made up for in the moment the
  clocks are set; one that comes twice counts the first time.
- `*` in minute or hour (`*/15 * * * *`) means a rhythm, so it goes by the clock that hangs on the wall: what does not
  come is left out, what comes twice counts twice.
- An interval (`every`) counts seconds since 1970-01-01 UTC, in whatever zone: equal on all hosts, before and after a
  deploy.

**Rejected.** Adding up seconds from one time to the next, and mending what comes out: it goes wrong where a zone is
shifted by less than an hour, or in the middle of one. Here each local minute is asked what moments it stands for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pyrula_runtime.core.cron import Cron

# further than any zone is from UTC, and nearer than two settings of a clock are to each other (s)
_DAY_S = 86_400


class Zone(Protocol):
    """A time zone."""

    @property
    def name(self) -> str:
        """As the time zone database has it, such as `Europe/Berlin`."""

    def offset_s(self, utc_s: int) -> int:
        """How many seconds local time is ahead of UTC at this moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """When to fire. Either `cron` in a zone or `every_ms`."""

    cron: Cron | None = None
    every_ms: int | None = None
    zone: Zone

    def next_ms(self, after_ms: int) -> int:
        """The first time that is later than this."""
        if self.every_ms is not None:
            return (after_ms // self.every_ms + 1) * self.every_ms
        assert self.cron is not None
        find = _next_named if self.cron.by_the_clock else _next_beat
        return 1000 * find(self.cron, self.zone, after_ms // 1000)


def _next_named(cron: Cron, zone: Zone, after_s: int) -> int:
    """Of named hours and minutes: each local minute is one moment, and the order of both is the same."""
    moment_s, minute = after_s, _minute(zone, after_s)
    while moment_s <= after_s:
        minute = cron.next_minute(minute + 1)
        moments = _moments(zone, 60 * minute)
        moment_s = moments[0] if moments else _end_of_gap(zone, 60 * minute)
    return moment_s


def _next_beat(cron: Cron, zone: Zone, after_s: int) -> int:
    """Of a rhythm: the clock on the wall may soon be set back to minutes that have been, so these are asked, too."""
    here = _minute(zone, after_s)
    set_back_s = max(0, zone.offset_s(after_s) - zone.offset_s(after_s + _DAY_S))
    minute, found = here - set_back_s // 60, list[int]()
    while minute <= here or not found:  # later minutes come later
        minute = cron.next_minute(minute + 1)
        found += [moment_s for moment_s in _moments(zone, 60 * minute) if moment_s > after_s]
    return min(found)


def _minute(zone: Zone, utc_s: int) -> int:
    """The local minute, counted in a calendar without a zone."""
    return (utc_s + zone.offset_s(utc_s)) // 60


def _moments(zone: Zone, local_s: int) -> list[int]:
    """When this local time is: mostly one moment, none in a gap, two where clocks are set back."""
    return sorted(local_s - offset for offset in _offsets(zone, local_s) if zone.offset_s(local_s - offset) == offset)


def _offsets(zone: Zone, local_s: int) -> set[int]:
    """What the zone's distance may be at this local time: that of before, and of after, a setting of the clocks."""
    return {zone.offset_s(local_s - _DAY_S), zone.offset_s(local_s + _DAY_S)}


def _end_of_gap(zone: Zone, local_s: int) -> int:
    """When the clocks are set forward over this local time."""
    offsets = _offsets(zone, local_s)
    before_s, then_s = local_s - max(offsets), local_s - min(offsets)
    offset = zone.offset_s(then_s)
    while then_s - before_s > 1:
        middle_s = (before_s + then_s) // 2
        if zone.offset_s(middle_s) == offset:
            then_s = middle_s
        else:
            before_s = middle_s
    return then_s
