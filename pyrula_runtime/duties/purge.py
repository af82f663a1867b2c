"""Retention: drops the records of idempotency keys whose time is over, in small pages."""

from __future__ import annotations

from pyrula_runtime.stores.protocol import Store

# records dropped in one call, and how often a round looks (seconds)
_PAGE = 500
PERIOD_S = 60.0


async def purge(store: Store) -> None:
    """Drop what is over."""
    while await store.purge(_PAGE) == _PAGE:
        pass
