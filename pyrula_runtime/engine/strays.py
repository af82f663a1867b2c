"""Strays: runs that the store holds in this worker's name and no turn of it knows, because an answer was lost.

A claim cannot be repeated like other verbs: repeated, it takes further runs. So when its answer is lost, or a commit is
repeated that had claimed a successor, the runs it took are held by a living worker that has never heard of them: their
locks would have to lapse first. This round finds them by asking the store what this incarnation holds, and hands back
what is unknown here. It asks twice, some time apart, since an answer may be on its way; and the lane forswears a run
before it is handed back, so that an answer that comes later still starts nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import RunEvent, RunStatus, after
from pyrula_runtime.engine.lane import Lane
from pyrula_runtime.stores.protocol import Release, Store

log = logging.getLogger("pyrula.worker")

# how long an answer may be on its way before the run it speaks of counts as a stray
PATIENCE_S = 1.0


class Strays:
    """The round that looks for them; `look_again` is asked for a round after so many seconds."""

    def __init__(
        self,
        store: Store,
        lane: Lane,
        incarnation: str,
        mono_ms: Callable[[], int],
        look_again: Callable[[float], object],
    ) -> None:
        self._store = store
        self._lane = lane
        self._incarnation = incarnation
        self._mono_ms = mono_ms
        self._look_again = look_again
        self._first_seen: dict[Token, int] = {}

    async def act(self) -> None:
        """Hand back what has been unknown here for long enough."""
        held = [holding.token for holding in await self._store.holdings(self._incarnation)]
        known = set(self._lane.held())
        now_ms = self._mono_ms()
        self._first_seen = {token: self._first_seen.get(token, now_ms) for token in held if token not in known}
        for token, first_ms in list(self._first_seen.items()):
            if now_ms - first_ms >= PATIENCE_S * 1000 and self._lane.forswear(token):
                await self._hand_back(token)
                del self._first_seen[token]
        if self._first_seen:
            self._look_again(PATIENCE_S)

    async def _hand_back(self, token: Token) -> None:
        status = after(RunStatus.running, RunEvent.release)
        if await self._store.release(Release(token=token, status=status, ready=True)):
            log.warning("the answer to a claim was lost; handed the run back", extra={"run_id": token.run_id})
