"""Time zones by name, from the host's time zone database or, where it has none, from the package `tzdata`."""

from __future__ import annotations

import functools
from datetime import datetime
from zoneinfo import ZoneInfo

from pyrula_runtime.core.errors import UsageError


class NamedZone:
    """A zone of the database."""

    def __init__(self, zone: ZoneInfo) -> None:
        self._zone = zone

    @property
    def name(self) -> str:
        """Its name there."""
        return self._zone.key

    def offset_s(self, utc_s: int) -> int:
        """How many seconds local time is ahead of UTC at this moment."""
        offset = datetime.fromtimestamp(utc_s, self._zone).utcoffset()
        assert offset is not None
        return 86_400 * offset.days + offset.seconds

    def local(self, at_ms: int) -> datetime:
        """The local time of a moment."""
        return datetime.fromtimestamp(at_ms / 1000, self._zone)


@functools.cache
def zone_named(name: str) -> NamedZone:
    """The zone of this name; UsageError if there is none."""
    try:
        return NamedZone(ZoneInfo(name))
    except (KeyError, ValueError, OSError) as error:
        raise UsageError(
            f"there is no time zone {name!r}; a zone is named by continent and city, such as Europe/Berlin, or UTC"
        ) from error


def local_text(at_ms: int, zone: str) -> str:
    """A moment as clocks of a zone show it, in ISO 8601 with its distance from UTC."""
    return zone_named(zone).local(at_ms).isoformat()
