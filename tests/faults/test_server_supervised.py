"""What befalls a server under a supervisor: its workers and its clerk go on by themselves, and nobody is replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores.protocol import CLEAN
from tests.faults.scene import Scene
from tests.faults.supervised import Given, Supervised
from tests.faults.world import Gate, World
from tests.store.samples import until

LOCK_TTL_S = 3
LADDER = ("--lock-ttl", str(LOCK_TTL_S), "--block-warn", "0.4", "--replace-after", "1.2")
FLAGS = ("--procs", "2", *LADDER, "--orphan-scan-interval", "0.3")
SERVED = [f"tests.faults.workflows:{name}" for name in ("ten", "gated")]


async def until_lapsed(world: World, run: str) -> None:
    """Wait until a lock would be over, if anybody were there to say so."""

    async def has_lapsed() -> bool:
        return ((await world.read(run)).lock_left_ms or 0) < -500

    await until(has_lapsed)


async def _killed(scene: Scene, run: str) -> None:
    await asyncio.to_thread(scene.server.kill)
    await asyncio.to_thread(scene.server.start)


async def _forgetful(scene: Scene, run: str) -> None:
    for command in (("SCRIPT", "FLUSH"), ("CLIENT", "KILL", "TYPE", "pubsub"), ("CLIENT", "KILL", "TYPE", "normal")):
        await scene.ask(*command)


async def _unreachable(scene: Scene, run: str) -> None:
    scene.road.block()
    await until_lapsed(scene.ordeal.world, run)
    scene.road.clear()


async def _full(scene: Scene, run: str) -> None:
    await scene.ask("CONFIG", "SET", "maxmemory", "100kb")
    renewed = scene.road.events["renew answered"]
    await scene.road.event("renew answered", renewed + 2 * LOCK_TTL_S)
    await scene.ask("CONFIG", "SET", "maxmemory", "0")


BEFALLS: tuple[Callable[[Scene, str], Awaitable[None]], ...] = (_killed, _forgetful, _full, _unreachable)


async def comes_through(scene: Scene, gate: Gate, befalls: Callable[[Scene, str], Awaitable[None]]) -> None:
    """One run stands in a step, others are on their way, and then it comes."""
    world = scene.ordeal.world
    held = await world.submit("gated", gate=str(gate.path))
    visit = await gate.visit()
    moving = [await world.submit("ten") for _ in range(4)]
    await befalls(scene, held)
    await until(scene.ordeal.reaches)
    visit.let_in("kept")
    moving += [await world.submit("ten") for _ in range(4)]
    for run in (held, *moving):
        record = await world.ended(run)
        assert (record.status, record.dossier) == (RunStatus.completed, CLEAN), befalls
        assert max(world.marks(run).values()) <= record.fence
    record = await world.read(held)
    assert (record.result, record.fence) == (b'"kept"', 1), befalls


async def test_a_supervisors_workers_keep_their_runs_whatever_befalls_the_server(scene: Scene) -> None:
    world = scene.ordeal.world
    gate = await world.gate()
    supervised = Supervised(world.directory, Given(store_url=scene.road.url(), workflows=SERVED, flags=FLAGS))
    await supervised.start()
    try:
        began = {row["incarnation"] for row in await supervised.ready(2)}
        for befalls in BEFALLS:
            await comes_through(scene, gate, befalls)
        assert {row["incarnation"] for row in await supervised.ready(2)} == began, supervised.tail()

        async def is_well() -> bool:
            return bool(supervised.document()["store"]["ok"])

        await until(is_well)
        assert await supervised.stop() == 0, supervised.tail()
    finally:
        await supervised.kill()
    assert world.problems() == []
