"""Leases of the shards of one handle: what the scripts in the first shard say becomes where claims look.

The worker asks again and again; each answer names its shards, and now and then a shard to be swept, whoever leases it:
so a shard without a lessee, or one whose lessee does not look, is found after at most one and a half lives of a lease.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from pyrula_runtime.stores import protocol as p
from pyrula_runtime.stores.valkey import answers
from pyrula_runtime.stores.valkey.layout import Layout
from pyrula_runtime.stores.valkey.lookout import Lookout
from pyrula_runtime.stores.valkey.places import FIRST
from pyrula_runtime.stores.valkey.shard import Shard

if TYPE_CHECKING:
    from pyrula_runtime.stores.valkey.wakes import Wanted

# a shard is swept again after so many lives of a lease; with the pause between two calls that stays below two
_SWEPT_AFTER = 1.5


class Leasing:
    """The verbs of leases."""

    lookout: Lookout
    wanted: Wanted
    _layout: Layout
    _lease_ttl_ms: int | None

    def shard(self, number: int) -> Shard:
        """The shard of this number."""
        raise NotImplementedError

    async def _learn(self, wanted: int | None = None) -> None:
        """Hear how many shards there are."""
        raise NotImplementedError

    def _regroup(self) -> None:
        """Other shards are to be heard."""
        raise NotImplementedError

    def _ring(self) -> None:
        """There may be more to claim."""
        raise NotImplementedError

    async def lease(self, request: p.LeaseRequest) -> p.Leased:
        if self._layout.most == 1:
            return p.NOTHING_LEASED
        ttl_ms = self._lease_ttl_ms or request.ttl_ms
        asked = (request.incarnation, _group(request.serves), ttl_ms, round(ttl_ms * _SWEPT_AFTER))
        self.wanted.is_for(request.incarnation)
        leased: p.Leased
        leased, swept = await self.shard(FIRST).ask("lease", *asked, told=answers.leased)
        if leased.shards != self._layout.most:
            await self._learn()
        if self.lookout.lease(leased.mine):
            self._regroup()
        if swept:
            self.lookout.find(swept)
            self._ring()
        return leased

    async def give_up_leases(self, incarnation: str) -> None:
        if self._layout.most == 1:
            return
        await self.shard(FIRST).ask("give_up_leases", incarnation, told=bool)
        if self.wanted.belongs_here(incarnation) and self.lookout.lease(()):
            self._regroup()

    def leases(self) -> Awaitable[tuple[p.Lease, ...]]:
        return self.shard(FIRST).ask("leases", told=answers.leases)


def _group(serves: tuple[p.Serves, ...]) -> str:
    """Who serves the same, in the same versions, shares the shards."""
    text = "\n".join(sorted(f"{each.workflow}|{each.version or ''}" for each in serves))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
