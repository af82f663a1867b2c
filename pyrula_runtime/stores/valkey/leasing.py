"""Leases of the shards of one handle: what the scripts in the first shard say becomes where claims look.

The worker asks again and again; each answer names its shards, and sometimes shards to be swept, whoever leases them:
those of a worker that has not asked for half a life of a lease, so they are looked at before its lease is over; and
every shard once in ten lives, should a lessee ever ask and not look. More would be calls for nothing: whoever cannot
begin a turn gives up what he leases.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable

from pyrula_runtime.stores import protocol as p
from pyrula_runtime.stores.valkey import answers
from pyrula_runtime.stores.valkey.lookout import Lookout
from pyrula_runtime.stores.valkey.shards import Shards
from pyrula_runtime.stores.valkey.wakes import Listeners, Wanted

# every shard is swept again after so many lives of a lease
_SWEPT_AFTER = 10


class Leasing:
    """The verbs of leases; a lease lives for `ttl_ms`, or as long as its worker asks for."""

    def __init__(
        self, shards: Shards, wanted: Wanted, lookout: Lookout, listeners: Listeners, ttl_ms: int | None
    ) -> None:
        self._shards, self._wanted, self._lookout, self._listeners = shards, wanted, lookout, listeners
        self._ttl_ms = ttl_ms

    async def lease(self, request: p.LeaseRequest) -> p.Leased:
        """Ask for a share, and look there from now on."""
        if self._shards.most == 1:
            return p.NOTHING_LEASED
        ttl_ms = self._ttl_ms or request.ttl_ms
        asked = (request.incarnation, _group(request.serves), ttl_ms, round(ttl_ms * _SWEPT_AFTER))
        self._wanted.is_for(request.incarnation)
        leased: p.Leased
        leased, swept = await self._shards.first.ask("lease", *asked, told=answers.leased)
        if leased.shards != self._shards.most:
            await self._shards.learn()
        if self._lookout.lease(leased.mine):
            self._listeners.regroup()
        if swept:
            self._lookout.find(swept)
            self._listeners.ring()
        return leased

    async def give_up(self, incarnation: str) -> None:
        """Hand this worker's shards to the others."""
        if self._shards.most == 1:
            return
        await self._shards.first.ask("give_up_leases", incarnation, told=bool)
        if self._wanted.belongs_here(incarnation) and self._lookout.lease(()):
            self._listeners.regroup()

    def all(self) -> Awaitable[tuple[p.Lease, ...]]:
        """Who leases what."""
        return self._shards.first.ask("leases", told=answers.leases)


def _group(serves: tuple[p.Serves, ...]) -> str:
    """Who serves the same, in the same versions, shares the shards."""
    text = "\n".join(sorted(f"{each.workflow}|{each.version or ''}" for each in serves))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
