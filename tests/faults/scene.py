"""A server that a test alone uses, the road that workers take to it, and what they have to come through on the way."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.ordeal import HASTY, Ordeal
from tests.faults.world import Kept, World
from tests.store.valkey.audit import audit
from tests.store.valkey.proxy import Proxy
from tests.store.valkey.servers import SURE, Server
from tests.store.valkey.shifted import shifted


@dataclass(frozen=True, slots=True)
class Scene:
    """A server, the road that workers take to it, and what they have to come through."""

    server: Server
    road: Proxy
    ordeal: Ordeal

    async def ask(self, *command: str | int) -> object:
        """As an operator, without keeping the road from its traffic."""
        return await asyncio.to_thread(self.server.ask, *command)

    async def told(self, section: str) -> bytes:
        """A section of what the server tells of itself."""
        told = await self.ask("INFO", section)
        assert isinstance(told, bytes)
        return told


@asynccontextmanager
async def staged(forge: Path, *args: str, is_shifted: bool = False, **order: Any) -> AsyncIterator[Scene]:
    """Set a scene around a server with these arguments; `is_shifted` lets its clock be set."""
    server = Server(*(args or SURE))
    road = Proxy(server.socket)
    await road.open()
    with tempfile.TemporaryDirectory(prefix="pyw") as name:
        world = World(Path(name), forge, kept=Kept(server.url(), lambda: audit(server.address())))
        if is_shifted:
            world.store = shifted(server)
        await world.open()
        try:
            yield Scene(server, road, Ordeal(world, road.url(), **({"settings": HASTY, "shifted": is_shifted} | order)))
        finally:
            await world.close()
            await road.close()
            server.stop()
