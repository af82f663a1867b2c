"""Values with an annotation: validated on both ways, and the same live and replayed."""

from __future__ import annotations

import datetime as dt
import math
import subprocess
import sys
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Literal

import orjson
import pytest
from pydantic import Field

from pyrula_runtime.core.errors import InputError, UsageError
from pyrula_runtime.forms.annotations import takes_object_whole
from pyrula_runtime.forms.form import form_of, result_form
from tests.forms.shapes import Address, Broken, Colour, Line, Modern, Node, Order, Person, Point

ORDER = Order(orderId="o", lines=[Line(sku="s", count=2)], placed=dt.datetime(2024, 1, 1, tzinfo=dt.UTC))
HOME: Address = {"street": "s", "number": 3}
VALUES: list[tuple[Any, Any]] = [
    (str, "text"),
    (str, "größe"),
    (int, 2**64 - 1),
    (float, 1.5),
    (bool, False),
    (None, None),
    (dict, {"a": [1]}),
    (dict[str, Any], {"a": None}),
    (list, [1, "a"]),
    (str | None, None),
    (list[int], [1, 2]),
    (tuple[int, str], (1, "a")),
    (set[int], {1, 2}),
    (bytes, b"abc"),
    (Decimal, Decimal("1.10")),
    (uuid.UUID, uuid.UUID(int=7)),
    (dt.datetime, dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)),
    (dt.timedelta, dt.timedelta(seconds=90)),
    (Colour, Colour.green),
    (Literal["a", 1], 1),
    (Annotated[int, Field(gt=0, examples=[1])], 4),
    (Annotated[int, ["unhashable"]], 4),
    (Order, ORDER),
    (list[Order], [ORDER]),
    (dict[str, Line | None], {"a": Line(sku="s", count=1), "b": None}),
    (Point, Point(1, Decimal("2.5"), {"t"})),
    (Address, HOME),
    (Person, {"id": uuid.UUID(int=1), "homes": [HOME, {"street": "t"}]}),
    (list[Address], [HOME]),
    (Address | None, HOME),
    (Annotated[Address, "note"], HOME),
    (Modern, {"a": 1}),
]


@pytest.mark.parametrize(("annotation", "value"), VALUES)
def test_values_come_back_as_they_were(annotation: Any, value: Any) -> None:
    form = form_of(annotation)
    tree = form.to_json(value)
    stored = orjson.loads(orjson.dumps(tree))
    assert stored == tree
    assert (form.from_json(stored), type(form.from_json(stored))) == (value, type(value))


@pytest.mark.parametrize(
    ("annotation", "value", "back"),
    [(int, "5", 5), (float, 5, 5.0), (str, Colour.red.value, "r"), (Line, {"sku": "s", "count": "3"}, None)],
)
def test_values_that_can_be_made_to_fit_are(annotation: Any, value: Any, back: Any) -> None:
    form = form_of(annotation)
    assert form.from_json(form.to_json(value)) == (back or Line(sku="s", count=3))


@pytest.mark.parametrize(
    ("annotation", "value", "reason"),
    [
        (int, "five", "valid integer"),
        (int, None, "valid integer"),
        (int, 2**64, "64-bit"),
        (float, math.nan, "nan is no JSON number"),
        (list[float], [1.0, math.inf], "inf is no JSON number"),
        (str, "\ud800", "utf-8|surrogates|unicode"),
        (None, 1, "None"),
        (Line, {"sku": 1}, r"sku: .*string, count: Field required"),
        (Broken, {"x": 1}, "LookupError: 'no 1 here'|LookupError: no 1 here"),
        (list[int], ["a", "b", "c", "d", "e", "f", "g"], "and 2 more"),
    ],
)
def test_values_that_do_not_fit_are_refused(annotation: Any, value: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        form_of(annotation).to_json(value)


def test_a_model_whose_fields_were_spoiled_is_refused() -> None:
    line = Line(sku="s", count=1)
    line.count = "many"  # type: ignore[assignment]
    with pytest.raises(InputError, match="not JSON"):
        form_of(Line).to_json(line)


@pytest.mark.parametrize(
    ("annotation", "tree", "reason"),
    [(int, "five", "valid integer"), (Order, {}, "orderId: Field required"), (Broken, {"x": 1}, "LookupError")],
)
def test_stored_values_that_do_not_fit_any_more_are_refused(annotation: Any, tree: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        form_of(annotation).from_json(tree)


class NoJson:
    pass


@pytest.mark.parametrize("annotation", [NoJson, list[NoJson]])
def test_a_type_without_a_json_form_is_a_usage_error(annotation: Any) -> None:
    with pytest.raises(UsageError, match=r"NoJson.* has no JSON form: "):
        form_of(annotation)


def test_a_recursive_typed_dict_is_told_how_to_go_on() -> None:
    if sys.version_info >= (3, 12):
        assert form_of(Node).from_json({"next": None}) == {"next": None}
        return
    with pytest.raises(UsageError, match="typing_extensions"):
        form_of(Node)


def late() -> Later:
    return Later()


def lost() -> Nowhere:  # type: ignore[name-defined]  # noqa: F821
    return None


def lost_inside() -> list[Nowhere]:  # type: ignore[name-defined]  # noqa: F821
    return []


def nonsense() -> None: ...


nonsense.__annotations__["return"] = "1 +"


class Later(Line):
    sku: str = "late"
    count: int = 1


def test_annotations_are_resolved_when_they_are_needed() -> None:
    assert result_form(late, "the result").from_json({}) == Later()


@pytest.mark.parametrize("function", [lost, lost_inside])
def test_an_annotation_that_means_nothing_is_named(function: Callable[[], Any]) -> None:
    with pytest.raises(UsageError, match=r"the result is annotated .*Nowhere.*'Nowhere' is not defined"):
        result_form(function, "the result")


def test_an_annotation_that_is_no_type_is_named() -> None:
    with pytest.raises(UsageError, match=r"the result is annotated .* which is no type"):
        result_form(nonsense, "the result")


def test_errors_begin_with_what_the_value_is() -> None:
    with pytest.raises(InputError, match=r"^the result of f\(\): Input should be a valid integer"):
        form_of(int).told_of("the result of f()").to_json("x")


@pytest.mark.parametrize(
    ("annotation", "whole"),
    [
        (Order, True),
        (Point, True),
        (Address, True),
        (Modern, True),
        (dict, True),
        (dict[str, int], True),
        (Order | None, True),
        (Order | Line, True),
        (Annotated[Order, "note"], True),
        (str, False),
        (list[Order], False),
        (Order | str, False),
        (Any, False),
        ("Order", False),
        (None, False),
    ],
)
def test_what_takes_an_object_whole(annotation: Any, *, whole: bool) -> None:
    assert takes_object_whole(annotation) is whole


def test_plain_types_do_not_import_pydantic() -> None:
    program = """
import sys
from pyrula.workflows import step, workflow, WorkflowClient, open_store
from pyrula_runtime.workflows.programs import program_of

@step
async def charge(order_id: str, amount: int) -> dict:
    return {}

@workflow
async def order(ctx, order_id: str, amount: int = 3) -> str:
    return "done"

order.check_input({"order_id": "größe"})
charge.form.to_json({"a": 1})
program_of(order).to_json("größe")
assert not {"pydantic", "pydantic_core"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
