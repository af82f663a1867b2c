"""A simulation as a whole: what is seen of its runs, from where it may be used, and what it leaves behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from pyrula.testing import ReplayDiffers, Simulation, SimulationStuck
from pyrula.workflows import (
    IllegalTransition,
    InputError,
    RunFailed,
    RunStatus,
    UsageError,
    WorkflowClient,
    WorkflowContext,
    current_step,
    step,
    workflow,
)

START = datetime(2024, 1, 1, tzinfo=UTC)


class Point(BaseModel):
    x: int


@step
async def move(point: Point) -> Point:
    return Point(x=point.x + 1)


@step
def break_down() -> None:
    raise ValueError("broken")


@step
async def call_back() -> None:
    callbacks.pop()()


callbacks: list[Callable[[], object]] = []


@workflow(version="3")
async def simulated_walk(ctx: WorkflowContext, point: Point) -> Point:
    await ctx.sleep(60)
    return await ctx.step(move, point)


@workflow
async def simulated_break(ctx: WorkflowContext) -> None:
    await ctx.step(break_down)


@workflow
async def simulated_show(ctx: WorkflowContext) -> None:
    for done in range(2):
        ctx.set_status({"done": done})
        await ctx.sleep(60)


@workflow
async def simulated_callback(ctx: WorkflowContext) -> str:
    await ctx.step(call_back)
    return current_step().run_id


@workflow
async def simulated_forgetful(ctx: WorkflowContext) -> int:
    bodies.append("begun")
    await ctx.step(move.with_options(name=f"move {len(bodies)}"), Point(x=1))
    return (await ctx.step(move, Point(x=2))).x


bodies: list[str] = []


def test_what_is_seen_of_a_run() -> None:
    with Simulation() as simulation:
        run = simulation.start(simulated_walk, Point(x=1))
        assert (run.status, run.ended, run.error) == (RunStatus.waiting, None, None)
        assert run.result() == Point(x=2)
        (attempt,) = run.attempts
        assert (attempt.step, attempt.args, attempt.number) == ("move", (Point(x=1),), 1)
        assert [each["kind"] for each in run.journal] == ["completed", "completed"]
        assert run.describe()["version"] == "3"
        assert (run.submitted, run.ended) == (START, START + timedelta(seconds=60))
        assert repr(run) == f"<simulated run {run.run_id} of workflow 'simulated_walk': completed>"


def test_what_became_of_a_run_can_be_read_when_the_simulation_is_over() -> None:
    with Simulation() as simulation:
        done, waiting = simulation.run(simulated_walk, Point(x=1)), simulation.start(simulated_walk, Point(x=5))
    assert (done.result(), done.steps, waiting.status) == (Point(x=2), ["move"], RunStatus.waiting)
    simulation.close()
    for call in (lambda: simulation.advance(1), waiting.result, lambda: waiting.signal("go"), waiting.cancel):
        with pytest.raises(UsageError, match="has been closed"):
            call()


def test_a_failed_run_raises_what_a_client_would() -> None:
    with Simulation() as simulation:
        run = simulation.run(simulated_break)
        with pytest.raises(RunFailed, match="broken"):
            run.result()
        assert run.status is RunStatus.failed
        assert run.error is not None
        assert run.error.type == "StepFailed"


def test_an_input_that_does_not_fit_is_refused_at_once() -> None:
    with Simulation() as simulation:
        with pytest.raises(InputError, match="point"):
            simulation.run(simulated_walk, {"x": "far"})
        assert simulation.runs == []


def test_what_is_no_workflow_is_refused() -> None:
    with pytest.raises(UsageError, match=r"is no workflow: decorate it"):
        Simulation(workflows=[move])  # type: ignore[list-item]
    with Simulation() as simulation, pytest.raises(UsageError, match=r"is no workflow: decorate it"):
        simulation.run(move)  # type: ignore[call-overload]


def test_a_run_can_be_started_by_name() -> None:
    with Simulation() as simulation:
        assert simulation.run("simulated_walk", {"x": 1}).result() == Point(x=2)


def test_a_run_of_another_version_says_so() -> None:
    with Simulation() as simulation:
        walked = simulation.run(simulated_walk, Point(x=1))
        fork = simulation.do(lambda client: client.fork(walked.run_id, "move", version="9"))
        with pytest.raises(SimulationStuck) as raised:
            next(run for run in simulation.runs if run.run_id == fork.run_id).result()
        assert str(raised.value) == (
            f"Run {fork.run_id} of workflow 'simulated_walk' is queued for version '9', but the workflow that is "
            f"defined here has '3'."
        )


def test_an_act_that_comes_too_late_is_refused() -> None:
    with Simulation() as simulation:
        run = simulation.run(simulated_walk, Point(x=1))
        for act in (run.cancel, run.pause, run.requeue, lambda: run.signal("go")):
            with pytest.raises(IllegalTransition):
                act()


def test_the_same_test_sees_the_same_ids_and_times() -> None:
    def seen() -> list[Any]:
        with Simulation() as simulation:
            return [simulation.run(simulated_walk, Point(x=each)).describe() for each in range(3)]

    assert seen() == seen()


async def test_it_can_be_used_from_a_coroutine() -> None:
    with Simulation() as simulation:
        assert simulation.run(simulated_walk, Point(x=1)).result() == Point(x=2)


async def test_a_step_that_needs_the_loop_of_the_test_finds_it_free_if_the_call_is_made_in_a_thread() -> None:
    loop = asyncio.get_running_loop()
    asked: list[int] = []

    def ask_the_test(point: Point) -> Point:
        asyncio.run_coroutine_threadsafe(answered(), loop).result()
        return point

    async def answered() -> None:
        asked.append(threading.get_ident())

    with Simulation(fakes={move: ask_the_test}) as simulation:
        run = await asyncio.to_thread(simulation.run, simulated_walk, Point(x=1))
        assert (run.result(), asked) == (Point(x=1), [threading.get_ident()])


def test_several_threads_may_use_one_simulation() -> None:
    def walked(number: int) -> int:
        return simulation.run(simulated_walk, Point(x=number)).result().x

    with Simulation() as simulation, ThreadPoolExecutor(8) as pool:
        assert list(pool.map(walked, range(20))) == [number + 1 for number in range(20)]


@pytest.mark.parametrize("act", ["advance", "start", "result"])
def test_code_in_the_simulation_cannot_ask_it_to_go_on(act: str) -> None:
    with Simulation() as simulation:
        waiting = simulation.start(simulated_walk, Point(x=1))
        calls: dict[str, Callable[[], object]] = {
            "advance": lambda: simulation.advance(1),
            "start": lambda: simulation.start(simulated_walk, Point(x=1)),
            "result": waiting.result,
        }
        callbacks.append(calls[act])
        with pytest.raises(RunFailed, match="cannot be asked to go on by code that runs in it"):
            simulation.run(simulated_callback).result()


def test_a_journal_that_its_code_does_not_fit_is_found_by_a_replay() -> None:
    bodies.clear()
    with Simulation() as simulation:
        run = simulation.run(simulated_forgetful)
        assert run.status is RunStatus.completed
        with pytest.raises(ReplayDiffers, match=r"entry 1 is step 'move 1' .*, but the code asks for step 'move 2'"):
            run.check_replay()


def test_code_that_does_not_repeat_itself_is_found_by_replaying_always() -> None:
    bodies.clear()
    with (
        Simulation(always_replay=True) as simulation,
        pytest.raises(SimulationStuck, match="is paused: JournalMismatch"),
    ):
        simulation.run(simulated_forgetful)


def test_replaying_always_changes_nothing_for_code_that_repeats_itself() -> None:
    with Simulation(always_replay=True) as simulation:
        run = simulation.run(simulated_walk, Point(x=1))
        assert (run.result(), run.steps, run.ended) == (Point(x=2), ["move"], START + timedelta(seconds=60))


def test_what_a_run_shows_and_tells() -> None:
    with Simulation() as simulation:
        run = simulation.start(simulated_show)
        assert run.shown == {"done": 0}
        simulation.advance(60)
        assert run.shown == {"done": 1}
        run.finish()  # a status becomes an event with what comes after it
        assert [(each.id, each.type, each.data) for each in run.events] == [
            (1, "status", {"done": 0}),
            (2, "status", {"done": 1}),
        ]
        run.check_replay()


def test_a_replay_changes_nothing() -> None:
    with Simulation() as simulation:
        run = simulation.start(simulated_walk, Point(x=1))
        run.check_replay()
        assert (run.status, run.steps) == (RunStatus.waiting, [])
        assert run.result() == Point(x=2)
        run.check_replay()
        assert run.steps == ["move"]
        with pytest.raises(RunFailed):
            simulation.run(simulated_break).result()
        simulation.runs[-1].check_replay()


def test_nothing_is_left_behind() -> None:
    before = set(threading.enumerate())
    for _ in range(3):
        with Simulation() as simulation:
            simulation.start(simulated_walk, Point(x=1))
    assert set(threading.enumerate()) <= before


@workflow
async def naps_an_hour(ctx: WorkflowContext) -> None:
    await ctx.sleep(3600)


async def _fork(client: WorkflowClient, run_id: str) -> None:
    await client.fork(run_id, "sleep#1")
    async for result in client.bulk("fork", [run_id], step="sleep#1"):
        assert result.refusal is None


def test_forks_begin_in_the_time_of_the_simulation() -> None:
    with Simulation(start=START) as simulation:
        run = simulation.run(naps_an_hour)
        simulation.do(lambda client: _fork(client, run.run_id))
        simulation.advance(timedelta(hours=1))
        ends = [each.ended for each in simulation.runs]
        assert ends == [START + timedelta(hours=hours) for hours in (1, 2, 2)]
