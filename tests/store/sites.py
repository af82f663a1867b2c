"""Where a store under test lives: a clock, a first handle, and further ones as other processes would have them."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.memory.store import MemoryStore
from pyrula_runtime.stores.memory.world import World
from pyrula_runtime.stores.protocol import Store
from pyrula_runtime.stores.seam import Seam
from pyrula_runtime.stores.sqlite.checks import check
from pyrula_runtime.stores.sqlite.settings import Settings
from pyrula_runtime.stores.sqlite.store import SqliteStore
from pyrula_runtime.stores.valkey.settings import Settings as ValkeySettings
from pyrula_runtime.stores.valkey.store import ValkeyStore
from tests.store.valkey.audit import audit
from tests.store.valkey.servers import kinds_of_server, shared, shared_cluster

SMALL = Settings(ballast_bytes=0)
GUARDED = ValkeySettings(guarded=True, cluster_shards=1)


@dataclass(slots=True)
class Site:
    """One store. `audit` says how it contradicts itself."""

    clock: ManualClock
    handle: Callable[[], Store]
    audit: Callable[[], list[str]]
    shards: int = 1
    _handles: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def open(self) -> Store:
        """One more handle, closed with the site."""
        store = self.handle()
        await store.open()
        self._handles.push_async_callback(store.close)
        return store

    async def close(self) -> None:
        await self._handles.aclose()


def model_site(folder: Path) -> Site:
    clock = ManualClock()
    world = World(clock)
    return Site(clock, lambda: MemoryStore(world), MemoryStore(world).audit)


def seam_site(folder: Path) -> Site:
    """A seam without faults changes nothing."""
    site = model_site(folder)
    inner = site.handle
    site.handle = lambda: Seam(inner())
    return site


def sqlite_site(folder: Path) -> Site:
    clock = ManualClock()
    path = folder / "store.db"
    return Site(clock, lambda: SqliteStore(path, clock, SMALL), lambda: check(path))


def valkey_site(folder: Path, kind: str = "valkey") -> Site:
    """A namespace of its own on one server that all tests of a process share."""
    clock = ManualClock()
    address = shared(kind).address(os.urandom(6).hex())
    return Site(clock, lambda: ValkeyStore(address, clock, GUARDED), lambda: audit(address))


def cluster_site(folder: Path) -> Site:
    """A namespace of its own in a cluster of three primaries and three replicas."""
    clock = ManualClock()
    address = shared_cluster().address(os.urandom(6).hex())
    return Site(clock, lambda: ValkeyStore(address, clock, GUARDED), lambda: audit(address, in_cluster=True))


def shards_site(folder: Path) -> Site:
    """Eight shards on one server."""
    clock = ManualClock()
    address = shared("valkey").address(os.urandom(6).hex())
    return Site(
        clock, lambda: ValkeyStore(address, clock, GUARDED, shard_count=8), lambda: audit(address, shards=8), shards=8
    )


def cluster_shards_site(folder: Path) -> Site:
    """Sixteen shards in a cluster."""
    clock = ManualClock()
    address = shared_cluster().address(os.urandom(6).hex())
    return Site(
        clock,
        lambda: ValkeyStore(address, clock, GUARDED, shard_count=16),
        lambda: audit(address, in_cluster=True, shards=16),
        shards=16,
    )


SITES: dict[str, Callable[[Path], Site]] = {
    "model": model_site,
    "seam": seam_site,
    "sqlite": sqlite_site,
    "valkey": valkey_site,
    "cluster": cluster_site,
    "shards": shards_site,
    "cluster_shards": cluster_shards_site,
}
# every other kind of server there is: the oldest that is served, and Redis 7
OTHER_SERVERS = [kind for kind in kinds_of_server() if kind != "valkey"]
SITES |= {kind: partial(valkey_site, kind=kind) for kind in OTHER_SERVERS}
# A run of the tests that is to be short names the stores it wants.
if WANTED := os.environ.get("TEST_SITES"):
    SITES = {kind: SITES[kind] for kind in WANTED.split(",")}
