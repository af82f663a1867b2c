"""What befalls a server under workers that use it: runs stay with who has them, and all of them end.

None of it is a run's doing or a worker's, so nobody is charged, nobody loses what he holds, and nobody has to be
started again. Whatever lasts longer than a lock lives is answered by one more life for all locks.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pyrula_runtime.stores.valkey.address import parse
from pyrula_runtime.stores.valkey.connection import connect, pack
from tests.faults.ordeal import HASTY, Ordeal
from tests.faults.world import Kept, World
from tests.store.valkey.audit import audit
from tests.store.valkey.proxy import Proxy
from tests.store.valkey.servers import SURE, Server
from tests.store.valkey.shifted import set_clock, shifted


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


@pytest.fixture
async def scene(forge: Path, request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    """A server of its own; with the parameter `shifted` its clock can be set."""
    server = Server(*SURE)
    road = Proxy(server.socket)
    await road.open()
    is_shifted = getattr(request, "param", "") == "shifted"
    with tempfile.TemporaryDirectory(prefix="pyw") as name:
        world = World(Path(name), forge, kept=Kept(server.url(), lambda: audit(server.address())))
        if is_shifted:
            world.store = shifted(server)
        await world.open()
        try:
            yield Scene(server, road, Ordeal(world, road.url(), settings=HASTY, shifted=is_shifted))
        finally:
            await world.close()
            await road.close()
            server.stop()


Event = Callable[[Scene], Awaitable[None]]
EVENTS: dict[str, Event] = {}


def event(act: Event) -> Event:
    """Something that may befall a server; when it returns, it is over."""
    EVENTS[act.__name__] = act
    return act


LONGER_THAN_A_LOCK = 4  # renewals; there are three in a lock's life
HOUR_S = 3600


@event
async def killed_and_started_again(scene: Scene) -> None:
    await asyncio.to_thread(scene.server.kill)
    await asyncio.to_thread(scene.server.start)


@event
async def away_for_longer_than_a_lock(scene: Scene) -> None:
    await asyncio.to_thread(scene.server.kill)
    await scene.ordeal.renewals(LONGER_THAN_A_LOCK)
    await asyncio.to_thread(scene.server.start)


@event
async def scripts_forgotten_again_and_again(scene: Scene) -> None:
    for _ in range(5):
        await scene.ask("SCRIPT", "FLUSH")
        run = await scene.ordeal.world.submit("ten")
        await scene.ask("SCRIPT", "FLUSH")
        await scene.ordeal.world.ended(run)


@event
async def subscriptions_killed_again_and_again(scene: Scene) -> None:
    for _ in range(10):
        subscribed = scene.road.events["SUBSCRIBE"]
        await scene.ask("CLIENT", "KILL", "TYPE", "pubsub")
        await scene.road.event("SUBSCRIBE", subscribed + 1)


@event
async def connections_killed_again_and_again(scene: Scene) -> None:
    for _ in range(10):
        connected = scene.road.events["connected"]
        await scene.ask("CLIENT", "KILL", "TYPE", "normal")
        await scene.road.event("connected", connected + 1)


@event
async def memory_full(scene: Scene) -> None:
    await scene.ask("CONFIG", "SET", "maxmemory", "100kb")
    await scene.ordeal.renewals(LONGER_THAN_A_LOCK)
    await scene.ask("CONFIG", "SET", "maxmemory", "0")


@event
async def a_replica_for_a_while(scene: Scene) -> None:
    await scene.ask("REPLICAOF", "127.0.0.1", "1")
    await scene.ordeal.renewals(LONGER_THAN_A_LOCK)
    await scene.ask("REPLICAOF", "NO", "ONE")


@event
async def without_the_replicas_it_wants(scene: Scene) -> None:
    await scene.ask("CONFIG", "SET", "min-replicas-to-write", 1)
    await scene.ordeal.renewals(LONGER_THAN_A_LOCK)
    await scene.ask("CONFIG", "SET", "min-replicas-to-write", 0)


@event
async def a_command_not_permitted(scene: Scene) -> None:
    await scene.ask("ACL", "SETUSER", "default", "-zadd")
    await scene.ordeal.renewals(LONGER_THAN_A_LOCK)
    await scene.ask("ACL", "SETUSER", "default", "+zadd")


@event
async def a_password_that_nobody_told(scene: Scene) -> None:
    await scene.ask("CONFIG", "SET", "requirepass", "secret")
    await scene.ask("CLIENT", "KILL", "TYPE", "normal")
    await scene.ordeal.renewals(LONGER_THAN_A_LOCK)
    operator = parse(f"unix://:secret@{scene.server.socket}")
    with_password = await asyncio.to_thread(connect, operator, 15, "test")
    with_password.ask([("CONFIG", "SET", "requirepass", "")])
    with_password.socket.close()


@event
async def kept_busy_by_a_script(scene: Scene) -> None:
    await scene.ask("CONFIG", "SET", "lua-time-limit", 50)
    busy = await asyncio.to_thread(connect, scene.server.address(), 15, "test")
    busy.socket.sendall(pack(("EVAL", "while true do end", 0)))
    await scene.ordeal.renewals(LONGER_THAN_A_LOCK)
    await scene.ask("SCRIPT", "KILL")
    busy.socket.close()


@event
async def stopped_for_longer_than_a_lock(scene: Scene) -> None:
    os.kill(scene.server.process.pid, signal.SIGSTOP)
    await scene.ordeal.renewals(LONGER_THAN_A_LOCK)
    os.kill(scene.server.process.pid, signal.SIGCONT)


@event
async def reading_its_data(scene: Scene) -> None:
    await scene.ask("EVAL", "for i = 1, 300 do redis.call('SET', 'other' .. i, string.rep('x', 200)) end", 0)
    await scene.ask("BGREWRITEAOF")  # what it reads at once, it tells nothing of
    while b"aof_rewrites:0" in await scene.told("persistence"):
        await scene.road.next("renew answered")
    await asyncio.to_thread(scene.server.kill)
    scene.server.launch("--key-load-delay", "8000", "--loading-process-events-interval-bytes", "1024")
    await asyncio.to_thread(scene.server.serve)


@event
async def a_black_hole(scene: Scene) -> None:
    scene.road.block()
    await scene.ordeal.renewals(LONGER_THAN_A_LOCK)
    scene.road.clear()


@event
async def half_open_connections(scene: Scene) -> None:
    scene.road.half_open()
    await scene.road.next("connected")


@event
async def nobody_at_the_address(scene: Scene) -> None:
    scene.road.refuse()
    await scene.ordeal.renewals(LONGER_THAN_A_LOCK)
    await scene.road.open()


@pytest.mark.parametrize("name", EVENTS)
async def test_runs_stay_with_who_has_them_and_end(scene: Scene, name: str) -> None:
    await scene.ordeal.begin()
    await EVENTS[name](scene)
    assert await scene.ordeal.end() == []


@pytest.mark.parametrize("scene", ["shifted"], indirect=True)
@pytest.mark.parametrize("by_s", [HOUR_S, -HOUR_S])
async def test_a_clock_that_is_set_is_nobodys_fault(scene: Scene, by_s: int) -> None:
    await scene.ordeal.begin()
    await asyncio.to_thread(set_clock, scene.server, by_s)
    await scene.ordeal.renewals(LONGER_THAN_A_LOCK)
    await asyncio.to_thread(set_clock, scene.server, 0)
    assert await scene.ordeal.end() == []
