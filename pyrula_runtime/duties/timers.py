"""Timers: makes runs claimable whose time has come, exactly then, wherever they sleep.

The round looks, wakes what is due, and learns when the next is; then it rests until that moment and no longer. A
store's `timer` wake tells when somebody writes an earlier time than all before. So nothing is polled for: the period of
the round is only the net below a lost wake. Many clerks may do this at once; each run is woken by one of them.
"""

from __future__ import annotations

from collections.abc import Callable

from pyrula_runtime.core.status import DUE
from pyrula_runtime.engine.alarm import Alarm
from pyrula_runtime.stores.partly import as_far_as_known
from pyrula_runtime.stores.protocol import Store

# runs woken in one call, so that it stays short
_PAGE = 500


class Timers:
    """The round; `nudge` makes it come out of turn."""

    def __init__(self, store: Store, nudge: Callable[[], object], *, page: int = _PAGE) -> None:
        self._store = store
        self._page = page
        self._alarm = Alarm(nudge)

    async def act(self) -> None:
        """Wake everything that is due, and come again when the next is. Raises StoreUnavailable."""
        while True:
            woken, fault = await as_far_as_known(self._store.wake_due(DUE, self._page))
            left_ms = None if woken.next_due_ms is None else woken.next_due_ms - woken.now_ms
            is_overdue = left_ms is not None and left_ms <= 0
            if is_overdue and (fault is None or woken.woken):
                continue
            # what is overdue where nobody answers is asked for again after a rest, and not at once
            self._alarm.set(None if is_overdue else left_ms)
            if fault is not None:
                raise fault
            return

    def stop(self) -> None:
        """Come no more by itself."""
        self._alarm.set(None)
