"""Locks are kept alive, those of each group for themselves."""

from __future__ import annotations

from typing import cast

import pytest

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.locks import Token
from pyrula_runtime.engine.lanes import Lanes
from pyrula_runtime.engine.renewal import Renewal
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.memory.store import MemoryStore
from pyrula_runtime.stores.memory.world import World
from pyrula_runtime.stores.seam import Crossing, Deed, Phase, Seam
from tests.store.samples import TTL_MS, new_run, request

MANY = 450


class Holding:
    """Lanes that hold these runs."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens

    def held(self) -> list[Token]:
        return self._tokens


async def test_a_group_that_finds_the_store_unavailable_lets_no_lock_of_another_lapse() -> None:
    """One server of a cluster is away: the runs of the first group that it has, make that group fail."""
    clock = ManualClock()
    store = MemoryStore(World(clock))
    await store.open()
    for _ in range(MANY):
        await store.submit(new_run())
    tokens = [claim.token for claim in await store.claim(request(limit=MANY))]
    renewals = 0

    def fails_once(crossing: Crossing) -> Deed:
        nonlocal renewals
        if crossing.verb == "renew" and crossing.phase is Phase.before:
            renewals += 1
            if renewals == 1:
                raise StoreUnavailable("one of its servers is away")
        return Deed.go_on

    clock.move(TTL_MS - 1)
    renewal = Renewal(Seam(store, fails_once), cast(Lanes, Holding(tokens)), TTL_MS)
    with pytest.raises(StoreUnavailable):
        await renewal.act()
    left = [record.lock_left_ms for token in tokens if (record := await store.read(token.run_id)) is not None]
    assert [left.count(1), left.count(TTL_MS)] == [200, MANY - 200]
    await store.close()
