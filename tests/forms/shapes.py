"""Types that the tests of forms use as annotations."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NotRequired, TypedDict

import typing_extensions
from pydantic import BaseModel, ConfigDict, Field, computed_field, field_validator


class Colour(enum.Enum):
    red = "r"
    green = "g"


class Line(BaseModel):
    sku: str
    count: int = Field(gt=0)


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid")

    order_id: str = Field(alias="orderId")
    lines: list[Line]
    placed: dt.datetime | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def size(self) -> int:
        return sum(line.count for line in self.lines)


class Broken(BaseModel):
    x: int

    @field_validator("x")
    @classmethod
    def break_down(cls, value: int) -> int:
        raise LookupError(f"no {value} here")


@dataclass
class Point:
    x: int
    y: Decimal
    tags: set[str] = field(default_factory=set)


class Address(TypedDict):
    street: str
    number: NotRequired[int]


class Person(TypedDict, total=False):
    id: uuid.UUID
    homes: list[Address]


class Modern(typing_extensions.TypedDict):
    a: int


class Node(TypedDict):
    next: Node | None
