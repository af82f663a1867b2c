"""Where a store under test lives: a clock, a first handle, and further ones as other processes would have them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from pyrula_runtime.stores.protocol import Store
from pyrula_runtime.stores.seam import Seam
from pyrula_runtime.stores.sqlite.checks import check
from pyrula_runtime.stores.sqlite.settings import Settings
from pyrula_runtime.stores.sqlite.store import SqliteStore
from tests.store.manual_clock import ManualClock
from tests.store.model import ModelStore
from tests.store.world import World

SMALL = Settings(ballast_bytes=0)


@dataclass(slots=True)
class Site:
    """One store. `audit` says how it contradicts itself."""

    clock: ManualClock
    handle: Callable[[], Store]
    audit: Callable[[], list[str]]
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
    return Site(clock, lambda: ModelStore(world), ModelStore(world).audit)


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


SITES: dict[str, Callable[[Path], Site]] = {"model": model_site, "seam": seam_site, "sqlite": sqlite_site}
