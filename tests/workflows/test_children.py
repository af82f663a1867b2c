"""Workflows that start others and go on as new, run by a real worker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pyrula.workflows import (
    ChildFailed,
    InputError,
    RunFailed,
    RunHandle,
    RunStatus,
    SyncWorkflowContext,
    UsageError,
    WorkflowClient,
    WorkflowContext,
    open_store,
    step,
    workflow,
)
from pyrula_runtime.stores.protocol import RunQuery, RunRecord
from tests.store.samples import until
from tests.workflows import serving
from tests.workflows.serving import LIMIT_S, has_come_to, served, url_in, worker_in

_undone: list[str] = []


@pytest.fixture(params=["lane", "turn"], autouse=True)
def isolation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything here is true wherever turns run."""
    monkeypatch.setattr(serving, "ISOLATION", request.param)
    _undone.clear()


@step
def undo(what: str) -> None:
    _undone.append(what)


@workflow
async def doubled(ctx: WorkflowContext, number: int) -> int:
    if number < 0:
        raise ValueError(f"{number} is below 0")
    await ctx.sleep(0.001)
    return 2 * number


@workflow
async def awaits_go(ctx: WorkflowContext, name: str) -> str:
    try:
        return str(await ctx.wait_signal("go"))
    except asyncio.CancelledError:
        await ctx.step(undo, name)
        raise


@workflow
async def has_children(ctx: WorkflowContext) -> list[Any]:
    told: list[Any] = [await ctx.child(doubled, 3), await ctx.child("doubled", {"number": 4})]
    try:
        await ctx.child(doubled, -1)
    except ChildFailed as failed:
        told.append([failed.workflow, failed.status, failed.error.message, failed.matches(ValueError)])
    first, second = ctx.start_child(awaits_go, "first"), ctx.start_child(awaits_go, "second")
    await first.signal("go", 7)
    await second.cancel()
    told.append(await first.result())
    try:
        await second.result()
    except ChildFailed as failed:
        told.append(failed.status)
    return told


@workflow
def plainly_has_children(ctx: SyncWorkflowContext) -> list[Any]:
    told: list[Any] = [ctx.child(doubled, 3), ctx.child("doubled", {"number": 4})]
    try:
        ctx.child(doubled, -1)
    except ChildFailed as failed:
        told.append([failed.workflow, failed.status, failed.error.message, failed.matches(ValueError)])
    first, second = ctx.start_child(awaits_go, "first"), ctx.start_child(awaits_go, "second")
    first.signal("go", 7)
    second.cancel()
    told.append(first.result())
    try:
        second.result()
    except ChildFailed as failed:
        told.append(failed.status)
    return told


@pytest.mark.parametrize("flow", [has_children, plainly_has_children])
async def test_children_give_their_results_and_their_failures_and_can_be_told_things(flow: Any, tmp_path: Path) -> None:
    async with served(tmp_path, flow, doubled, awaits_go) as client:
        run = await client.submit(flow, None)
        told = [6, 8, ["doubled", "failed", "-1 is below 0", True], "7", "cancelled"]
        assert await run.result(LIMIT_S) == told
    assert _undone in ([], ["second"])  # it may have been cancelled before it began


@workflow
async def fans_out(ctx: WorkflowContext, width: int) -> int:
    return sum(await ctx.gather(*(ctx.child(doubled, number) for number in range(width))))


@workflow
def plainly_fans_out(ctx: SyncWorkflowContext, width: int) -> int:
    return sum(ctx.gather(*(partial(ctx.child, doubled, number) for number in range(width))))


@pytest.mark.parametrize(("flow", "width"), [(fans_out, 1_000), (plainly_fans_out, 20)])
async def test_a_run_can_have_many_children(flow: Any, width: int, tmp_path: Path) -> None:
    async with served(tmp_path, flow, doubled) as client:
        assert await (await client.submit(flow, width)).result(3 * LIMIT_S) == width * (width - 1)


@workflow
async def grandparent(ctx: WorkflowContext) -> None:
    await ctx.child(parent_of_two, None)


@workflow
async def parent_of_two(ctx: WorkflowContext) -> None:
    await ctx.gather(ctx.child(awaits_go, "cancelled"), ctx.child(awaits_go, "abandoned", on_end="abandon"))


async def children_of(folder: Path, run_id: str) -> Sequence[RunRecord]:
    """The runs that this one has started, the oldest first."""
    store = open_store(url_in(folder))
    await store.open()
    found = await store.find(RunQuery(parent=run_id))
    await store.close()
    return found[::-1]


