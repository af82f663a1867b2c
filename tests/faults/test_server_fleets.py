"""Workers of several hosts on one server or cluster: what one leaves another finds, and nobody is in another's way."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from pyrula.workflows import RunStatus
from pyrula_runtime.duties.burial import free_all
from pyrula_runtime.stores.opening import open_store
from pyrula_runtime.stores.protocol import CLEAN
from tests.faults.check_history import check, history_of
from tests.faults.history import final_runs, load
from tests.faults.keeping import kinds
from tests.faults.ordeal import OPTIONS
from tests.faults.scene import Scene
from tests.faults.world import Process, World

SHARED = pytest.mark.parametrize("keeping", kinds("valkey", "cluster"), indirect=True)


async def on_host(world: World, name: str, **order: Any) -> Process:
    """Start a worker on a host of its own: it sees nobody's black boxes but its own."""
    runtime = world.directory / name
    runtime.mkdir(mode=0o700, exist_ok=True)
    return await world.start(**({"runtime": str(runtime), "options": OPTIONS} | order))


@SHARED
async def test_a_host_that_dies_after_its_successor_has_started_leaves_nothing(world: World) -> None:
    # looked at only at start, its runs would wait for the next start
    gate = await world.gate()
    run = await world.submit("gated", gate=str(gate.path))
    old = await on_host(world, "old")
    await gate.visit()
    new = await on_host(world, "new")
    await new.told("serving")
    await old.kill()
    (await gate.visit()).let_in("again")
    record = await world.ended(run)
    assert (record.status, record.fence, record.dossier) == (RunStatus.completed, 2, CLEAN)
    assert await new.drain() == 0
    assert world.problems() == []


@SHARED
async def test_a_worker_started_under_the_name_of_one_that_still_drains_strands_nothing(world: World) -> None:
    gate = await world.gate()
    run = await world.submit("gated", gate=str(gate.path))
    old = await on_host(world, "host", worker_id="w")
    visit = await gate.visit()
    old.send(signal.SIGTERM)
    await old.told("draining")
    new = await on_host(world, "host", worker_id="w")
    others = [await world.submit("ten") for _ in range(5)]
    for other in others:
        assert (await world.ended(other)).status is RunStatus.completed
    visit.let_in("still here")
    record = await world.ended(run)
    assert (record.result, record.fence) == (b'"still here"', 1)
    assert await old.ended() == 0
    assert await new.drain() == 0
    assert (await old.told("begun"))["incarnation"] != (await new.told("begun"))["incarnation"]


@SHARED
async def test_workers_of_four_hosts_take_no_run_twice(world: World) -> None:
    histories = [world.directory / f"history{number}" for number in range(4)]
    workers = [await on_host(world, path.name + ".run", history=str(path)) for path in histories]
    runs = [await world.submit("ten") for _ in range(40)]
    ended = await asyncio.gather(*map(world.ended, runs))
    assert {(run.status, run.fence) for run in ended} == {(RunStatus.completed, 1)}
    assert [await worker.drain() for worker in workers] == [0] * 4
    assert all(set(world.marks(run).values()) == {1} for run in runs)
    assert check(history_of(load(histories), await final_runs(world.store))) == []
    assert world.problems() == []


@SHARED
async def test_of_two_who_free_the_dead_each_run_is_freed_by_one(world: World) -> None:
    gate = await world.gate()
    held = [await world.submit("gated", gate=str(gate.path)) for _ in range(5)]
    worker = await on_host(world, "dying", options=OPTIONS | {"lock_ttl": 30.0})
    for _ in held:
        await gate.visit()
    await worker.kill()
    owner = (await worker.told("begun"))["incarnation"]
    second = open_store(world.url)
    await second.open()
    try:
        freed = await asyncio.gather(free_all(world.store, owner), free_all(second, owner))
        assert sorted(freed[0] + freed[1]) == sorted(held)
        assert await free_all(second, owner) == ()
    finally:
        await second.close()


async def test_a_cancel_is_heard_though_no_wake_comes_through(scene: Scene) -> None:
    world = scene.ordeal.world
    gate = await world.gate()
    run = await world.submit("gated", gate=str(gate.path))
    settings = {"knock_s": 60.0}  # nothing else would notice that the subscriptions lead nowhere
    worker = await on_host(world, "deaf", store=scene.road.url(), settings=settings)
    visit = await gate.visit()
    await worker.told("serving")
    scene.road.half_open("pyrula-listen")
    await world.client.cancel(run)
    await visit.given_up()
    assert (await world.ended(run)).status is RunStatus.cancelled
    assert await worker.drain() == 0
