"""What befalls a server under workers that use it: runs stay with who has them, and all of them end.

None of it is a run's doing or a worker's, so nobody is charged, nobody loses what he holds, and nobody has to be
started again. Whatever lasts longer than a lock lives is answered by one more life for all locks.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores.protocol import CLEAN, RunQuery
from pyrula_runtime.stores.valkey.address import parse
from pyrula_runtime.stores.valkey.connection import connect, pack
from tests.faults.ordeal import HASTY, OPTIONS
from tests.faults.plan import Point
from tests.faults.scene import Scene, staged
from tests.store.valkey.shifted import set_clock

Event = Callable[[Scene], Awaitable[None]]
EVENTS: dict[str, Event] = {}
SELDOM: set[str] = set()  # those that differ from others only in what the server says


def event(act: Event) -> Event:
    """Something that may befall a server; when it returns, it is over."""
    EVENTS[act.__name__] = act
    return act


def seldom(act: Event) -> Event:
    """The same, looked at by night."""
    SELDOM.add(act.__name__)
    return event(act)


def every_event() -> list[object]:
    """As parameters of a test."""
    return [pytest.param(name, marks=[pytest.mark.nightly] if name in SELDOM else []) for name in EVENTS]


LONGER_THAN_A_LOCK = 4  # renewals; there are three in a lock's life
HOUR_S = 3600
EVERY_PING = Point(verb="ping", nth=0, phase="answered", deed="tell")


@event
async def killed_and_started_again(scene: Scene) -> None:
    await asyncio.to_thread(scene.server.kill)
    await asyncio.to_thread(scene.server.start)


@seldom
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


@seldom
async def a_replica_for_a_while(scene: Scene) -> None:
    await scene.ask("REPLICAOF", "127.0.0.1", "1")
    await scene.ordeal.renewals(LONGER_THAN_A_LOCK)
    await scene.ask("REPLICAOF", "NO", "ONE")


@seldom
async def without_the_replicas_it_wants(scene: Scene) -> None:
    await scene.ask("CONFIG", "SET", "min-replicas-to-write", 1)
    await scene.ordeal.renewals(LONGER_THAN_A_LOCK)
    await scene.ask("CONFIG", "SET", "min-replicas-to-write", 0)


@event
async def a_command_not_permitted(scene: Scene) -> None:
    await scene.ask("ACL", "SETUSER", "default", "-zadd")
    await scene.ordeal.renewals(LONGER_THAN_A_LOCK)
    await scene.ask("ACL", "SETUSER", "default", "+zadd")


@seldom
async def a_password_that_nobody_told(scene: Scene) -> None:
    await scene.ask("CONFIG", "SET", "requirepass", "secret")
    await scene.ask("CLIENT", "KILL", "TYPE", "normal")
    await scene.ordeal.renewals(LONGER_THAN_A_LOCK)
    operator = parse(f"unix://:secret@{scene.server.socket}")
    with_password = await asyncio.to_thread(connect, operator, 15, "test")
    with_password.ask([("CONFIG", "SET", "requirepass", "")])
    with_password.socket.close()


@seldom
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


@seldom
async def nobody_at_the_address(scene: Scene) -> None:
    scene.road.refuse()
    await scene.ordeal.renewals(LONGER_THAN_A_LOCK)
    await scene.road.open()


@pytest.mark.parametrize("name", every_event())
async def test_runs_stay_with_who_has_them_and_end(scene: Scene, name: str) -> None:
    await scene.ordeal.begin()
    await EVENTS[name](scene)
    await scene.ordeal.end()


@pytest.mark.parametrize("scene", ["shifted"], indirect=True)
@pytest.mark.parametrize("by_s", [HOUR_S, -HOUR_S])
async def test_a_clock_that_is_set_is_nobodys_fault(scene: Scene, by_s: int) -> None:
    await scene.ordeal.begin()
    await asyncio.to_thread(set_clock, scene.server, by_s)
    await scene.ordeal.renewals(LONGER_THAN_A_LOCK)
    await asyncio.to_thread(set_clock, scene.server, 0)
    await scene.ordeal.end()


async def test_a_server_that_came_back_empty_is_used_on(forge: Path) -> None:
    # what it did not keep is lost; who was at work on it drops it, and takes what comes
    async with staged(forge, "--save", "3600 1", "--appendonly", "no") as scene:
        world = scene.ordeal.world
        await scene.ordeal.begin()
        await killed_and_started_again(scene)
        await scene.ordeal.dropped()
        assert await world.store.find(RunQuery()) == ()
        runs = [await world.submit("ten") for _ in range(5)]
        for run in runs:
            record = await world.ended(run)
            assert (record.status, record.fence, record.dossier) == (RunStatus.completed, 1, CLEAN)
        assert [await worker.drain() for worker in scene.ordeal.workers] == [0, 0]
        assert world.problems() == []


async def test_idle_workers_find_their_server_again(scene: Scene) -> None:
    world = scene.ordeal.world
    workers = [await world.start(EVERY_PING, store=scene.road.url(), settings=HASTY, options=OPTIONS) for _ in range(2)]
    for worker in workers:
        await worker.told("serving")
    scene.road.refuse()  # every wait for work is cut short, and stays so for longer than anybody waits for an answer
    asked = [sum(event.get("verb") == "ping" for event in worker.events) for worker in workers]
    for worker, count in zip(workers, asked, strict=True):
        await worker.crossed("ping", count + 2)
    await scene.road.open()
    runs = [await world.submit("ten") for _ in range(5)]
    for run in runs:
        assert (await world.ended(run)).status is RunStatus.completed
    assert [await worker.drain() for worker in workers] == [0, 0]


@pytest.mark.nightly
async def test_a_black_hole_of_ninety_seconds(forge: Path) -> None:
    """The same with the times that a user has: a lock lives for 30 seconds, a call waits for ten."""
    usual = {"lock_ttl": 30, "block_warn": 2, "replace_after": 5, "orphan_scan_interval": 60}
    async with staged(forge, options=usual, settings={"answer_s": 10.0}) as scene:
        await scene.ordeal.begin()
        scene.road.block()
        began = time.monotonic()
        while time.monotonic() - began < 90:
            await scene.ordeal.renewals(1)
        scene.road.clear()
        await scene.ordeal.end()
