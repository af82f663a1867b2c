"""A cluster of which a node is away for a while and nobody takes its place, and callers that do not give up."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.stores.valkey.store import ValkeyStore
from tests.store.valkey.servers import Cluster, Server

Answer = TypeVar("Answer")


async def persists(act: Callable[[], Awaitable[Answer]]) -> Answer:
    """Do as the contract says: repeat what could not be done, or of which nobody knows."""
    deadline_s = time.monotonic() + 30
    while True:
        try:
            return await act()
        except StoreUnavailable:
            assert time.monotonic() < deadline_s
            await asyncio.sleep(0.02)


def without_failover() -> Cluster:
    """A cluster whose replicas wait for a minute before they take the place of a primary."""
    cluster = Cluster()
    for server in cluster.servers:
        server.ask("CONFIG", "SET", "cluster-node-timeout", 60_000)
    return cluster


def server_of(cluster: Cluster, store: ValkeyStore, shard: int) -> Server:
    """Who has a shard."""
    node = store.route.node_of(store.tag(shard))
    assert node is not None
    (server,) = [server for server in cluster.servers if server.port == node[1]]
    return server


@contextmanager
def away(server: Server) -> Iterator[None]:
    """It takes connections and calls, and answers none."""
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
