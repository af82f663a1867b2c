"""Fakes: what stands in for a step gets its arguments, keeps its policy, and is told apart by function or by name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from pyrula.testing import Simulation, attempts
from pyrula.workflows import (
    Retry,
    RunFailed,
    StepFailed,
    SyncWorkflowContext,
    UsageError,
    WorkflowContext,
    current_step,
    step,
    workflow,
)


class Receipt(BaseModel):
    number: int


@step(retry=Retry(attempts=3, initial_s=60, never_for=(PermissionError,)))
def charge(customer: str, cents: int) -> Receipt:
    raise AssertionError("the real step is not to be performed")


@step
async def mail(customer: str) -> None:
    raise AssertionError("the real step is not to be performed")


class Shop:
    """A step may be a method."""

    def __init__(self, place: str) -> None:
        self.place = place

    @step
    def pack(self, item: str) -> str:
        return f"{item} from {self.place}"


shops = [Shop("here"), Shop("there")]


@workflow
async def faked_sale(ctx: WorkflowContext, customer: str) -> int:
    receipt = await ctx.step(charge, customer, cents=500)
    await ctx.step(mail, customer)
    return receipt.number


@workflow
def faked_sale_in_thread(ctx: SyncWorkflowContext, customer: str) -> int:
    receipt = ctx.step(charge, customer, cents=500)
    ctx.step(mail, customer)
    return receipt.number


@workflow
async def faked_variants(ctx: WorkflowContext) -> list[Any]:
    return [
        await ctx.step(charge.with_options(name="charge_again", retry=1), "Ada", 1),
        await ctx.step(shops[0].pack, "lamp"),
        await ctx.step(shops[1].pack, "lamp"),
        await ctx.step(len, "four"),
    ]


@workflow
async def faked_bad_call(ctx: WorkflowContext) -> None:
    await ctx.step(mail, "Ada", "Grace")  # type: ignore[call-overload]


FLOWS = pytest.mark.parametrize("flow", [faked_sale, faked_sale_in_thread])


def called(customer: str, cents: int) -> Receipt:
    return Receipt(number=cents)


async def called_async(customer: str, cents: int) -> Receipt:
    await asyncio.sleep(3600)
    return Receipt(number=cents + len(current_step().idempotency_key))


@FLOWS
@pytest.mark.parametrize(
    ("fake", "number"),
    [
        (Receipt(number=7), 7),
        ({"number": 8}, 8),
        (called, 500),
        (called_async, 500 + len("01HK153X00BQJK1QJ0BNTCZ0ER:charge#1")),
        (attempts(ConnectionError("no answer"), TimeoutError, Receipt(number=9)), 9),
        (attempts(ConnectionError, called), 500),
    ],
)
def test_what_can_stand_in_for_a_step(flow: Any, fake: Any, number: int) -> None:
    with Simulation(fakes={charge: fake, mail: None}) as simulation:
        run = simulation.run(flow, "Ada")
        assert run.result() == number
        assert [each.args for each in run.attempts if each.step == "mail"] == [("Ada",)]


@FLOWS
def test_a_fake_may_fail_as_often_as_the_step_is_tried(flow: Any) -> None:
    with Simulation(fakes={charge: ConnectionError("no answer")}) as simulation:
        run = simulation.run(flow, "Ada")
        with pytest.raises(RunFailed, match="no answer"):
            run.result()
        assert [(each.number, each.args, each.kwargs) for each in run.attempts] == [
            (number, ("Ada",), {"cents": 500}) for number in (1, 2, 3)
        ]


def test_the_policy_of_the_step_holds_for_its_fake() -> None:
    with Simulation(fakes={charge: PermissionError}) as simulation:
        run = simulation.run(faked_sale, "Ada")
        assert run.steps == ["charge"]
        assert run.error is not None
        assert run.error.type == StepFailed.__name__


def test_a_fake_that_does_not_fit_the_steps_annotation_fails_it() -> None:
    with Simulation(fakes={charge: {"no": "receipt"}}) as simulation:
        run = simulation.run(faked_sale, "Ada")
        assert run.error is not None
        assert "charge" in run.error.message


def test_a_call_that_does_not_fit_the_function_fails_although_it_is_faked() -> None:
    with Simulation(fakes={mail: None}) as simulation:
        run = simulation.run(faked_bad_call)
        assert run.error is not None
        assert "too many positional arguments" in run.error.message


def test_variants_of_a_step_are_faked_with_it_and_others_are_not() -> None:
    with Simulation(fakes={charge: Receipt(number=1), Shop.pack: "a parcel", len: 5}) as simulation:
        assert simulation.run(faked_variants).result() == [{"number": 1}, "a parcel", "a parcel", 5]
    with Simulation(fakes={"charge_again": Receipt(number=2)}) as simulation:
        assert simulation.run(faked_variants).result() == [{"number": 2}, "lamp from here", "lamp from there", 4]


def test_a_step_can_be_faked_otherwise_on_the_way() -> None:
    with Simulation(fakes={charge: ConnectionError, mail: None}) as simulation:
        run = simulation.start(faked_sale, "Ada")
        simulation.fake(charge, Receipt(number=3))
        assert run.result() == 3
        assert run.steps == ["charge", "charge", "mail"]


def test_what_is_no_step_cannot_be_faked() -> None:
    with pytest.raises(UsageError, match="by function or name, not for 7"):
        Simulation(fakes={7: None})
    with pytest.raises(UsageError, match="needs the outcome"):
        attempts()
