"""The store cannot be written for a while: the worker is not ready, loses nothing, and goes on by itself.

A limit on the size of files stands for the full disk: the kernel refuses to let the store's files grow, in one process
alone, so the test's own way to the store stays open.
"""

from __future__ import annotations

import resource

import pytest

from pyrula.workflows import RunStatus
from tests.faults.keeping import on_a_file
from tests.faults.plan import Point
from tests.faults.world import BRISK, Process, World

pytestmark = on_a_file

EVERY_COMMIT = Point(verb="commit", nth=0, phase="answered", deed="tell")
EVERY_BEAT = Point(verb="beat", nth=0, phase="answered", deed="tell")


def fill_up(world: World, worker: Process) -> None:
    """Let the log that every write is appended to grow no more in the worker."""
    size = world.path.with_name("s.db-wal").stat().st_size
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def make_room(worker: Process) -> None:
    """Let them grow again."""
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


async def until_ready(worker: Process) -> None:
    """Wait until the worker is ready: each of its beats may make it so."""
    beats = sum(event["event"] == "crossed" and event["verb"] == "beat" for event in worker.events)
    while (await worker.probe("/readyz"))[0] != 200:
        beats += 1
        await worker.crossed("beat", beats)


@pytest.mark.parametrize("workflow", ["gated", "plain gated"])
async def test_a_worker_that_cannot_write_is_not_ready_and_goes_on_when_it_can(world: World, workflow: str) -> None:
    gate = await world.gate()
    run = await world.submit(workflow, gate=str(gate.path))
    worker = await world.start(EVERY_COMMIT, EVERY_BEAT, options=BRISK, probes=True)
    visit = await gate.visit()
    assert (await worker.probe("/readyz"))[0] == 200
    fill_up(world, worker)
    visit.let_in("kept")
    await worker.crossed("commit", 2)  # the first was before the gate
    status, told = await worker.probe("/readyz")
    assert (status, told["status"]) == (503, "store_unavailable")
    assert str(world.path) in told["reason"]
    assert (await worker.probe("/livez"))[0] == 200
    waiting = await world.submit("ten")
    make_room(worker)
    record = await world.ended(run)
    assert (record.status, record.result) == (RunStatus.completed, b'"kept"')
    assert (await world.ended(waiting)).status is RunStatus.completed
    for each in (run, waiting):
        assert set(world.marks(each).values()) == {1}
    await until_ready(worker)
    assert await worker.drain() == 0
    assert world.problems() == []


async def test_an_outage_longer_than_a_lock_is_nobodys_fault(world: World) -> None:
    """Nobody could renew, so nobody is taken for dead: the run stays with its worker."""
    gate = await world.gate()
    run = await world.submit("gated", gate=str(gate.path))
    options = BRISK | {"orphan_scan_interval": 0.1}
    worker = await world.start(EVERY_COMMIT, options=options)
    visit = await gate.visit()
    await worker.crossed("commit", 1)
    holder = await world.start(role="hold")
    await holder.told("holding")
    before = await world.read(run)
    assert before.lock_left_ms is not None
    while ((await world.read(run)).lock_left_ms or 0) > -500:
        await world.ticked()
    await holder.kill()
    visit.let_in()
    record = await world.ended(run)
    assert (record.status, record.fence) == (RunStatus.completed, 1)
    assert gate.is_quiet
    assert await worker.drain() == 0


async def test_a_drain_without_room_leaves_the_run_to_a_burial(world: World) -> None:
    gate = await world.gate()
    run = await world.submit("gated", gate=str(gate.path))
    worker = await world.start(options={"shutdown_grace": 0.2, "cancel_timeout": 0.5})
    await gate.visit()
    fill_up(world, worker)
    assert await worker.drain() == 0
    assert (await world.read(run)).status is RunStatus.running
    await world.start()
    (await gate.visit()).let_in()
    assert (await world.ended(run)).status is RunStatus.completed


async def test_a_store_that_takes_some_writes_only_is_not_asked_in_a_storm(world: World) -> None:
    gate = await world.gate()
    await world.submit("gated", gate=str(gate.path))
    told = [Point(verb=verb, nth=0, phase="answered", deed="tell") for verb in ("ping", "renew")]
    refused = Point(verb="beat", nth=0, phase="before", deed="raise")
    worker = await world.start(*told, refused, options=BRISK)
    visit = await gate.visit()
    await worker.crossed("renew", 4)
    pings = sum(event.get("verb") == "ping" for event in worker.events)
    assert 1 <= pings <= 10  # about one a second
    visit.let_in()
    assert await worker.drain() == 0
