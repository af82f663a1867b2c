"""Pausing and resuming runs, and restarting them from a step, while a real worker has them."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrula.workflows import (
    IllegalTransition,
    RunFailed,
    RunStatus,
    UsageError,
    WorkflowClient,
    WorkflowContext,
    current_step,
    step,
    workflow,
)
from tests.workflows.serving import LIMIT_S, served

done: Counter[str] = Counter()
keys: list[str] = []
is_mended, at_gate = threading.Event(), threading.Event()


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    done.clear()
    keys.clear()
    at_gate.clear()
    is_mended.clear()
    yield
    is_mended.clear()


@step
def work(name: str) -> str:
    done[name] += 1
    keys.append(current_step().idempotency_key)
    return name


@step
async def stand_at_gate() -> str:
    done["gate"] += 1
    at_gate.set()
    if not is_mended.is_set():
        await asyncio.Event().wait()
    return "through"


@step
def break_unless_mended() -> str:
    if not is_mended.is_set():
        raise ValueError("broken")
    return "mended"


@workflow
async def operated_gate(ctx: WorkflowContext) -> list[str]:
    return [await ctx.step(work, "first"), await ctx.step(stand_at_gate), await ctx.step(work, "last")]


@workflow
async def operated_break(ctx: WorkflowContext) -> list[str]:
    return [await ctx.step(work, "first"), await ctx.step(work, "second"), await ctx.step(break_unless_mended)]


async def reached_gate() -> None:
    assert await asyncio.to_thread(at_gate.wait, LIMIT_S)
    at_gate.clear()


async def paused_at_gate(client: WorkflowClient) -> str:
    run = await client.submit(operated_gate)
    await reached_gate()
    await run.pause()
    await run.pause()  # done once
    assert await run.status() is RunStatus.paused
    return run.run_id


async def test_a_paused_run_is_taken_from_its_worker_and_goes_on_when_it_is_resumed(tmp_path: Path) -> None:
    async with served(tmp_path, operated_gate) as client:
        run = client.handle(operated_gate, await paused_at_gate(client))
        is_mended.set()
        assert await run.status() is RunStatus.paused
        await run.resume()
        await run.resume()
        assert await run.result(LIMIT_S) == ["first", "through", "last"]
        assert done == {"first": 1, "gate": 2, "last": 1}
        with pytest.raises(IllegalTransition, match="there is nothing left to pause"):
            await run.pause()
        with pytest.raises(IllegalTransition, match="a run that has ended can only be requeued"):
            await run.resume()


async def test_a_paused_run_keeps_signals_and_can_be_cancelled(tmp_path: Path) -> None:
    async with served(tmp_path, operated_gate) as client:
        run = client.handle(operated_gate, await paused_at_gate(client))
        await run.signal("go")
        assert await run.status() is RunStatus.paused
        await run.cancel()
        assert await run.status() is RunStatus.cancelled


async def test_many_are_paused_and_resumed_at_a_rate(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        runs = [(await client.submit("operated elsewhere")).run_id for _ in range(5)]
        chosen = await client.choose("pause", "operated elsewhere", limit=4)
        assert [result.refusal async for result in client.bulk("pause", chosen, rate=1000)] == [None] * 4
        assert [each.run_id for each in await client.choose("resume")] == sorted(runs)[:4]
        going = client.bulk("resume", await client.choose("resume"))
        assert [result.run_id async for result in going] == sorted(runs)[:4]
        assert (going.done, going.refused, going.left) == (4, 0, 0)
        assert {each.status for each in await client.list()} == {RunStatus.queued}
        going = client.bulk("cancel", [*runs, "nobody"])
        assert [result.refusal is None async for result in going] == [True] * 5 + [False]


async def test_a_fork_begins_with_what_was_recorded_and_leaves_the_first_run_alone(tmp_path: Path) -> None:
    async with served(tmp_path, operated_break) as client:
        run = await client.submit(operated_break)
        with pytest.raises(RunFailed):
            await run.result(LIMIT_S)
        before = await run.describe()
        is_mended.set()
        fork = await client.fork(run.run_id)
        assert await fork.result(LIMIT_S) == ["first", "second", "mended"]
        assert done == {"first": 1, "second": 1}
        assert await run.describe() == before
        told = await fork.describe()
        assert [entry["kind"] for entry in told["journal"]] == ["completed", "completed", "forked", "completed"]
        assert told["journal"][2]["source"] == run.run_id

        again = await client.fork(fork.run_id, "work#2")
        assert await again.result(LIMIT_S) == ["first", "second", "mended"]
        assert done == {"first": 1, "second": 2}
        assert keys[-1] == f"{again.run_id}:work#2"  # what it does in the world is its own


@workflow
async def operated_by_signals(ctx: WorkflowContext) -> list[int]:
    heard = [await ctx.wait_signal("number", type=int) for _ in range(3)]
    await ctx.step(work, "end")
    return heard


async def test_a_fork_hears_the_signals_that_it_has_not_copied(tmp_path: Path) -> None:
    async with served(tmp_path, operated_by_signals) as client:
        run = await client.submit(operated_by_signals)
        for number in range(3):
            await run.signal("number", number)
        assert await run.result(LIMIT_S) == [0, 1, 2]
        fork = await client.fork(run.run_id, "number#2")
        assert await fork.result(LIMIT_S) == [0, 1, 2]
        again = await client.fork(fork.run_id, "number#1")
        assert await again.result(LIMIT_S) == [0, 1, 2]
    assert done == {"end": 3}


async def test_what_cannot_be_forked_is_told(tmp_path: Path) -> None:
    async with served(tmp_path, operated_gate) as client:
        run_id = await paused_at_gate(client)
        with pytest.raises(UsageError, match=f"run {run_id} has no operation 'last' on record; it has work#1"):
            await client.fork(run_id, "last")
        with pytest.raises(UsageError, match="a step or a version to begin with is for forks"):
            client.bulk("pause", [run_id], step="work")
        going = client.bulk("fork", [run_id, "nobody"], step="work", version="7")
        results = [result async for result in going]
        assert [result.fork_id is None for result in results] == [False, True]
        told = await client.describe(results[0].fork_id or "")
        assert (told["status"], told["version"]) == ("queued", "7")
        assert [entry["kind"] for entry in told["journal"]] == ["forked"]


@workflow
async def operated_by_chance(ctx: WorkflowContext) -> list[list[str]]:
    chances = []
    for name in ("one", "two", "three"):
        chances.append([str(ctx.uuid4()), str(ctx.random()), ctx.now().isoformat()])
        await ctx.step(work.with_options(name=name), name)
    return chances


async def test_a_fork_has_the_chances_of_the_first_run_as_far_as_it_copied_it(tmp_path: Path) -> None:
    async with served(tmp_path, operated_by_chance) as client:
        run = await client.submit(operated_by_chance)
        first = await run.result(LIMIT_S)
        fork = await client.fork(run.run_id, "three")
        second = await fork.result(LIMIT_S)
        again = await client.fork(fork.run_id, "three")
        third = await again.result(LIMIT_S)
    assert second[:2] == first[:2] == third[:2]
    assert first[2][2] == second[2][2] == third[2][2]  # what has been learnt last is what was copied
    assert len({chances[2][0] for chances in (first, second, third)}) == 3


@workflow
async def operated_in_rounds(ctx: WorkflowContext, number: int = 1) -> str:
    await ctx.step(work, f"round {number}")
    if number < 3:
        ctx.continue_as_new({"number": number + 1})
    return await ctx.step(work, "end")


async def test_a_fork_of_a_run_that_went_on_as_new_is_in_its_last_round(tmp_path: Path) -> None:
    async with served(tmp_path, operated_in_rounds) as client:
        run = await client.submit(operated_in_rounds)
        assert await run.result(LIMIT_S) == "end"
        fork = await client.fork(run.run_id, "3/work#2")
        assert await fork.result(LIMIT_S) == "end"
        told = await fork.describe()
    assert [entry.get("op_id") for entry in told["journal"]] == ["3/work#1", None, "3/work#2"]
    assert done == {"round 1": 1, "round 2": 1, "round 3": 1, "end": 2}
