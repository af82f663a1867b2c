"""Runs replayed through other code without effects: what fits, what does not, and that nothing is done."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pyrula.workflows import RunFailed, StepFailed, SyncWorkflowContext, WorkflowContext, step
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.payloads import PLAIN
from pyrula_runtime.engine.rehearsal import Rehearsed, rehearse
from pyrula_runtime.stores.opening import open_store
from pyrula_runtime.workflows.programs import program_of
from pyrula_runtime.workflows.workflow import Workflow
from tests.workflows.serving import LIMIT_S, served, url_in

done: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def afresh() -> None:
    done.clear()


@step
def work(name: str) -> str:
    done[name] += 1
    if name == "breaks":
        raise ValueError(name)
    return name


@step
def other(name: str) -> str:
    done[f"other {name}"] += 1
    return name


async def two(ctx: WorkflowContext) -> list[str]:
    return list(await ctx.gather(ctx.step(work, "a"), ctx.step(work, "b")))


async def two_and_another(ctx: WorkflowContext) -> list[str]:
    await two(ctx)
    return list(await ctx.gather(ctx.step(other, "c"), ctx.step(other, "d")))


async def two_others(ctx: WorkflowContext) -> list[str]:
    return [await ctx.step(other, "a")]


async def two_and_a_sleep(ctx: WorkflowContext) -> None:
    await two(ctx)
    await ctx.sleep(3600)


async def two_and_a_nap(ctx: WorkflowContext) -> None:
    await two(ctx)
    await ctx.sleep(0.05)


async def breaking(ctx: WorkflowContext) -> str:
    return await ctx.step(work, "breaks")


async def mended(ctx: WorkflowContext) -> str:
    try:
        return await ctx.step(work, "breaks")
    except StepFailed:
        return await ctx.step(other, "instead")


def plain(ctx: SyncWorkflowContext) -> str:
    return ctx.step(work, "a") + str(ctx.now()) + str(ctx.uuid4())


def plain_and_another(ctx: SyncWorkflowContext) -> str:
    return ctx.step(work, "a") + ctx.step(other, "b")


def workflow_of(function: Any) -> Workflow[..., Any, Any]:
    return Workflow(function, name="rehearsed")


async def rehearsed(folder: Path, first: Any, then: Any) -> Rehearsed:
    """A run of the first function, replayed through the second."""
    async with served(folder, workflow_of(first)) as client:
        run = await client.submit(workflow_of(first))
        with contextlib.suppress(RunFailed):
            await run.result(LIMIT_S)
    done.clear()
    store = open_store(url_in(folder))
    await store.open()
    record = await store.read(run.run_id)
    assert record is not None
    journal = await store.read_journal(run.run_id, 0)
    told = await asyncio.wait_for(rehearse(record, journal, program_of(workflow_of(then)), PLAIN), LIMIT_S)
    assert await store.read(run.run_id) == record
    await store.close()
    assert not done
    if first is then:
        assert (told.record.status, told.record.result) == (record.status, record.result)
    return told


@pytest.mark.parametrize("function", [two, breaking, plain])
async def test_the_same_code_comes_to_the_same_end(tmp_path: Path, function: Any) -> None:
    told = await rehearsed(tmp_path, function, function)
    assert told.next_steps == ()


@pytest.mark.parametrize(
    ("first", "then", "op_ids"),
    [
        (two, two_and_another, ["other#1", "other#2"]),
        (breaking, mended, ["other#1"]),
        (plain, plain_and_another, ["other#1"]),
    ],
)
async def test_what_the_code_would_do_next_is_told_and_not_done(
    tmp_path: Path, first: Any, then: Any, op_ids: list[str]
) -> None:
    told = await rehearsed(tmp_path, first, then)
    assert [each.op_id for each in told.next_steps] == op_ids


@pytest.mark.parametrize("then", [two_and_a_sleep, two_and_a_nap])
async def test_code_that_would_wait_ends_the_rehearsal(tmp_path: Path, then: Any) -> None:
    assert (await rehearsed(tmp_path, two, then)).record.status is RunStatus.waiting


async def test_code_that_does_not_fit_is_found(tmp_path: Path) -> None:
    told = await rehearsed(tmp_path, two, two_others)
    assert told.record.status is RunStatus.paused
    assert b"JournalMismatch" in (told.record.error or b"")


async def test_a_journal_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    async with served(tmp_path, workflow_of(two)) as client:
        run = await client.submit(workflow_of(two))
        await run.result(LIMIT_S)
    store = open_store(url_in(tmp_path))
    await store.open()
    record = await store.read(run.run_id)
    await store.close()
    assert record is not None
    told = await rehearse(record, [b'{"k":"?","at":1,"o":"a","t":"step","m":"a"}'], program_of(workflow_of(two)), PLAIN)
    assert b"written by a newer version" in (told.record.error or b"")
