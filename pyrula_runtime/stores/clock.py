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
