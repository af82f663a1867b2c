"""What is over goes out of all shards, in small pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from pyrula_runtime.core.status import TERMINAL
from pyrula_runtime.core.tree import OnEnd
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Event, ParentLink
from pyrula_runtime.stores.valkey.address import Address
from pyrula_runtime.stores.valkey.answers import Ended
from pyrula_runtime.stores.valkey.connection import Argument
from tests.store.samples import COMPLETED, DAY_MS, appending, request
from tests.store.valkey.sharded import Opened, handles, made_by


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def opened(address: Address, clock: ManualClock) -> AsyncIterator[Opened]:
    """Opens handles with so many shards; the store is sound at the end."""
    async with handles(address, clock) as open_one:
        yield open_one


async def test_what_is_over_goes_from_all_shards_also_if_events_go_with_it(opened: Opened, clock: ManualClock) -> None:
    store = await opened(8)
    await store.subscribe("ship", None, frozenset({"order.created"}))
    for number in range(3):
        await store.submit(made_by(store, f"k{number}"))
        await store.emit(Event(event_id=f"e{number}", name="order.created", body=b"", ttl_ms=DAY_MS))
        await store.settle_event(f"e{number}", "ship", None)
    clock.move(DAY_MS)
    gone = 0
    while some := await store.purge(2):
        assert some <= 4
        gone += some
    assert gone == 6


async def test_keys_that_are_used_again_are_looked_through_in_small_pages(
    opened: Opened, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(None)
    for _ in range(2):
        for number in range(10):
            await store.submit(made_by(store, f"k{number}"))
        clock.move(DAY_MS)
    shard, pages = store.shard(0), list[tuple[int, ...]]()
    run = shard._run

    def noting(name: str, *args: Argument, told: Callable[[Any], Any] = bool) -> asyncio.Future[Any]:
        def note(reply: Any) -> Any:
            pages.append(tuple(reply))
            return told(reply)

        return run(name, *args, told=note)

    monkeypatch.setattr(shard, "_run", noting)
    assert await store.purge(4) == 4
    assert pages == [(0, 0, 1), (0, 0, 1), (2, 0, 1), (2, 0, 1)]


async def test_children_of_the_living_are_looked_at_once_however_long_the_look_takes(
    opened: Opened, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(None)
    parent = made_by(store)
    link = ParentLink(run_id=parent.run_id, op_id="ship#1", on_end=OnEnd.abandon)
    children = [replace(made_by(store, workflow="ship"), parent=link) for _ in range(3)]
    for run in (parent, *children):
        await store.submit(run)
    for claim in await store.claim(request(("ship", None))):
        await store.commit(appending(claim.token, 0, ending=COMPLETED))
    clock.move(1)
    shard, looks = store.shard(0), list[int]()
    drop = shard.drop

    async def slow(runs: Sequence[tuple[Ended, bool]]) -> int:
        looks.append(len(runs))
        assert len(looks) < 9
        gone = await drop(runs)
        clock.move(1)
        return gone

    monkeypatch.setattr(shard, "drop", slow)
    assert await store.drop_finished(TERMINAL, 1, 2) == 0
    assert sum(looks) == 3
