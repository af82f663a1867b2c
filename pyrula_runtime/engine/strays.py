"""Strays: runs that the store holds in this worker's name and no turn of it knows, because an answer was lost.

A claim cannot be repeated like other verbs: repeated, it takes further runs. So when its answer is lost, or a commit is
repeated that had claimed a successor, the runs it took are held by a living worker that has never heard of them: their
locks would have to lapse first. This round finds them by asking the store what this incarnation holds, and hands back
what is unknown here. It asks twice, some time apart, since an answer may be on its way; and the lane forswears a run
before it is handed back, so that an answer that comes later still starts nothing.

A lane that is stuck cannot hear any answer. What is on its way to it then is as good as lost, and goes back at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import RunEvent, RunStatus, after
from pyrula_runtime.stores.partly import as_far_as_known
from pyrula_runtime.stores.protocol import Release, Store

log = logging.getLogger("pyrula.worker")

# how long an answer may be on its way before the run it speaks of counts as a stray
PATIENCE_S = 1.0


class Keeper(Protocol):
    """Who knows the turns of this worker."""

    def held(self) -> list[Token]:
        """The tokens of all runs that are turns here, or soon will be."""

    def forswear(self, token: Token) -> bool:
        """Never start a turn for this token, if it has not come yet; False if it has."""


class Strays:
    """The round that looks for them; `look_again` is asked for a round after so many seconds."""

    def __init__(
        self,
        store: Store,
        keeper: Keeper,
        incarnation: str,
        mono_ms: Callable[[], int],
        look_again: Callable[[float], object],
    ) -> None:
        self._store = store
        self._keeper = keeper
        self._incarnation = incarnation
        self._mono_ms = mono_ms
        self._look_again = look_again
        self._first_seen: dict[Token, int] = {}

    async def act(self) -> None:
        """Hand back what has been unknown here for long enough."""
        await self._seek(PATIENCE_S)
        if self._first_seen:
            self._look_again(PATIENCE_S)

    async def seek_now(self) -> None:
        """Hand back what is unknown here now: no answer can come through."""
        await self._seek(0)

    async def _seek(self, patience_s: float) -> None:
        holdings, fault = await as_far_as_known(self._store.holdings(self._incarnation))
        held = [holding.token for holding in holdings]
        known = set(self._keeper.held())
        now_ms = self._mono_ms()
        self._first_seen = {token: self._first_seen.get(token, now_ms) for token in held if token not in known}
        for token, first_ms in list(self._first_seen.items()):
            if now_ms - first_ms >= patience_s * 1000 and self._keeper.forswear(token):
                await self._hand_back(token)
                self._first_seen.pop(token, None)
        if fault is not None:
            raise fault

    async def _hand_back(self, token: Token) -> None:
        status = after(RunStatus.running, RunEvent.release)
        if await self._store.release(Release(token=token, status=status, ready=True)):
            log.warning("the answer to a claim did not come; handed the run back", extra={"run_id": token.run_id})
