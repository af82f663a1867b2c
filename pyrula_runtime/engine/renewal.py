"""Renewal: keeps the locks of running turns alive, from a thread that user code cannot block.

The same call tells which tokens are dead (their turns end without a trace), which runs were cancelled, and how many
messages came for them; a store's `attention` wake asks for it out of turn, so a cancel or a signal is seen at once, and
within a third of a lock's life if the wake was lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pyrula_runtime.core.locks import Token
from pyrula_runtime.engine.lanes import Lanes
from pyrula_runtime.stores.partly import as_far_as_known
from pyrula_runtime.stores.protocol import Store

# renewals go to the store in groups of this size, so that one call stays short
_GROUP = 200


class Renewal:
    """The round that renews."""

    def __init__(self, store: Store, lanes: Lanes, lock_ttl_ms: int) -> None:
        self._store = store
        self._lanes = lanes
        self._lock_ttl_ms = lock_ttl_ms

    async def act(self) -> None:
        """Renew every lock once, as far as the store answers; if a part of it does not, StoreUnavailable comes then."""
        held = self._lanes.held()
        groups = [held[start : start + _GROUP] for start in range(0, len(held), _GROUP)]
        # of the servers of a cluster one may be away, and what the others have must not lapse for that
        answers = await asyncio.gather(*map(self._renew, groups), return_exceptions=True)
        for fault in filter(None, answers):
            raise fault

    async def _renew(self, group: Sequence[Token]) -> None:
        renewed, fault = await as_far_as_known(self._store.renew(group, self._lock_ttl_ms))
        if renewed.lost:
            self._lanes.drop([token for token in group if token.run_id in renewed.lost])
        if renewed.cancelled:
            self._lanes.cancel(tuple(renewed.cancelled))
        if renewed.inbox:
            self._lanes.tell(renewed.inbox)
        if fault is not None:
            raise fault  # the round is made again soon, for those that were not renewed
