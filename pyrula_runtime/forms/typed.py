"""Values with an annotation as JSON and back, validated by pydantic on both ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import orjson

from pyrula_runtime.core.entries import Json
from pyrula_runtime.core.errors import InputError, UsageError
from pyrula_runtime.forms.annotations import shown, without_old_typed_dicts
from pyrula_runtime.forms.plain import plain_json

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

_MAX_TOLD = 5  # faults of one value that a message lists


class Adapted:
    """One annotation's validator. Making it raises UsageError if pydantic cannot."""

    def __init__(self, annotation: Any) -> None:
        self._adapter = _adapter(annotation)

    def to_json(self, value: Any) -> Json:
        """The value, made to fit the annotation, as a JSON tree; InputError if it does not fit."""
        return plain_json(_in_our_words(self._dump, value))

    def _dump(self, value: Any) -> Any:
        fitting = self._adapter.validate_python(value)
        return self._adapter.dump_python(fitting, mode="json", by_alias=True, round_trip=True, warnings="error")

    def from_json(self, tree: Json) -> Any:
        """The typed value; InputError if the tree does not fit the annotation."""
        return _in_our_words(self._adapter.validate_json, orjson.dumps(tree))


def _in_our_words(convert: Callable[[Any], Any], value: Any) -> Any:
    from pydantic_core import PydanticSerializationError, ValidationError

    try:
        return convert(value)
    except ValidationError as error:
        raise InputError(_told(error)) from None  # it says the same in more lines
    except PydanticSerializationError as error:
        raise InputError(f"not JSON: {error}") from error
    except Exception as error:  # a user's own validator may raise anything, and it is still the value that is refused
        raise InputError(f"{type(error).__name__}: {error}") from error


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(without_old_typed_dicts(annotation))
    except PydanticUndefinedAnnotation as error:
        raise UsageError(f"{shown(annotation)} names {error.name!r}, which its module does not define") from error
    except PydanticUserError as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise UsageError(f"{shown(annotation)} has no JSON form: {reason}") from error
    return adapter


def _told(error: ValidationError) -> str:
    """Pydantic's faults in one line: where, and what."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    told = [": ".join(filter(None, (".".join(map(str, fault["loc"])), fault["msg"]))) for fault in faults]
    more = [f"and {len(told) - _MAX_TOLD} more"] if len(told) > _MAX_TOLD else []
    return ", ".join(told[:_MAX_TOLD] + more)
