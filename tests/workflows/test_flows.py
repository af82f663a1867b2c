"""Workflows as users write them, run by a real worker and watched through a client."""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from pyrula.workflows import (
    InputError,
    Retry,
    RunFailed,
    RunStatus,
    StepFailed,
    StepTimeout,
    SyncWorkflowContext,
    UsageError,
    WorkflowContext,
    current_step,
    step,
    workflow,
)
from tests.workflows import serving
from tests.workflows.serving import LIMIT_S, served


@pytest.fixture(params=["lane", "turn"], autouse=True)
def isolation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything here is true wherever turns run."""
    monkeypatch.setattr(serving, "ISOLATION", request.param)


class Line(BaseModel):
    sku: str
    count: int


@dataclass
class Receipt:
    total: int
    at: dt.datetime


@step
async def price(line: Line) -> int:
    return line.count * 10


@step(name="take money", retry=3, timeout=5)
def charge(total: int, *, currency: str) -> Receipt:
    return Receipt(total=total, at=dt.datetime(2024, 1, 1, tzinfo=dt.UTC))


def thank(currency: str) -> str:
    return f"paid in {currency}"


@workflow
async def order(ctx: WorkflowContext, lines: list[Line], currency: str = "EUR") -> tuple[Receipt, str]:
    prices = await ctx.gather(*(ctx.step(price, line) for line in lines))
    receipt = await ctx.step(charge, sum(prices), currency=currency)
    assert isinstance(receipt, Receipt)
    return receipt, await ctx.step(thank, currency)


@workflow
def plain_order(ctx: SyncWorkflowContext, lines: list[Line]) -> Receipt:
    prices = ctx.gather(*(functools.partial(price, line) for line in lines))
    assert ctx.gather(functools.partial(thank, "a"), functools.partial(thank, currency="b")) == [
        "paid in a",
        "paid in b",
    ]
    return ctx.step(charge, sum(prices), currency="EUR")


LINES = [{"sku": "a", "count": 1}, {"sku": "b", "count": 2}]
RECEIPT = Receipt(total=30, at=dt.datetime(2024, 1, 1, tzinfo=dt.UTC))


async def test_an_async_workflow_gets_typed_values_and_gives_one(tmp_path: Path) -> None:
    async with served(tmp_path, order) as client:
        run = await client.submit(order, {"lines": [Line(sku="a", count=1), *LINES[1:]]})
        receipt, thanks = await run.result(LIMIT_S)
        assert (receipt, thanks) == (RECEIPT, "paid in EUR")
        told = await run.describe()
    assert [entry["op_id"] for entry in told["journal"]] == ["price#1", "price#2", "take money#1", "thank#1"]
    assert told["result"] == [{"total": 30, "at": "2024-01-01T00:00:00Z"}, "paid in EUR"]


async def test_a_plain_workflow_does_the_same_in_its_thread(tmp_path: Path) -> None:
    async with served(tmp_path, plain_order) as client:
        run = await client.submit(plain_order, LINES)
        assert await run.result(LIMIT_S) == RECEIPT


def test_steps_and_workflows_called_directly_are_plain_calls() -> None:
    assert charge(3, currency="EUR").total == 3
    assert asyncio.run(price(Line(sku="s", count=4))) == 40
    context: Any = None
    with pytest.raises(AttributeError):
        plain_order(context, [])


@workflow
async def curious(ctx: WorkflowContext) -> dict[str, Any]:
    first, second = ctx.now(), ctx.now()
    ids = [ctx.uuid4(), ctx.uuid4()]
    chances = [ctx.random(), ctx.random()]
    assert first == second
    assert first.utcoffset() == dt.timedelta(0)
    assert ids[0] != ids[1]
    assert chances[0] != chances[1]
    assert all(0 <= chance < 1 for chance in chances)
    keys = await ctx.step(keys_of, ctx)
    return {"run": ctx.run_id, "name": ctx.workflow, "ids": ids, "keys": keys, "own": ctx.idempotency_key}


def keys_of(ctx: WorkflowContext) -> list[str]:
    whose = current_step()
    return [ctx.idempotency_key, whose.idempotency_key, f"{whose.step} {whose.attempt} {whose.workflow}"]


async def test_what_the_context_knows(tmp_path: Path) -> None:
    async with served(tmp_path, curious) as client:
        run = await client.submit(curious)
        told = await run.result(LIMIT_S)
    key = f"{run.run_id}:keys_of#1"
    assert told["run"] == told["own"] == run.run_id
    assert told["name"] == "curious"
    assert told["keys"] == [key, key, "keys_of 1 curious"]
    assert all(uuid.UUID(each).version == 4 for each in told["ids"])


async def test_operations_outside_the_body_are_refused_in_both_kinds_of_workflows(tmp_path: Path) -> None:
    @workflow
    async def strays(ctx: WorkflowContext, operation: str) -> None:
        def careless() -> None:
            ctx.step(thank, "x") if operation == "step" else ctx.random()

        await ctx.step(careless)

    @workflow
    def plain_leaks(ctx: SyncWorkflowContext, operation: str) -> None:
        def careless() -> None:
            ctx.step(thank, "x") if operation == "step" else ctx.random()

        ctx.step(careless)

    async with served(tmp_path, strays, plain_leaks) as client:
        for leaky in (strays, plain_leaks):
            for operation in ("step", "random"):
                run = await client.submit(leaky, operation)
                with pytest.raises(RunFailed, match="UsageError: a durable operation was called outside the workflow"):
                    await run.result(timeout=LIMIT_S)


def test_there_is_no_current_step_outside_of_steps() -> None:
    with pytest.raises(UsageError, match="outside of a step"):
        current_step()


class Flaky:
    """Fails until it is asked often enough; its methods are steps."""

    def __init__(self) -> None:
        self.calls = 0

    @step(retry=Retry(attempts=3, initial_s=0.001))
    async def third_time(self) -> str:
        self.calls += 1
        if self.calls < 3:
            raise ConnectionError("not yet")
        return "at last"


flaky = Flaky()


@workflow
async def patient(ctx: WorkflowContext) -> str:
    return await ctx.step(flaky.third_time)


async def test_a_step_is_tried_again(tmp_path: Path) -> None:
    flaky.calls = 0
    async with served(tmp_path, patient) as client:
        run = await client.submit(patient)
        assert await run.result(LIMIT_S) == "at last"
        kinds = [(entry["kind"], entry.get("attempt")) for entry in (await run.describe())["journal"]]
    assert kinds == [("attempt_failed", 1), ("attempt_failed", 2), ("completed", None)]


def boom() -> None:
    raise ValueError("no")


async def wrong() -> int:
    return "five"  # type: ignore[return-value]


async def forever() -> None:
    await asyncio.Event().wait()


@workflow
async def careful(ctx: WorkflowContext) -> list[str]:
    told = []
    for function in (step(boom), step(wrong), step(timeout=0.01)(forever)):
        try:
            await ctx.step(function)
        except StepFailed as failed:
            known = failed.matches(ValueError, InputError, StepTimeout)
            told.append(f"{type(failed).__name__} {failed.step} {failed.error.type} {known}")
    outcomes = await ctx.gather(ctx.step(boom), ctx.step(thank, "a"), return_exceptions=True)
    return [*told, *(type(outcome).__name__ for outcome in outcomes)]


async def test_failures_reach_the_body_with_what_is_stored(tmp_path: Path) -> None:
    async with served(tmp_path, careful) as client:
        assert await (await client.submit(careful)).result(LIMIT_S) == [
            "StepFailed boom ValueError True",
            "StepFailed wrong InputError True",
            "StepTimeout forever StepTimeout True",
            "StepFailed",
            "str",
        ]


@workflow
async def broken(ctx: WorkflowContext) -> None:
    await ctx.step(boom)


@workflow
async def endless(ctx: WorkflowContext) -> None:
    await ctx.step(forever)


@workflow(timeout=0.05)
async def limited(ctx: WorkflowContext) -> None:
    await ctx.step(forever)


@workflow
async def badly_typed(ctx: WorkflowContext) -> int:
    return "five"  # type: ignore[return-value]


@workflow
async def asks_a_lambda(ctx: WorkflowContext) -> int:
    return await ctx.step(lambda: 1)


@workflow
async def asks_a_workflow(ctx: WorkflowContext) -> Any:
    return await ctx.step(broken, ctx)


@workflow
async def asks_a_call(ctx: WorkflowContext) -> Any:
    return await ctx.step(price(Line(sku="s", count=1)))  # type: ignore[call-overload]


@workflow
def gathers_calls(ctx: SyncWorkflowContext) -> Any:
    return ctx.gather(thank("a"))  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("flow", "error", "message"),
    [
        (broken, "StepFailed", "step 'boom' failed: ValueError: no"),
        (limited, "RunTimeout", "longer than its timeout of 0.05 s"),
        (badly_typed, "InputError", "the result of workflow 'badly_typed': Input should be a valid integer"),
        (asks_a_lambda, "UsageError", "needs a function with a name"),
        (asks_a_workflow, "UsageError", "a workflow is submitted by a client"),
        (asks_a_call, "UsageError", r"ctx.step\(price, ...\)"),
        (gathers_calls, "UsageError", r"functools.partial\(function, arguments...\)"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
async def test_runs_fail_with_a_sentence(tmp_path: Path, flow: Any, error: str, message: str) -> None:
    async with served(tmp_path, flow) as client:
        run = await client.submit(flow)
        with pytest.raises(RunFailed, match=message) as failed:
            await run.result(LIMIT_S)
        assert failed.value.error is not None
        assert failed.value.error.type == error
        assert await run.status() is RunStatus.failed


async def test_input_that_does_not_fit_fails_a_run_that_was_submitted_by_name(tmp_path: Path) -> None:
    async with served(tmp_path, order) as client:
        run = await client.submit("order", {"line": []})
        with pytest.raises(RunFailed, match=r"parameter 'line' \(did you mean 'lines'\?\)"):
            await run.result(LIMIT_S)


side_by_side = threading.Barrier(2, timeout=LIMIT_S)


def meet() -> None:
    side_by_side.wait()


@workflow
async def branching(ctx: WorkflowContext) -> list[str]:
    async def branch(name: str) -> str:
        await ctx.step(meet)
        return await ctx.step(thank, name)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(branch(name)) for name in "ab"]
    return [task.result() for task in tasks]


async def test_tasks_of_a_body_are_branches(tmp_path: Path) -> None:
    async with served(tmp_path, branching) as client:
        run = await client.submit(branching)
        assert await run.result(LIMIT_S) == ["paid in a", "paid in b"]
        ids = {entry["op_id"] for entry in (await run.describe())["journal"]}
    path = "branching.<locals>.branch()"
    assert ids == {f"{path}#{number}/{name}#1" for number in (1, 2) for name in ("meet", "thank")}


@workflow
async def dozes(ctx: WorkflowContext) -> None:
    await asyncio.sleep(1)


@workflow
async def steps_in_a_step(ctx: WorkflowContext) -> None:
    async def inner() -> None:
        await ctx.step(thank, "a")

    await ctx.step(inner)


@pytest.mark.parametrize(("flow", "hint"), [(dozes, "would not survive a replay"), (steps_in_a_step, "in the body")])
async def test_what_would_break_a_replay_is_refused(tmp_path: Path, flow: Any, hint: str) -> None:
    async with served(tmp_path, flow) as client:
        with pytest.raises(RunFailed, match=hint):
            await (await client.submit(flow)).result(LIMIT_S)
