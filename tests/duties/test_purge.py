"""What is over goes, however much there is of it."""

from __future__ import annotations

import asyncio

from pyrula_runtime.duties.purge import purge
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Event, Store
from tests.store.samples import DAY_MS, new_run


async def test_settled_events_do_not_keep_idempotency_keys_from_going(store: Store, clock: ManualClock) -> None:
    await asyncio.gather(*[store.submit(new_run(key=f"k{number}")) for number in range(501)])
    await store.subscribe("ship", None, frozenset({"order.created"}))
    await store.emit(Event(event_id="e", name="order.created", body=b"", ttl_ms=DAY_MS))
    await store.settle_event("e", "ship", None)
    clock.move(DAY_MS)
    await purge(store)
    assert await store.purge(1) == 0
