"""What a worker has claimed and cannot begin, because one piece of code keeps its lane: it goes back, uncharged.

A tenth of a second is enough to know. Longer than that, a run that waits here waits for nothing: a neighbour process
could begin it now, and the release wakes one. Meanwhile nothing is claimed; the lane itself says when it comes round.

Two kinds of claims wait at a stuck lane. Those that the control thread took are known (`Coming`). Those that came with
the last commit of a turn are not: their answer is queued behind the code that keeps the lane. They are found like
strays, by asking the store what is held here (see strays).

Nothing looks while nothing waits: a look follows each claim, and the watchdog asks for one when the lane is late. A
machine that is merely slow is not a lane that is stuck: what counts is how long the *same* code has had the lane, and
a look that comes late itself is made once more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from pyrula_runtime.core.status import RunEvent, RunStatus, after
from pyrula_runtime.engine.coming import Coming
from pyrula_runtime.engine.posting import post
from pyrula_runtime.engine.watchdog import STUCK_S
from pyrula_runtime.stores.protocol import Release, Store

log = logging.getLogger("pyrula.worker")

# how long a lane may leave claims unlooked at, even if no run's code is seen on it (seconds)
_UNSEEN_S = 1.0


class Handback:
    """The round that hands back; `nudge` asks for it. All on the control thread, but for `late`."""

    def __init__(
        self,
        store: Store,
        coming: Coming,
        busy_since_ms: Callable[[], int],
        mono_ms: Callable[[], int],
        seek: Callable[[], Awaitable[None]],
    ) -> None:
        """`busy_since_ms` says since when one piece of code has had the lane (0: none has), `seek` finds strays now."""
        self.nudge = asyncio.Event()
        self.refused = 0  # claims that the lane could not begin, so far
        self._loop = asyncio.get_running_loop()
        self._store = store
        self._coming = coming
        self._busy_since_ms = busy_since_ms
        self._mono_ms = mono_ms
        self._seek = seek
        self._looks = False
        self._is_late = False

    @property
    def is_stuck(self) -> bool:
        """Whether the lane cannot begin anything now."""
        since_ms = self._busy_since_ms()
        return (since_ms > 0 and self._mono_ms() - since_ms >= STUCK_S * 1000) or self._coming.unseen(_UNSEEN_S)

    def watch(self) -> None:
        """Claims were given to the lane: look soon whether they have begun."""
        if not self._looks:
            self._looks = True
            self._loop.call_later(STUCK_S, self._look, self._loop.time() + STUCK_S)

    def late(self) -> None:
        """The lane does not answer its watchdog; any thread."""
        post(self._loop, self._hear)

    def _hear(self) -> None:
        self._is_late = True
        self.nudge.set()

    def _look(self, planned_s: float) -> None:
        self._looks = False
        if not self._coming.unseen(0):
            return
        if self.is_stuck and self._loop.time() - planned_s < STUCK_S / 2:
            self.nudge.set()
        else:
            self.watch()

    async def act(self) -> None:
        """Hand back what has not begun, if the lane is stuck."""
        is_late, self._is_late = self._is_late, False
        if not self.is_stuck:
            return
        tokens = [token for token in self._coming.undecided() if self._coming.withdraw(token)]
        status = after(RunStatus.running, RunEvent.release)
        releases = (self._store.release(Release(token=token, status=status, ready=True)) for token in tokens)
        self.refused += len(tokens)
        await asyncio.gather(*releases)
        if tokens:
            log.debug("the lane is busy with one piece of code: handed back %d runs that had not begun", len(tokens))
        if is_late:
            await self._seek()
