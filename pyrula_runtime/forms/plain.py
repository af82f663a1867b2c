"""Values without an annotation as JSON: what JSON has goes through as it is, the rest as pydantic would write it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum
from typing import Any

import orjson

from pyrula_runtime.core.entries import Json
from pyrula_runtime.core.errors import InputError

# only the types of JSON itself: everything else is written by one hand, pydantic's, whatever the place
_STRICT = orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME


def plain_json(value: Any) -> Json:
    """The value as a JSON tree that shares nothing with it; InputError says what JSON cannot hold."""
    try:
        raw = orjson.dumps(value, option=_STRICT)
    except orjson.JSONEncodeError:
        value, raw = _by_pydantic(value)
    if b"null" in raw and (number := _not_a_number(value)) is not None:
        raise InputError(f"{number} is no JSON number; use None or text in its place")
    tree: Json = orjson.loads(raw)
    return tree


def _by_pydantic(value: Any) -> tuple[Any, bytes]:
    from pydantic_core import to_jsonable_python

    try:
        tree = to_jsonable_python(value)
        return tree, orjson.dumps(tree)
    except (ValueError, TypeError, RecursionError) as error:  # pydantic's and orjson's errors are such
        raise InputError(f"not JSON: {error}") from error


def _not_a_number(value: Any) -> float | None:
    """The first NaN or infinity in it: orjson would write it as null."""
    if isinstance(value, Enum):
        return _not_a_number(value.value)
    if isinstance(value, float):
        return None if math.isfinite(value) else value
    parts: Iterable[Any] = ()
    if isinstance(value, dict):
        parts = value.values()
    elif isinstance(value, list | tuple):
        parts = value
    return next((found for part in parts if (found := _not_a_number(part)) is not None), None)
