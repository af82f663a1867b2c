"""Timers: makes runs claimable whose time has come, exactly then, wherever they sleep.

The round looks, wakes what is due, and learns when the next is; then it rests until that moment and no longer. A
store's `timer` wake tells when somebody writes an earlier time than all before. So nothing is polled for: the period of
the round is only the net below a lost wake. Many clerks may do this at once; each run is woken by one of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.status import DUE
from pyrula_runtime.stores.protocol import Store

# runs woken in one call, so that it stays short
_PAGE = 500
# the longest that a timer of an event loop is set for (seconds)
_DAY_S = 86_400.0


class Timers:
    """The round; `nudge` makes it come out of turn."""

    def __init__(self, store: Store, nudge: Callable[[], object], *, page: int = _PAGE) -> None:
        self._store = store
        self._nudge = nudge
        self._page = page
        self._alarm: asyncio.TimerHandle | None = None

    async def act(self) -> None:
        """Wake everything that is due, and come again when the next is."""
        while True:
            try:
                woken = await self._store.wake_due(DUE, self._page)
            except UsageError:  # a store that cannot let runs wait has none to wake
                return
            left_ms = None if woken.next_due_ms is None else woken.next_due_ms - woken.now_ms
            if left_ms is None or left_ms > 0:
                self._come_again(left_ms)
                return

    def stop(self) -> None:
        """Come no more by itself."""
        if self._alarm is not None:
            self._alarm.cancel()

    def _come_again(self, in_ms: int | None) -> None:
        self.stop()
        if in_ms is not None:
            delay_s = min(in_ms / 1000, _DAY_S)
            self._alarm = asyncio.get_running_loop().call_later(delay_s, self._nudge)
