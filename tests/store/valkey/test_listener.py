"""What a listener makes of shards that come and go under it, move by move."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from pyrula_runtime.stores.protocol import Wake
from pyrula_runtime.stores.valkey import wakes
from pyrula_runtime.stores.valkey.dues import Dues
from pyrula_runtime.stores.valkey.lookout import Lookout
from pyrula_runtime.stores.valkey.route import Node
from pyrula_runtime.stores.valkey.settings import Settings
from pyrula_runtime.stores.valkey.subscription import Subscription
from pyrula_runtime.stores.valkey.wakes import Exchange, Listener, Place, Wanted

LINES = frozenset({"q:order"})
CHANNEL = b"5:ready"


class Ear:
    """A subscription that the test confirms."""

    stands = True

    def __init__(self, route: object, node: Node | None, owner: Listener, **measures: object) -> None:
        self.node = node
        self.channels: frozenset[bytes] = frozenset()

    def hear(self, channels: frozenset[bytes]) -> None:
        self.channels = channels

    def close(self) -> None:
        pass


class Shards:
    """A store of which this handle leases some shards; the test answers for its servers."""

    is_sharded = False
    settings = Settings()
    route = None

    def __init__(self) -> None:
        self.lookout, self.wanted, self.dues = Lookout(), Wanted(), Dues(None)
        self.leased: tuple[int, ...] = ()
        self.armed: list[asyncio.Future[Any]] = []

    def lease(self, *shards: int) -> None:
        self.leased = shards
        self.lookout.lease(shards)

    def places(self, kinds: frozenset[Wake]) -> Mapping[bytes, Place]:
        return {f"{shard}:ready".encode(): (shard, Wake.ready) for shard in self.leased}

    def arm(self, shard: int) -> asyncio.Future[Any]:
        self.armed.append(asyncio.get_running_loop().create_future())
        return self.armed[-1]

    def forget(self, listener: Listener) -> None:
        pass


@pytest.fixture
def shards(monkeypatch: pytest.MonkeyPatch) -> Shards:
    monkeypatch.setattr(wakes, "Subscription", Ear)
    return Shards()


async def test_a_shard_that_went_and_came_back_counts_as_heard_only_once_its_channel_stands_again(
    shards: Shards,
) -> None:
    """The answer to the first asking comes after the second subscription was asked for, and is none to that."""
    shards.lease(5)
    listener = Listener(cast(Exchange, shards), lambda wake: None, frozenset({Wake.ready}))
    (ear,) = cast(list[Subscription], list(listener._subscriptions.values()))
    listener.confirmed(ear, frozenset({CHANNEL}))
    shards.lease()
    listener.regroup()
    shards.lease(5)
    listener.regroup()
    shards.armed[0].set_result(True)
    await asyncio.sleep(0)
    shards.lookout.took(5, LINES, shards.lookout.begin(5), all_asked=False)
    # a run that came before the channel stood rang for nobody
    (ear,) = cast(list[Subscription], list(listener._subscriptions.values()))
    listener.confirmed(ear, frozenset({CHANNEL}))
    shards.armed[1].set_result(True)
    await asyncio.sleep(0)
    assert shards.lookout.candidates(LINES, 8) == [5]
    listener.close()
