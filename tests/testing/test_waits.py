"""Waits in a simulation: signals, cancels and limits come when the test says so, and what never comes is named."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel

from pyrula.testing import Simulation, SimulationStuck, crash_everywhere
from pyrula.workflows import (
    RunCancelled,
    RunStatus,
    SignalTimeout,
    SyncWorkflowContext,
    WaitTimeout,
    WorkflowContext,
    step,
    workflow,
)

START = datetime(2024, 1, 1, tzinfo=UTC)
WEEK = timedelta(days=7)


class Answer(BaseModel):
    is_yes: bool


@step
async def remind(times: int) -> int:
    return times


@workflow
async def simulated_approval(ctx: WorkflowContext) -> str:
    for times in range(3):
        try:
            answer = await ctx.wait_signal("answer", type=Answer, timeout=WEEK)
        except SignalTimeout:
            await ctx.step(remind, times)
        else:
            return f"{answer.is_yes} on {ctx.now():%d %b}"
    return "nobody answers"


@workflow
def simulated_plain_approval(ctx: SyncWorkflowContext) -> str:
    for times in range(3):
        try:
            answer = ctx.wait_signal("answer", type=Answer, timeout=WEEK)
        except SignalTimeout:
            ctx.step(remind, times)
        else:
            return f"{answer.is_yes} on {ctx.now():%d %b}"
    return "nobody answers"


@workflow
async def simulated_patience(ctx: WorkflowContext) -> list[Any]:
    got = [await ctx.wait_signal("a"), await ctx.wait_signal("b")]
    which, _ = await ctx.first(ctx.wait_signal("c"), ctx.sleep(3600))
    return [*got, which]


@workflow
def simulated_plain_patience(ctx: SyncWorkflowContext) -> list[Any]:
    got = [ctx.wait_signal("a"), ctx.wait_signal("b")]
    which, _ = ctx.first(partial(ctx.wait_signal, "c"), partial(ctx.sleep, 3600))
    return [*got, which]


@workflow
async def simulated_limit(ctx: WorkflowContext) -> str:
    try:
        async with ctx.timeout(WEEK):
            await ctx.wait_signal("go")
    except WaitTimeout:
        return f"late on {ctx.now():%d %b}"
    return "in time"


@workflow
async def simulated_undoing(ctx: WorkflowContext) -> None:
    try:
        await ctx.sleep(WEEK)
    finally:
        await ctx.step(remind, 99)


@workflow
async def simulated_mismatch(ctx: WorkflowContext) -> None:
    await ctx.step(remind.with_options(name=f"remind {simulated_mismatch.version} {len(versions)}"), 1)
    versions.append("another")
    await ctx.sleep(60)


versions: list[str] = []
APPROVALS = pytest.mark.parametrize("flow", [simulated_approval, simulated_plain_approval])
PATIENT = pytest.mark.parametrize("flow", [simulated_patience, simulated_plain_patience])


@APPROVALS
def test_a_signal_comes_when_it_is_sent(flow: Any) -> None:
    with Simulation() as simulation:
        run = simulation.start(flow)
        simulation.advance(WEEK + timedelta(days=1))
        assert (run.status, run.steps) == (RunStatus.waiting, ["remind"])
        run.signal("answer", {"is_yes": True})
        assert (run.status, run.result()) == (RunStatus.completed, "True on 09 Jan")


@APPROVALS
def test_without_a_signal_its_timeouts_pass(flow: Any) -> None:
    with Simulation() as simulation:
        run = simulation.run(flow)
        assert run.result() == "nobody answers"
        assert [each.args for each in run.attempts] == [(0,), (1,), (2,)]
        assert simulation.now == START + 3 * WEEK


@PATIENT
def test_signals_that_come_early_are_kept_and_each_comes_once(flow: Any) -> None:
    with Simulation() as simulation:
        run = simulation.start(flow)
        for _ in range(2):
            run.signal("b", 2, message_id="the same")
        run.signal("a", 1)
        assert run.result() == [1, 2, 1]


@PATIENT
def test_a_signal_that_nobody_sends_is_named(flow: Any) -> None:
    with Simulation() as simulation:
        run = simulation.start(flow)
        run.signal("a")
        with pytest.raises(SimulationStuck) as raised:
            run.result()
        told = str(raised.value)
        assert f"Run {run.run_id} of workflow {flow.name!r} waits for signal 'b' (b#1), and nobody brings it" in told
        assert "run.signal('b', ...)" in told
        run.signal("b")
        run.signal("c")
        assert run.result() == [None, None, 0]


def test_a_signal_that_nobody_sends_is_named_after_a_crash_too() -> None:
    with Simulation() as simulation:
        run = simulation.start(simulated_patience)
        simulation.crash()
        with pytest.raises(SimulationStuck, match="waits for signal 'a'"):
            run.result()


def test_a_limit_passes() -> None:
    with Simulation() as simulation:
        assert simulation.run(simulated_limit).result() == "late on 08 Jan"
        run = simulation.start(simulated_limit)
        run.signal("go")
        assert run.result() == "in time"


def test_a_cancel_is_compensated_at_once() -> None:
    with Simulation() as simulation:
        run = simulation.start(simulated_undoing)
        simulation.advance(60)
        assert run.steps == []
        run.cancel()
        assert (run.status, run.steps) == (RunStatus.cancelled, ["remind"])
        with pytest.raises(RunCancelled):
            run.result()


def test_a_paused_run_says_why() -> None:
    with Simulation() as simulation:
        run = simulation.start(simulated_mismatch)
        with pytest.raises(SimulationStuck, match=r"is paused: JournalMismatch: .* 'remind None 0'"):
            run.result()


def test_a_run_of_a_workflow_that_is_not_there_says_so() -> None:
    with Simulation() as simulation, pytest.raises(SimulationStuck, match="does not define: import its module"):
        simulation.run("simulated_by_nobody")


@APPROVALS
@pytest.mark.parametrize("days", [0, 8])
def test_waits_survive_a_crash_anywhere(flow: Any, days: int) -> None:
    def story(simulation: Simulation) -> str:
        run = simulation.start(flow)
        simulation.advance(timedelta(days=days))
        run.signal("answer", {"is_yes": False})
        return str(run.result())

    crash_everywhere(story)


@PATIENT
def test_signals_survive_a_crash_anywhere(flow: Any) -> None:
    def story(simulation: Simulation) -> Any:
        run = simulation.start(flow)
        run.signal("b", 2)
        run.signal("a", 1)
        return run.result()

    crash_everywhere(story)


def test_a_cancel_survives_a_crash_anywhere() -> None:
    def story(simulation: Simulation) -> RunStatus:
        run = simulation.start(simulated_undoing)
        run.cancel()
        return run.status

    assert "before attempt 1 of step 'remind'" in crash_everywhere(story)
