"""From input to arguments, and everything that does not fit told in one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel

from pyrula.workflows import InputError, WorkflowContext
from pyrula_runtime.workflows.workflow import Workflow


class Order(BaseModel):
    order_id: str
    count: int = 1


@dataclass
class Point:
    x: int
    y: int


class Address(TypedDict):
    street: str


async def nothing(ctx: WorkflowContext) -> None: ...


async def three(ctx: WorkflowContext, order_id: str, count: int, note: str = "none") -> None: ...


async def all_defaults(ctx: WorkflowContext, order_id: str = "o", count: int = 1) -> None: ...


async def model(ctx: WorkflowContext, order: Order) -> None: ...


async def maybe_model(ctx: WorkflowContext, order: Order | None = None) -> None: ...


async def point(ctx: WorkflowContext, point: Point) -> None: ...


async def address(ctx: WorkflowContext, address: Address) -> None: ...


async def mapping(ctx: WorkflowContext, mapping: dict[str, Any]) -> None: ...


async def single(ctx: WorkflowContext, order_id: str) -> None: ...


async def several(ctx: WorkflowContext, orders: list[Order]) -> None: ...


async def bare(ctx, anything):  # type: ignore[no-untyped-def]  # noqa: ANN001
    ...


async def positional(ctx: WorkflowContext, first: int, /, second: int, *, third: int = 3) -> None: ...


def filled(function: Any, given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    arguments = Workflow(function).binding.fill(given)
    return arguments.args, arguments.kwargs


@pytest.mark.parametrize(
    ("function", "given", "kwargs"),
    [
        (nothing, None, {}),
        (nothing, {}, {}),
        (three, {"order_id": "o", "count": "2"}, {"order_id": "o", "count": 2, "note": "none"}),
        (three, {"note": "n", "count": 1, "order_id": "o"}, {"order_id": "o", "count": 1, "note": "n"}),
        (all_defaults, None, {"order_id": "o", "count": 1}),
        (model, {"order_id": "o"}, {"order": Order(order_id="o")}),
        (maybe_model, None, {"order": None}),
        (maybe_model, {"order_id": "o"}, {"order": Order(order_id="o")}),
        (point, {"x": 1, "y": 2}, {"point": Point(1, 2)}),
        (address, {"street": "s"}, {"address": {"street": "s"}}),
        (mapping, {"mapping": 1}, {"mapping": {"mapping": 1}}),
        (single, "o", {"order_id": "o"}),
        (single, {"order_id": "o"}, {"order_id": "o"}),
        (several, [{"order_id": "o"}], {"orders": [Order(order_id="o")]}),
        (bare, [1], {"anything": [1]}),
        (bare, {"anything": {"a": 1}}, {"anything": {"a": 1}}),
    ],
)
def test_inputs_fill_parameters(function: Any, given: Any, kwargs: dict[str, Any]) -> None:
    assert filled(function, given) == ((), kwargs)


def test_positional_parameters_are_filled_by_name_too() -> None:
    assert filled(positional, {"second": 2, "first": 1}) == ((1,), {"second": 2, "third": 3})


@pytest.mark.parametrize(
    ("function", "given", "reason"),
    [
        (nothing, 3, "it takes no input, and was given a number"),
        (nothing, {"a": 1}, "there is no parameter 'a' (it takes no input)"),
        (three, None, "it takes an object with 'order_id', 'count', 'note', and was given nothing"),
        (three, [1], "it takes an object with 'order_id', 'count', 'note', and was given an array"),
        (
            three,
            {"orderid": "o", "count": "many", "zzz": 1},
            "there is no parameter 'orderid' (did you mean 'order_id'?); there is no parameter 'zzz' (it takes "
            "'order_id', 'count', 'note'); parameter 'order_id' is missing; parameter 'count': Input should be a valid "
            "integer, unable to parse string as an integer",
        ),
        (model, {"count": "x"}, "parameter 'order': order_id: Field required, count: Input should be a valid integer"),
        (model, "o", "parameter 'order': Input should be an object"),
        (model, None, "parameter 'order': Input should be an object"),
        (single, None, "parameter 'order_id': Input should be a valid string"),
        (single, {}, "parameter 'order_id' is missing"),
        (several, {"orders": 1}, "parameter 'orders': Input should be a valid array"),
    ],
)
def test_what_does_not_fit_is_told_in_one_sentence(function: Any, given: Any, reason: str) -> None:
    with pytest.raises(InputError) as refused:
        filled(function, given)
    assert str(refused.value).startswith(f"the input does not fit workflow {function.__name__!r}: {reason}")
