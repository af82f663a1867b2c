"""What a store answers whose runs are all in one place: nothing has to be leased, and nothing carried."""

from __future__ import annotations

from pyrula_runtime.core.ids import run_id
from pyrula_runtime.stores.leases import NOTHING_LEASED, Lease, Leased, LeaseRequest


class Undivided:
    """A store of one shard that reaches all runs in one write."""

    @property
    def shards(self) -> int:
        """One."""
        return 1

    def new_run_id(self, now_ms: int, entropy: bytes, key: str | None = None) -> str:
        """A run's id."""
        return run_id(now_ms, entropy)

    def former_run_ids(self, now_ms: int, entropy: bytes) -> tuple[str, ...]:
        """There are none."""
        return ()

    async def lease(self, request: LeaseRequest) -> Leased:
        """There is nothing to share."""
        return NOTHING_LEASED

    async def give_up_leases(self, incarnation: str) -> None:
        """There are none."""

    async def leases(self) -> tuple[Lease, ...]:
        """There are none."""
        return ()

    async def carry(self, limit: int) -> int:
        """Every write has done all that it does."""
        return 0
