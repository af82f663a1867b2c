"""Children in a simulation: they run beside their parent, in the same time, and through the same crashes."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from pyrula.testing import Simulation, SimulationStuck, crash_everywhere
from pyrula.workflows import ChildFailed, RunStatus, SyncWorkflowContext, WorkflowContext, step, workflow


@step
async def weigh(number: int) -> int:
    if number < 0:
        raise ValueError("nothing weighs less than nothing")
    return number * 10


@workflow
async def simulated_parcel(ctx: WorkflowContext, number: int) -> int:
    await ctx.sleep(60 * abs(number))
    return await ctx.step(weigh, number)


@workflow
async def simulated_parcels(ctx: WorkflowContext, count: int) -> int:
    weights = await ctx.gather(*(ctx.child(simulated_parcel, number) for number in range(count)))
    return sum(weights)


@workflow
def simulated_plain_parcels(ctx: SyncWorkflowContext, count: int) -> int:
    return sum(ctx.gather(*(partial(ctx.child, simulated_parcel, number) for number in range(count))))


@workflow
async def simulated_broken_parcel(ctx: WorkflowContext) -> str:
    try:
        await ctx.child(simulated_parcel, -1)
    except ChildFailed as failed:
        return failed.status
    return ""


@workflow
async def simulated_letter(ctx: WorkflowContext) -> str:
    text: str = await ctx.wait_signal("text")
    return text


@workflow
async def simulated_sender(ctx: WorkflowContext) -> str:
    child = ctx.start_child(simulated_letter)
    await ctx.sleep(3600)
    await child.signal("text", "hello")
    return await child.result()


@workflow
async def simulated_orphan(ctx: WorkflowContext) -> None:
    await ctx.child("simulated_by_another_service")


@workflow
async def simulated_rounds(ctx: WorkflowContext, left: int) -> str:
    await ctx.sleep(86_400)
    if left:
        ctx.continue_as_new(left - 1)
    return f"{ctx.now():%d %b}"


PARENTS = pytest.mark.parametrize("flow", [simulated_parcels, simulated_plain_parcels])


@PARENTS
def test_children_run_side_by_side(flow: Any) -> None:
    with Simulation() as simulation:
        run = simulation.run(flow, 20)
        assert run.result() == 1_900
        assert [child.result() for child in run.children] == [number * 10 for number in range(20)]
        run.check_replay()
        assert (run.ended, len(simulation.runs)) == (simulation.now, 21)
        assert run.ended is not None
        assert (run.ended - run.submitted).total_seconds() == 19 * 60


@PARENTS
def test_children_survive_a_crash_anywhere(flow: Any) -> None:
    crash_everywhere(lambda simulation: simulation.run(flow, 3).result())


def test_a_child_that_fails_tells_its_parent() -> None:
    with Simulation() as simulation:
        assert simulation.run(simulated_broken_parcel).result() == "failed"


def test_a_parent_that_is_cancelled_cancels_its_children() -> None:
    with Simulation() as simulation:
        run = simulation.start(simulated_parcels, 3)
        simulation.advance(30)
        run.cancel()
        assert [each.status for each in (run, *run.children)] == [
            RunStatus.cancelled,
            RunStatus.completed,
            RunStatus.cancelled,
            RunStatus.cancelled,
        ]


def test_a_child_can_be_spoken_to() -> None:
    with Simulation() as simulation:
        assert simulation.run(simulated_sender).result() == "hello"
    crash_everywhere(lambda simulation: simulation.run(simulated_sender).result())


def test_a_child_that_cannot_run_is_named_with_its_parent() -> None:
    with Simulation() as simulation, pytest.raises(SimulationStuck) as raised:
        simulation.run(simulated_orphan)
    assert "of workflow 'simulated_orphan' waits for child 'simulated_by_another_service'" in str(raised.value)
    assert (
        "of workflow 'simulated_by_another_service' is queued for a workflow that this process does not define"
        in str(raised.value)
    )


def test_a_run_that_goes_on_as_new_does_so() -> None:
    with Simulation() as simulation:
        run = simulation.run(simulated_rounds, 30)
        assert run.result() == "01 Feb"
        assert len(run.journal) == 1
    crash_everywhere(lambda simulation: simulation.run(simulated_rounds, 2).result())
