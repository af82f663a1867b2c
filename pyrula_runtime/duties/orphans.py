"""The orphan scan: runs whose lock lapsed, because their whole host died or was cut off, become claimable again.

On one host burial is faster and exact; this is the net below it. After an outage of the store the scan grants grace
instead (core.locks.outage_grace): nobody could renew, so nobody is an orphan.

A lock that has lapsed is found within the interval of the scan. A store may say for how long none can lapse, because no
lock ends earlier and one that is taken now lives as long: that time comes on top of the rest. So where nothing is held
the shards of a cluster are asked each 90 s, and not each 60, by whoever has the usual options. It is no more than the
interval itself: what the store does not know of, an effect that a dead host has left or a worker whose locks live
shorter than here, is found within two of them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.status import RunEvent, RunStatus, after
from pyrula_runtime.duties.carrying import carry
from pyrula_runtime.engine.rounds import Round
from pyrula_runtime.stores.partly import as_far_as_known
from pyrula_runtime.stores.protocol import Store

log = logging.getLogger("pyrula.duties")

# runs reclaimed in one call, so that it stays short
_PAGE = 100
# a round's rest varies by a tenth; what it may be longer must not be longer for that
_SURE = 0.9


class OrphanScan:
    """The round that looks for orphans: what lapsed is found within `interval_s`; `first` is done before each look."""

    def __init__(
        self,
        store: Store,
        lock_ttl_ms: int,
        interval_s: float,
        *,
        first: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._store = store
        self._lock_ttl_ms = lock_ttl_ms
        self._interval_s = interval_s
        self._first = first
        self.round = Round(name="orphan scan", act=self.act, period_s=interval_s)

    async def act(self) -> None:
        """Look, and rest until a lock can have lapsed so long ago. Raises StoreUnavailable."""
        self.round.period_s = self._interval_s  # also if the store turns out to be away
        fault: StoreUnavailable | None = None
        if self._first is not None:
            try:
                await self._first()
            except StoreUnavailable as error:
                fault = error  # it has done what it could, and orphans elsewhere need not wait for the rest
        quiet_ms = await scan(self._store, self._lock_ttl_ms)
        if fault is not None:
            raise fault
        self.round.period_s += min(_SURE * quiet_ms / 1000, self._interval_s)


async def scan(store: Store, lock_ttl_ms: int) -> int:
    """Reclaim what has lapsed, and see to what those who held it have left in an outbox. Raises StoreUnavailable.

    For how many milliseconds from now on no lock lapses.
    """
    while True:
        to_status = after(RunStatus.running, RunEvent.release)
        lapsed, fault = await as_far_as_known(store.reclaim_lapsed(to_status, lock_ttl_ms, _PAGE))
        if lapsed.grace:
            log.warning("nobody reached the store for two thirds of a lock's life: every lock gets one more")
        if lapsed.run_ids:
            log.warning("%d runs had lost their worker and go on: %s", len(lapsed.run_ids), ", ".join(lapsed.run_ids))
        if len(lapsed.run_ids) < _PAGE:
            break
    await carry(store)
    if fault is not None:
        raise fault
    return lapsed.quiet_ms