async def descendants(folder: Path, run_id: str) -> dict[str, str]:
    """The statuses of all runs below this one, by their input or workflow; several of one name with a plus."""
    found: dict[str, list[str]] = {}
    below = [run_id]
    while below:
        children = await children_of(folder, below.pop())
        below += [each.run_id for each in children]
        for each in children:
            name = each.input.decode() if each.workflow == awaits_go.name else each.workflow
            found.setdefault(name, []).append(each.status)
    return {name: "+".join(sorted(statuses)) for name, statuses in found.items()}


async def come_to(folder: Path, run: RunHandle[Any], statuses: dict[str, str]) -> None:
    """Return when the runs below stand so."""

    async def are_there() -> bool:
        return await descendants(folder, run.run_id) == statuses

    await asyncio.wait_for(until(are_there), LIMIT_S)


WAITING = {"parent_of_two": "waiting", '"cancelled"': "waiting", '"abandoned"': "waiting"}


async def test_a_cancel_goes_down_the_tree_and_each_level_unwinds_itself(tmp_path: Path) -> None:
    async with served(tmp_path, grandparent, parent_of_two, awaits_go) as client:
        run = await client.submit(grandparent, None)
        await come_to(tmp_path, run, WAITING)
        await run.cancel()
        await has_come_to(run, RunStatus.cancelled)
        ended = {"parent_of_two": "cancelled", '"cancelled"': "cancelled", '"abandoned"': "waiting"}
        await come_to(tmp_path, run, ended)
    assert _undone == ["cancelled"]


@workflow
async def leaves_early(ctx: WorkflowContext) -> str:
    ctx.start_child(awaits_go, "cancelled")
    ctx.start_child(awaits_go, "abandoned", on_end="abandon")
    await ctx.sleep(0.3)
    return "left"


async def test_when_a_run_ends_its_children_end_or_go_on_as_was_said(tmp_path: Path) -> None:
    async with served(tmp_path, leaves_early, awaits_go) as client:
        run = await client.submit(leaves_early, None)
        assert await run.result(LIMIT_S) == "left"
        await come_to(tmp_path, run, {'"cancelled"': "cancelled", '"abandoned"': "waiting"})


@workflow
async def waits_for_nobody(ctx: WorkflowContext) -> str:
    try:
        await ctx.child("served_by_nobody", None)
    except ChildFailed as failed:
        return failed.status
    return ""


async def only_child(client: WorkflowClient, workflow: str) -> str:
    """The id of the only run of this workflow."""

    async def is_there() -> bool:
        return len(await client.list(workflow)) == 1

    await asyncio.wait_for(until(is_there), LIMIT_S)
    (run,) = await client.list(workflow)
    return run.run_id


async def test_a_child_that_a_person_drops_tells_its_parent(tmp_path: Path) -> None:
    async with served(tmp_path, waits_for_nobody) as client:
        run = await client.submit(waits_for_nobody, None)
        await client.cancel(await only_child(client, "served_by_nobody"))
        assert await run.result(LIMIT_S) == "cancelled"


async def test_the_children_of_a_run_that_a_person_drops_in_its_pause_end_with_it(tmp_path: Path) -> None:
    async with served(tmp_path, grandparent, parent_of_two, awaits_go) as client:
        run = await client.submit(grandparent, None)
        await come_to(tmp_path, run, WAITING)
        await client.pause(run.run_id)
        await client.cancel(run.run_id)
        ended = {"parent_of_two": "cancelled", '"cancelled"': "cancelled", '"abandoned"': "waiting"}
        await come_to(tmp_path, run, ended)


@step
def wait_for_luck(folder: str) -> str:
    return Path(folder, "luck").read_text()  # not there at first


@workflow
async def has_bad_luck(ctx: WorkflowContext, folder: str) -> list[str]:
    bound = ctx.start_child(awaits_go, "bound")
    free = ctx.start_child(awaits_go, "free", on_end="abandon")
    first = await ctx.child(awaits_go, "first")
    luck = await ctx.step(wait_for_luck, folder)
    return [first, luck, await bound.result(), await free.result()]


