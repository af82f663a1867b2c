"""What a lane does right now, and what it has to do before any more user code gets control.

Another thread may have orders that cannot wait (an evacuation: see there). The loop's queue is the wrong place, since
what was queued before comes first. So before each callback and each drive of a body there is a look, which costs next
to nothing, whether orders wait. What blocks right now goes on, of course; it is the others that come too late.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from pyrula_runtime.engine.current import Current

log = logging.getLogger("pyrula.lane")


class OnLane:
    """One lane's. Everything is the lane's thread's, but orders may be added and `whose` read by any."""

    __slots__ = ("orders", "stopped_by", "whose")

    def __init__(self) -> None:
        self.whose: Current | None = None  # whose code runs
        self.stopped_by: Current | None = None  # whose code has stopped the loop
        self.orders: deque[Callable[[], object]] = deque()

    def obey(self) -> None:
        """Do what was ordered."""
        while self.orders:
            order = self.orders.popleft()
            try:
                order()
            except Exception:
                log.exception("an order to the lane failed")
