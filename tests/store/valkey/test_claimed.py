"""Where a worker looks for runs that it holds: in shards that may have given it some, and no longer than they may."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Claim, ClaimRequest, LeaseRequest, Release, Serves
from pyrula_runtime.stores.valkey.address import Address
from tests.store.samples import request
from tests.store.valkey.sharded import Opened, handles, in_shard


@pytest.fixture
async def opened(address: Address) -> AsyncIterator[Opened]:
    """Opens handles with so many shards; the store is sound at the end."""
    async with handles(address, ManualClock()) as open_one:
        yield open_one


async def test_a_shard_whose_answer_to_a_claim_was_lost_is_asked_until_it_is_seen_to_be_empty(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(8)
    serves = (Serves(workflow="order", version="1"),)
    await store.lease(LeaseRequest(incarnation="w-1", serves=serves, ttl_ms=30_000))
    run, shard = in_shard(store, 3), store.shard(3)
    await store.submit(run)
    claim = shard.claim

    async def lost(wanted: ClaimRequest) -> tuple[Claim, ...]:
        await claim(wanted)
        raise StoreUnavailable("its answer was lost")

    with monkeypatch.context() as patched:
        patched.setattr(shard, "claim", lost)
        with pytest.raises(StoreUnavailable):
            await store.claim(request(limit=8))
    (held,) = await store.holdings("w-1")
    assert held.token.run_id == run.run_id
    assert await store.release(Release(token=held.token, status=RunStatus.queued, ready=True))
    assert set(store._claimed.shards()) == {3}
    assert await store.holdings("w-1") == ()
    assert store._claimed.shards() == {}
