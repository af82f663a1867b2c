"""A form: the pair of functions that an annotation comes down to, with short ways for the types of JSON itself.

The short way looks at the exact type and gives the value through; whatever surprises it takes the long way through
pydantic, which converts what may be converted and words the refusal of the rest.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from math import isfinite
from typing import Any

from pyrula_runtime.core.entries import Json
from pyrula_runtime.core.errors import InputError
from pyrula_runtime.forms.annotations import resolved
from pyrula_runtime.forms.plain import plain_json
from pyrula_runtime.forms.typed import Adapted

_MISSED: Any = object()  # what a short way answers if it does not fit


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How values of one annotation become JSON (`to_json`) and come back (`from_json`); both raise InputError."""

    to_json: Callable[[Any], Json]
    from_json: Callable[[Json], Any]

    def told_of(self, what: str) -> Form:
        """The same form, whose errors begin with what the value is."""
        return Form(to_json=partial(_telling, what, self.to_json), from_json=partial(_telling, what, self.from_json))


def _telling(what: str, convert: Callable[[Any], Any], value: Any) -> Any:
    try:
        return convert(value)
    except InputError as error:
        raise InputError(f"{what}: {error}") from error.__cause__


def _same(tree: Json) -> Json:
    return tree


ANY = Form(to_json=plain_json, from_json=_same)


@lru_cache(maxsize=1024)
def _form_of_hashable(annotation: Any) -> Form:
    if annotation in (Any, object, inspect.Parameter.empty):
        return ANY
    if annotation in _SHORT:
        short = _Short(annotation, *_SHORT[annotation])
        return Form(to_json=short.to_json, from_json=short.from_json)
    adapted = Adapted(annotation)
    return Form(to_json=adapted.to_json, from_json=adapted.from_json)


def form_of(annotation: Any) -> Form:
    """The form of a resolved annotation; UsageError if it can have none."""
    try:
        return _form_of_hashable(annotation)
    except TypeError:  # Annotated with something unhashable, such as a list of examples
        adapted = Adapted(annotation)
        return Form(to_json=adapted.to_json, from_json=adapted.from_json)


def result_form(function: Callable[..., Any], what: str) -> Form:
    """The form of what a function returns; UsageError names `what` if its annotation means nothing."""
    annotation = return_annotation(function)
    if annotation is inspect.Parameter.empty:
        return ANY.told_of(what)
    return form_of(resolved(function, annotation, what)).told_of(what)


def return_annotation(function: Callable[..., Any]) -> Any:
    """The annotation as written, or `inspect.Parameter.empty`."""
    try:
        return inspect.signature(function).return_annotation
    except (ValueError, TypeError):  # built-in functions may have no signature
        return inspect.Parameter.empty


class _Short:
    """A type of JSON itself: `write` and `read` give the value through or answer _MISSED."""

    def __init__(self, annotation: Any, write: Callable[[Any], Any], read: Callable[[Any], Any]) -> None:
        self._annotation = annotation
        self._write = write
        self._read = read

    @cached_property
    def _long(self) -> Adapted:
        return Adapted(self._annotation)

    def to_json(self, value: Any) -> Json:
        short: Json = self._write(value)
        return self._long.to_json(value) if short is _MISSED else short

    def from_json(self, tree: Json) -> Any:
        short = self._read(tree)
        return self._long.from_json(tree) if short is _MISSED else short


def _text(value: Any) -> Any:
    if type(value) is not str:
        return _MISSED
    return value if value.isascii() else plain_json(value)


def _read_text(tree: Any) -> Any:
    return tree if type(tree) is str else _MISSED


def _whole(value: Any) -> Any:
    return value if type(value) is int and -(2**63) <= value < 2**64 else _MISSED


def _number(value: Any) -> Any:
    return value if type(value) is float and isfinite(value) else _MISSED


def _truth(value: Any) -> Any:
    return value if value is True or value is False else _MISSED


def _nothing(value: Any) -> Any:
    return None if value is None else _MISSED


def _object(value: Any) -> Any:
    return plain_json(value) if type(value) is dict else _MISSED


def _read_object(tree: Any) -> Any:
    return tree if type(tree) is dict else _MISSED


def _array(value: Any) -> Any:
    return plain_json(value) if type(value) is list else _MISSED


def _read_array(tree: Any) -> Any:
    return tree if type(tree) is list else _MISSED


_SHORT: dict[Any, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    str: (_text, _read_text),
    int: (_whole, _whole),
    float: (_number, _number),
    bool: (_truth, _truth),
    None: (_nothing, _nothing),
    types.NoneType: (_nothing, _nothing),
    dict: (_object, _read_object),
    dict[str, Any]: (_object, _read_object),
    dict[str, object]: (_object, _read_object),
    list: (_array, _read_array),
    list[Any]: (_array, _read_array),
    list[object]: (_array, _read_array),
}
