"""Where a store gets the time from: an object, so that a test moves it instead of sleeping."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two readings, in milliseconds."""

    def wall_ms(self) -> int:
        """Time since the epoch: dates things for people, may jump."""

    def mono_ms(self) -> int:
        """Time since some point of this boot, the same for all processes of the host: measures, never jumps."""


class SystemClock:
    """The host's clocks. `CLOCK_MONOTONIC` stands still while the host is suspended, and so do the holders of locks."""

    def wall_ms(self) -> int:
        """Time since the epoch."""
        return time.time_ns() // 1_000_000

    def mono_ms(self) -> int:
        """Time since boot."""
        return time.monotonic_ns() // 1_000_000


class ManualClock:
    """A clock that stands still until somebody moves it, for tests: both readings move together.

    The wall clock can also be set, as an operator or NTP would.
    """

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self._mono_ms = 1_000_000
        self._wall_ms = wall_ms

    def wall_ms(self) -> int:
        """Time since the epoch."""
        return self._wall_ms

    def mono_ms(self) -> int:
        """Time since some boot."""
        return self._mono_ms

    def move(self, ms: int) -> None:
        """Let this much time pass."""
        self._mono_ms += ms
        self._wall_ms += ms

    def set_wall(self, by_ms: int) -> None:
        """Set the wall clock forward, or back."""
        self._wall_ms += by_ms
