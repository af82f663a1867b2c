"""Servers and stores for the tests of this folder."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack

import pytest

from pyrula_runtime.stores.valkey.address import Address
from pyrula_runtime.stores.valkey.settings import Settings
from pyrula_runtime.stores.valkey.store import ValkeyStore
from tests.store.valkey.proxy import Proxy
from tests.store.valkey.servers import SURE, Server, shared

QUICK = Settings(guarded=True, cluster_shards=1, connect_s=10.0, knock_s=0.2, again_s=0.01)


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that this test alone uses, to be broken."""
    server = Server(*SURE)
    yield server
    server.stop()


@pytest.fixture
def address() -> Address:
    """A namespace of its own on the shared server."""
    return shared("valkey").address(os.urandom(6).hex())


@pytest.fixture
async def road() -> AsyncIterator[Proxy]:
    """A road to the shared server, to be broken."""
    proxy = Proxy(shared("valkey").socket)
    await proxy.open()
    yield proxy
    await proxy.close()


@pytest.fixture
async def opened() -> AsyncIterator[Callable[..., Awaitable[ValkeyStore]]]:
    """Opens stores, closed at the end."""
    async with AsyncExitStack() as stack:

        async def open_one(address: Address, settings: Settings = QUICK) -> ValkeyStore:
            store = ValkeyStore(address, None, settings)
            await store.open()
            stack.push_async_callback(store.close)
            return store

        yield open_one
