"""A clock that stands still until a test moves it."""

from __future__ import annotations


class ManualClock:
    """Both readings move together; the wall clock can also be set, as an operator or NTP would."""

    def __init__(self) -> None:
        self._mono_ms = 1_000_000
        self._wall_ms = 1_700_000_000_000

    def wall_ms(self) -> int:
        return self._wall_ms

    def mono_ms(self) -> int:
        return self._mono_ms

    def move(self, ms: int) -> None:
        self._mono_ms += ms
        self._wall_ms += ms

    def set_wall(self, by_ms: int) -> None:
        self._wall_ms += by_ms
