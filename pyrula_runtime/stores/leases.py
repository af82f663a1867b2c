"""Leases of shards: which worker looks where first, on a store whose runs are kept in several shards.

A lease is a hint, never safety: any worker may claim from any shard, and a run belongs to whoever holds its lock. So it
does no harm that two workers lease one shard, or that one acts on a lease that it has lost.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyrula_runtime.stores.turns import Serves


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRequest:
    """A worker that can begin turns asks for its share of the shards among all who serve the same; others get none.

    It has to be asked again before `ttl_ms` have passed.
    """

    incarnation: str
    serves: tuple[Serves, ...]
    ttl_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased:
    """Answer of `lease`: the shards where this worker looks first, and how many workers share all `shards`."""

    mine: tuple[int, ...]
    shards: int
    workers: int


NOTHING_LEASED = Leased(mine=(), shards=1, workers=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """What one worker leases, as an operator sees it; `left_ms` is the rest of the lease's life."""

    incarnation: str
    shards: tuple[int, ...]
    left_ms: int
