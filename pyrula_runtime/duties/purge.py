"""Retention: drops the records of idempotency keys and the settled events whose time is over, in small pages."""

from __future__ import annotations

from pyrula_runtime.stores.protocol import Store

# records dropped in one call, and events
_PAGE = 500
# how often a round looks (seconds), and how often at most into each of many shards
_PERIOD_S, _SHARD_S = 60.0, 10.0


def period_s(store: Store) -> float:
    """How long a round rests, for an open store."""
    return max(_PERIOD_S, _SHARD_S * store.shards)


async def purge(store: Store) -> None:
    """Drop what is over."""
    while await store.purge(_PAGE) >= _PAGE:
        pass
