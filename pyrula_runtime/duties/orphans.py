"""The orphan scan: runs whose lock lapsed, because their whole host died or was cut off, become claimable again.

On one host burial is faster and exact; this is the net below it. After an outage of the store the scan grants grace
instead (core.locks.outage_grace): nobody could renew, so nobody is an orphan.
"""

from __future__ import annotations

import logging

from pyrula_runtime.core.status import RunEvent, RunStatus, after
from pyrula_runtime.duties.carrying import carry
from pyrula_runtime.stores.protocol import Store

log = logging.getLogger("pyrula.duties")

# runs reclaimed in one call, so that it stays short
_PAGE = 100


async def scan(store: Store, lock_ttl_ms: int) -> None:
    """Reclaim what has lapsed, and see to what those who held it have left in an outbox."""
    while True:
        lapsed = await store.reclaim_lapsed(after(RunStatus.running, RunEvent.release), lock_ttl_ms, _PAGE)
        if lapsed.grace:
            log.warning("nobody reached the store for longer than a lock lives: every lock gets one more life")
        if lapsed.run_ids:
            log.warning("%d runs had lost their worker and go on: %s", len(lapsed.run_ids), ", ".join(lapsed.run_ids))
        if len(lapsed.run_ids) < _PAGE:
            break
    await carry(store)
