"""A plain step that nobody waits for any more keeps its thread; it must not keep the worker's other runs waiting.

The worker runs one turn at a time, and the step stays at its gate until the test has seen the others finish.
"""

from __future__ import annotations

import signal
from typing import Any

from pyrula.workflows import RunStatus
from tests.faults.world import BRISK, World

ONE: dict[str, Any] = {"max_concurrent_turns": 1}


async def test_a_step_that_was_given_up_for_its_timeout(world: World) -> None:
    gate = await world.gate()
    runs = [await world.submit("impatient", gate=str(gate.path)) for _ in range(3)]
    worker = await world.start(options=ONE)
    visits = [await gate.visit() for _ in runs]
    for run in runs:
        assert (await world.ended(run)).result == b'"gave up"'
    assert (await world.ended(await world.submit("plain"))).status is RunStatus.completed
    for visit in visits:
        visit.let_in()
    assert await worker.drain() == 0


async def test_a_step_of_a_cancelled_run(world: World) -> None:
    gate = await world.gate()
    run = await world.submit("plain gated", gate=str(gate.path))
    worker = await world.start(options=ONE)
    visit = await gate.visit()
    await world.client.cancel(run)
    assert (await world.ended(run)).status is RunStatus.cancelled
    assert (await world.ended(await world.submit("plain"))).status is RunStatus.completed
    visit.let_in()
    assert await worker.drain() == 0


async def test_a_step_of_a_lost_run(world: World) -> None:
    gate = await world.gate()
    run = await world.submit("plain gated", gate=str(gate.path))
    options = BRISK | {"orphan_scan_interval": 0.1}
    sleeper = await world.start(options=options | ONE)
    first = await gate.visit()
    other = await world.start(options=options)
    await other.told("serving")
    sleeper.send(signal.SIGSTOP)
    second = await gate.visit()
    sleeper.send(signal.SIGCONT)
    second.let_in()
    assert (await world.ended(run)).status is RunStatus.completed
    assert await other.drain() == 0
    assert (await world.ended(await world.submit("plain"))).status is RunStatus.completed
    first.let_in()
    assert await sleeper.drain() == 0
