"""Crashes in a simulation: a worker ends anywhere, another goes on, and only code that minds it comes out otherwise."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pyrula.testing import CrashNotSurvived, Simulation, attempts, crash_everywhere
from pyrula.workflows import (
    ChildFailed,
    RunStatus,
    StepFailed,
    StepTimeout,
    SyncWorkflowContext,
    WorkflowContext,
    current_step,
    step,
    workflow,
)

numbers: Iterator[int] = itertools.count(1)


@step
def double(number: int) -> int:
    return 2 * number


@step(retry=3)
async def stumble(word: str) -> str:
    if current_step().attempt < 2:
        raise ValueError("stumbled")
    return word


@step
def next_number() -> int:
    return next(numbers)


@step
def refuse() -> None:
    raise PermissionError("no")


@workflow
async def crashing_async(ctx: WorkflowContext) -> list[Any]:
    first = await ctx.gather(*(ctx.step(double, number) for number in range(3)))
    word = await ctx.step(stumble, "word")
    await ctx.sleep(3600)
    try:
        await ctx.step(refuse)
    except StepFailed as failed:
        return [first, word, str(failed), str(ctx.uuid4()), ctx.random(), ctx.now().isoformat()]
    return []


@workflow
def crashing_plain(ctx: SyncWorkflowContext) -> list[Any]:
    first = [ctx.step(double, number) for number in range(3)]
    word = ctx.step(stumble, "word")
    ctx.sleep(3600)
    try:
        ctx.step(refuse)
    except StepFailed as failed:
        return [first, word, str(failed), str(ctx.uuid4()), ctx.random(), ctx.now().isoformat()]
    return []


@step(timeout=0.02)
def outlives() -> None:
    gate.wait()


@step
def takes_a_while() -> str:
    begun.append("begun")
    gate.wait(0.02)
    begun.append("done")
    return "done"


gate = threading.Event()
begun: list[str] = []


@workflow
async def crashing_thread(ctx: WorkflowContext) -> str:
    try:
        await ctx.step(outlives)
    except StepTimeout:
        await ctx.sleep(3600)
        return "timed out"
    return ""


@workflow
async def crashing_slowly(ctx: WorkflowContext) -> str:
    return await ctx.step(takes_a_while)


@workflow
async def crashing_counter(ctx: WorkflowContext) -> int:
    return await ctx.step(next_number)


FLOWS = pytest.mark.parametrize("flow", [crashing_async, crashing_plain])


@workflow
async def crashing_unwinding(ctx: WorkflowContext) -> None:
    try:
        await ctx.sleep(3600)
    finally:
        await ctx.step(next_number)


@workflow
async def crashing_giver_up(ctx: WorkflowContext) -> str:
    child = ctx.start_child(crashing_unwinding)
    await child.cancel()
    try:
        await child.result()
    except ChildFailed as failed:
        return failed.status
    return ""


@FLOWS
def test_a_crash_anywhere_changes_nothing(flow: Any) -> None:
    places = crash_everywhere(lambda simulation: simulation.run(flow).result())
    for place in (
        "before the store is asked to claim",
        "after the store was asked to commit",
        "before attempt 1 of step 'double'",
        "after attempt 2 of step 'stumble'",
    ):
        assert place in places


@FLOWS
def test_each_crash_happens_and_repeats_no_more_than_what_it_lost(flow: Any) -> None:
    with Simulation() as simulation:
        simulation.run(flow).finish()
        places, undisturbed = simulation.places, len(simulation.attempts)
        assert simulation.crashes == 0
    for number in range(1, len(places) + 1):
        with Simulation(crash_at=number) as simulation:
            run = simulation.run(flow)
            assert run.status is RunStatus.completed
            assert simulation.crashes == (number <= len(simulation.places))  # threads may leave out a claim
            assert undisturbed <= len(run.attempts) <= undisturbed + 3, places[number - 1]


def test_a_step_that_gives_something_else_when_it_is_repeated_is_found() -> None:
    def story(simulation: Simulation) -> int:
        global numbers
        numbers = itertools.count(1)
        return simulation.run(crashing_counter).result()

    with pytest.raises(CrashNotSurvived) as raised:
        crash_everywhere(story)
    told = str(raised.value)
    assert "after attempt 1 of step 'next_number': the story's value is 2 instead of 1" in told
    assert f"Simulation(crash_at={raised.value.places[0]})" in told
    with Simulation(crash_at=raised.value.places[0]) as simulation:
        numbers_before = story(simulation)
    assert numbers_before == 2


def test_a_story_that_differs_without_a_crash_is_told_from_one_that_does_not_survive() -> None:
    with pytest.raises(CrashNotSurvived, match="without any crash") as raised:
        crash_everywhere(lambda simulation: simulation.run(crashing_counter).result())
    assert raised.value.places == ()


def test_fakes_begin_anew_in_every_play() -> None:
    fakes = {next_number: attempts(ConnectionError, 7)}
    places = crash_everywhere(lambda simulation: simulation.run(crashing_counter).status, fakes=fakes)
    assert "after attempt 1 of step 'next_number'" in places


def test_a_child_that_is_cancelled_before_its_code_begins_is_no_false_alarm() -> None:
    places = crash_everywhere(lambda simulation: simulation.run(crashing_giver_up).result())
    assert places.count("after the store was asked to claim") >= 3


def test_operations_of_cancelled_runs_whose_code_has_begun_are_compared() -> None:
    def story(simulation: Simulation) -> None:
        global numbers
        numbers = itertools.count(1)
        run = simulation.start(crashing_unwinding)
        run.cancel()
        assert run.finish().status is RunStatus.cancelled

    with pytest.raises(CrashNotSurvived, match=r"step 'next_number' \(next_number#1\) is 2 instead of 1"):
        crash_everywhere(story)


def test_a_storys_own_failure_says_at_which_crash_it_was() -> None:
    def story(simulation: Simulation) -> None:
        simulation.run(crashing_counter)
        assert simulation.crashes == 0, "crashed"

    with pytest.raises(AssertionError, match="crashed") as raised:
        crash_everywhere(story, fakes={next_number: 1})
    assert raised.value.__notes__ == ["This was with a crash at place 1, before the store is asked to claim."]


def test_a_thread_that_outlives_its_step_is_not_waited_for_after_a_crash() -> None:
    gate.clear()
    try:
        with Simulation(patience=10.0) as simulation:
            run = simulation.start(crashing_thread)
            simulation.advance(1)
            simulation.crash()
            assert run.result() == "timed out"
            assert simulation.crashes == 1
    finally:
        gate.set()


def test_a_thread_of_a_crashed_worker_ends_before_the_next_one_begins() -> None:
    begun.clear()
    with Simulation(crash_at=4) as simulation:
        run = simulation.run(crashing_slowly)
        assert run.result() == "done"
        assert simulation.places[3] == "after attempt 1 of step 'takes_a_while'"
    assert begun == ["begun", "done", "begun", "done"]


@FLOWS
def test_a_worker_crashes_when_it_is_told_to(flow: Any) -> None:
    with Simulation() as simulation:
        run = simulation.start(flow)
        simulation.crash()
        simulation.advance(1800)
        simulation.crash()
        assert run.finish().status is RunStatus.completed
        assert simulation.crashes == 2
