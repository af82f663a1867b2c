"""A drain always ends, in the bound that was published, with nothing lost; and it lets running steps finish if it can.

The bound is `shutdown_grace` and three times `cancel_timeout`. Locks live for 30 s here, so a run that another worker
takes over within the limits of these tests was handed back and did not lapse.
"""

from __future__ import annotations

import asyncio
import signal
import time
from typing import Any

import pytest

from pyrula.workflows import RunStatus
from tests.faults.keeping import on_a_file
from tests.faults.plan import Point
from tests.faults.world import Gate, Process, Visit, World

pytestmark = pytest.mark.parametrize("isolation", ["lane", "turn"], indirect=True)

SHORT: dict[str, Any] = {"shutdown_grace": 0.3, "cancel_timeout": 0.3}
BOUND_S = SHORT["shutdown_grace"] + 3 * SHORT["cancel_timeout"]
BUSY_S = 2.0  # what a machine that is busy with other tests may add
GATED = ("gated", "plain gated")
HANGING = [("gated", "visit"), ("gated", "visit_stubbornly"), ("gated", "visit_in_thread"), ("plain gated", "")]


async def at_the_gate(
    world: World, workflow: str, how: str, *faults: Point, **order: Any
) -> tuple[str, Process, Gate, Visit]:
    """A run whose step stands at a gate, and its worker."""
    gate = await world.gate()
    given = {"gate": str(gate.path)} | ({"how": how} if how else {})
    run = await world.submit(workflow, **given)
    worker = await world.start(*faults, **order)
    return run, worker, gate, await gate.visit()


async def drained_in_s(worker: Process) -> float:
    """Drain the worker; how long that took."""
    began = time.monotonic()
    assert await worker.drain() == 0
    return time.monotonic() - began


@pytest.mark.parametrize("workflow", GATED)
async def test_a_running_step_finishes_within_the_grace(world: World, workflow: str) -> None:
    run, worker, _, visit = await at_the_gate(world, workflow, "")
    worker.send(signal.SIGTERM)
    await worker.told("draining")
    visit.let_in("well")
    assert await worker.ended() == 0
    record = await world.read(run)
    assert (record.status, record.result) == (RunStatus.completed, b'"well"')
    assert set(world.marks(run).values()) == {1}


@pytest.mark.parametrize(("workflow", "how"), HANGING)
async def test_a_hanging_step_is_given_up_and_its_run_goes_to_another_worker(
    world: World, workflow: str, how: str
) -> None:
    run, worker, gate, visit = await at_the_gate(world, workflow, how, options=SHORT)
    assert await drained_in_s(worker) < BOUND_S + BUSY_S
    record = await world.read(run)
    assert (record.status, record.owner, record.journal_len) == (RunStatus.queued, None, 1)
    await visit.given_up()
    await world.start()
    (await gate.visit()).let_in("again")
    assert (await world.ended(run)).result == b'"again"'
    assert set(world.marks(run).values()) == {1}


async def test_a_lane_that_user_code_blocks_does_not_keep_the_drain(world: World) -> None:
    # the hand-back itself is given a second: on a busy machine it may need it
    options = {**SHORT, "cancel_timeout": 1.0}
    run, worker, _, _ = await at_the_gate(world, "gated", "visit_with_the_lane", options=options)
    assert await drained_in_s(worker) < SHORT["shutdown_grace"] + 3 * options["cancel_timeout"] + BUSY_S
    record = await world.read(run)
    assert (record.status, record.owner) == (RunStatus.queued, None)


async def test_nothing_is_claimed_while_a_worker_drains(world: World) -> None:
    _, worker, _, visit = await at_the_gate(world, "gated", "")
    worker.send(signal.SIGTERM)
    await worker.told("draining")
    run = await world.submit("ten")
    visit.let_in()
    assert await worker.ended() == 0
    record = await world.read(run)
    assert (record.status, record.fence) == (RunStatus.queued, 0)
    await world.start()
    assert (await world.ended(run)).status is RunStatus.completed


async def test_a_second_signal_ends_the_process_at_once_and_its_run_is_buried_free(world: World) -> None:
    run, worker, gate, visit = await at_the_gate(world, "gated", "visit_in_thread")
    worker.send(signal.SIGTERM)
    await worker.told("draining")
    worker.send(signal.SIGTERM)
    assert await worker.ended() == 128 + signal.SIGTERM
    await visit.given_up()
    assert (await world.read(run)).status is RunStatus.running
    await world.start()
    (await gate.visit()).let_in()
    assert (await world.ended(run)).status is RunStatus.completed


@pytest.mark.parametrize("verb", ["holdings", "release", "retire", "close"])
async def test_a_store_that_is_gone_does_not_keep_the_drain(world: World, verb: str) -> None:
    gone = Point(verb=verb, nth=0, phase="before", deed="raise")
    run, worker, gate, _ = await at_the_gate(world, "gated", "", gone, options=SHORT)
    assert await drained_in_s(worker) < BOUND_S + BUSY_S
    await world.start()
    (await gate.visit()).let_in()
    assert (await world.ended(run)).status is RunStatus.completed


@on_a_file
@pytest.mark.parametrize("workflow", GATED)
async def test_a_write_lock_that_nobody_gives_up_does_not_keep_the_drain(world: World, workflow: str) -> None:
    run, worker, gate, _ = await at_the_gate(world, workflow, "", options=SHORT)
    holder = await world.start(role="hold")
    await holder.told("holding")
    assert await drained_in_s(worker) < BOUND_S + BUSY_S
    await holder.kill()
    await world.start()
    (await gate.visit()).let_in()
    assert (await world.ended(run)).status is RunStatus.completed


async def test_a_new_worker_of_the_same_name_leaves_the_runs_of_a_draining_one_alone(world: World) -> None:
    run, old, gate, visit = await at_the_gate(world, "gated", "", worker_id="shop-1")
    old.send(signal.SIGTERM)
    await old.told("draining")
    new = await world.start(worker_id="shop-1")
    assert (await world.ended(await world.submit("ten"))).status is RunStatus.completed
    names = {worker.incarnation: worker.worker_id for worker in await world.store.workers()}
    assert sorted(names.values()) == ["shop-1", "shop-1"]
    visit.let_in()
    assert await old.ended() == 0
    record = await world.read(run)
    assert (record.status, record.fence) == (RunStatus.completed, 1)
    assert gate.is_quiet
    left = {worker.incarnation for worker in await world.store.workers()}
    assert left == {(await new.told("begun"))["incarnation"]}


async def test_many_runs_between_their_steps_are_all_handed_on(world: World) -> None:
    """A drain in the thick of it: no run is lost, none is done twice."""
    runs = [await world.submit("ten") for _ in range(60)]
    first = await world.start(options={"shutdown_grace": 0.0, "max_concurrent_turns": 20})
    await world.ended(runs[0])
    assert await first.drain() == 0
    assert {(await world.read(run)).owner for run in runs} == {None}
    await world.start()
    ends = await asyncio.gather(*map(world.ended, runs))
    assert {end.status for end in ends} == {RunStatus.completed}
    for run in runs:
        assert len(world.marks(run)) == 10
    assert world.problems() == []
