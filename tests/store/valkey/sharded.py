"""Handles on a store of several shards, and runs that live where a test wants them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import NewRun
from pyrula_runtime.stores.valkey.address import Address
from pyrula_runtime.stores.valkey.places import shard_of_run
from pyrula_runtime.stores.valkey.settings import Settings
from pyrula_runtime.stores.valkey.store import ValkeyStore
from tests.store.samples import new_run
from tests.store.valkey.audit import audit

Opened = Callable[[int | None], Awaitable[ValkeyStore]]


@asynccontextmanager
async def handles(address: Address, clock: ManualClock) -> AsyncIterator[Opened]:
    """Opens handles with so many shards, closed at the end; the store is sound then."""
    async with AsyncExitStack() as stack:

        async def open_one(shards: int | None) -> ValkeyStore:
            store = ValkeyStore(address, clock, Settings(guarded=True), shard_count=shards)
            await store.open()
            stack.push_async_callback(store.close)
            return store

        yield open_one
    assert audit(address, shards=16) == []


def made_by(store: ValkeyStore, key: str | None = None, workflow: str = "order") -> NewRun:
    """A run with an id that the store makes."""
    return new_run(workflow, run=store.new_run_id(1_700_000_000_000, os.urandom(10), key), key=key)


def in_shard(store: ValkeyStore, number: int) -> NewRun:
    while True:
        run = made_by(store)
        if shard_of_run(run.run_id) == number:
            return run
