"""One timer of an event loop, set anew each time that somebody knows better when to look again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

# the longest that it is set for (seconds): whoever looks too early looks again
_DAY_S = 86_400.0


class Alarm:
    """Calls `ring` on the running loop when it is time."""

    def __init__(self, ring: Callable[[], object]) -> None:
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None

    def set(self, in_ms: int | None) -> None:
        """Ring in so many milliseconds, and not when it was to be rung before; None: never."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if in_ms is not None:
            delay_s = min(max(in_ms, 1) / 1000, _DAY_S)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._ring)