async def test_a_run_that_is_requeued_hears_of_its_children_whatever_became_of_them(tmp_path: Path) -> None:
    async with served(tmp_path, has_bad_luck, awaits_go) as client:
        run = await client.submit(has_bad_luck, str(tmp_path))
        await come_to(tmp_path, run, dict.fromkeys(('"bound"', '"free"', '"first"'), "waiting"))
        children = {each.input.decode(): each.run_id for each in await children_of(tmp_path, run.run_id)}
        await client.signal(children['"first"'], "go", 1)
        await has_come_to(run, RunStatus.failed)
        await come_to(tmp_path, run, {'"bound"': "cancelled", '"free"': "waiting", '"first"': "completed"})
        await client.signal(children['"free"'], "go", 2)
        free = client.handle(awaits_go, children['"free"'])
        assert await free.result(LIMIT_S) == "2"
        (tmp_path / "luck").write_text("good")
        await client.requeue(run.run_id)
        anew = {'"bound"': "cancelled+waiting", '"free"': "completed", '"first"': "completed"}
        await come_to(tmp_path, run, anew)
        for each in await children_of(tmp_path, run.run_id):
            if each.status is RunStatus.waiting:
                await client.signal(each.run_id, "go", 3)
        assert await run.result(LIMIT_S) == ["1", "good", "3", "2"]


@workflow
async def misuses_children(ctx: WorkflowContext) -> list[str]:
    told = []
    wrong: Sequence[Any] = (("doubled", 1, "never"), (doubled, "two", "cancel"), (doubled.function, 1, "cancel"))
    for flow, given, on_end in wrong:
        with pytest.raises((UsageError, InputError)) as raised:
            await ctx.child(flow, given, on_end=on_end)
        told.append(str(raised.value))
    return told


async def test_what_cannot_be_a_child_is_refused_in_a_sentence(tmp_path: Path) -> None:
    async with served(tmp_path, misuses_children) as client:
        told = await (await client.submit(misuses_children, None)).result(LIMIT_S)
    assert told[0] == "on_end='never' must be 'cancel' or 'abandon'"
    assert told[1].startswith("the input does not fit workflow 'doubled': ")
    assert "is no workflow: decorate it" in told[2]


@workflow
async def counts_down(ctx: WorkflowContext, left: int, seen: list[str]) -> list[str]:
    seen.append(str(await ctx.wait_signal("next")))
    if left:
        ctx.continue_as_new({"left": left - 1, "seen": seen})
    return seen


@workflow
def plainly_counts_down(ctx: SyncWorkflowContext, left: int, seen: list[str]) -> list[str]:
    seen.append(str(ctx.wait_signal("next")))
    if left:
        ctx.continue_as_new({"left": left - 1, "seen": seen})
    return seen


@pytest.mark.parametrize("flow", [counts_down, plainly_counts_down])
async def test_a_run_goes_on_as_new_with_its_id_and_the_signals_it_has_not_taken(flow: Any, tmp_path: Path) -> None:
    async with served(tmp_path, flow) as client:
        run = await client.submit(flow, {"left": 2, "seen": []})
        for word in ("a", "b", "c"):
            await run.signal("next", word)
        assert await run.result(LIMIT_S) == ["a", "b", "c"]
        journal = (await run.describe())["journal"]
    assert [entry["op_id"] for entry in journal] == ["3/next#1"]


@workflow
async def goes_on_in_a_task(ctx: WorkflowContext) -> None:
    async def other() -> None:
        ctx.continue_as_new(None)

    await asyncio.gather(other())


async def test_only_the_workflow_itself_can_go_on_as_new(tmp_path: Path) -> None:
    async with served(tmp_path, goes_on_in_a_task) as client:
        run = await client.submit(goes_on_in_a_task, None)
        with pytest.raises(RunFailed, match="must be called by the workflow's function itself"):
            await run.result(LIMIT_S)


async def test_a_parent_waits_for_its_child_through_a_change_of_workers(tmp_path: Path) -> None:
    async with WorkflowClient(open_store(url_in(tmp_path))) as client:
        async with worker_in(tmp_path, waits_for_child):
            run = await client.submit(waits_for_child, None)
            child = client.handle(awaits_go, await only_child(client, "awaits_go"))
            await has_come_to(run, RunStatus.waiting)
        async with worker_in(tmp_path, awaits_go):
            await child.signal("go", "home")
            assert await child.result(LIMIT_S) == "home"
        async with worker_in(tmp_path, waits_for_child):
            assert await run.result(LIMIT_S) == "home"


@workflow
async def waits_for_child(ctx: WorkflowContext) -> str:
    return await ctx.child(awaits_go, "x")
