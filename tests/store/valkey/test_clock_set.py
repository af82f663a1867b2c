"""The server's clock is set while runs are held: no lock lapses for it, and none lives longer."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores.protocol import Append
from tests.store.samples import TTL_MS, appending, claimed, new_run, request, until
from tests.store.valkey.servers import Server
from tests.store.valkey.shifted import Shifted, set_clock, shifted

HOUR_S = 3600


@pytest.fixture
async def store(server: Server) -> AsyncIterator[Shifted]:
    store = shifted(server)
    await store.open()
    yield store
    await store.close()


@pytest.mark.parametrize("by_s", [HOUR_S, -HOUR_S])
async def test_a_lock_does_not_mind(server: Server, store: Shifted, by_s: int) -> None:
    claim = await claimed(store)
    set_clock(server, by_s)
    lapsed = await store.reclaim_lapsed(RunStatus.queued, TTL_MS, 10)
    assert (lapsed.run_ids, lapsed.grace) == ((), by_s > 0)  # forward looks like an hour in which nobody came
    record = await store.read(claim.token.run_id)
    assert record is not None
    assert 0 < (record.lock_left_ms or 0) <= TTL_MS + 5_000  # longer by what passed since the last sign of life
    assert (await store.commit(appending(claim.token, 0, b"a"))).append is Append.done
    assert (await store.renew([claim.token], TTL_MS)).lost == frozenset()


async def test_a_clock_that_goes_back_and_forth_lets_locks_lapse_in_their_time(server: Server, store: Shifted) -> None:
    lasting = await claimed(store)
    for number in range(6):
        set_clock(server, -number * HOUR_S if number % 2 else number * 60)
        await store.reclaim_lapsed(RunStatus.queued, TTL_MS, 10)
        await store.submit(new_run())
        (brief,) = await store.claim(request(limit=1, ttl_ms=1, incarnation="w-2"))

        async def is_found(run_id: str = brief.token.run_id) -> bool:
            return run_id in (await store.reclaim_lapsed(RunStatus.queued, TTL_MS, 10)).run_ids

        await until(is_found)
        (again,) = await store.claim(request(limit=1, incarnation="w-2"))
        assert (await store.commit(appending(again.token, 0, b"a"))).append is Append.done
    assert (await store.commit(appending(lasting.token, 0, b"a"))).append is Append.done
