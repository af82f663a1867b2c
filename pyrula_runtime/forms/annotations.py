"""Annotations as types: strings and forward references resolved when they are needed, not when they are written."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import is_dataclass
from functools import reduce
from operator import or_
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pyrula_runtime.core.errors import UsageError


def resolved(function: Callable[..., Any], annotation: Any, what: str) -> Any:
    """The type that `annotation` of `function` stands for; UsageError names `what` if it cannot be found."""
    if isinstance(annotation, type) or annotation is Any:
        return annotation
    named = types.SimpleNamespace(__annotations__={"it": annotation})
    names = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return get_type_hints(named, names, include_extras=True)["it"]
    except NameError as error:
        raise UsageError(
            f"{what} is annotated {shown(annotation)}, but {error.name!r} is not defined in its module; import or "
            f"define it there, at the top level"
        ) from error
    except (SyntaxError, TypeError, AttributeError) as error:
        raise UsageError(f"{what} is annotated {shown(annotation)}, which is no type: {error}") from error


def shown(annotation: Any) -> str:
    """An annotation as people write it."""
    if isinstance(annotation, str):
        return annotation
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__qualname__
    return str(annotation).replace("typing.", "")


def takes_object_whole(annotation: Any) -> bool:
    """Whether a JSON object is one value of this type: a model, dataclass, TypedDict or dict, or a choice of such."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return takes_object_whole(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        choices = [choice for choice in get_args(annotation) if choice is not types.NoneType]
        return all(map(takes_object_whole, choices))
    kind = origin or annotation
    if not isinstance(kind, type):
        return False
    is_model = hasattr(kind, "__pydantic_core_schema__")
    is_mapping = kind in (Mapping, MutableMapping) or issubclass(kind, dict)
    return is_dataclass(kind) or is_model or is_mapping or _is_typed_dict(kind)


def _is_typed_dict(kind: Any) -> bool:
    """Of either origin: `typing.is_typeddict` does not know those of typing_extensions."""
    return hasattr(kind, "__required_keys__") and hasattr(kind, "__total__")


def without_old_typed_dicts(annotation: Any, inside: tuple[Any, ...] = ()) -> Any:
    """The same type in terms that pydantic takes: before Python 3.12 it refuses `typing.TypedDict`.

    Those within models and dataclasses, and those that hold themselves (they are `inside`), stay as they are; pydantic
    tells the user what to import instead.
    """
    if sys.version_info >= (3, 12) or annotation in inside:
        return annotation
    if type(annotation).__module__ == "typing" and _is_typed_dict(annotation):
        return _newer_typed_dict(annotation, (*inside, annotation))
    origin, args = get_origin(annotation), get_args(annotation)
    if not args or origin in (typing.Literal, Callable):
        return annotation
    if origin is Annotated:
        return Annotated[(without_old_typed_dicts(args[0], inside), *annotation.__metadata__)]
    newer = tuple(without_old_typed_dicts(arg, inside) for arg in args)
    if newer == args:
        return annotation
    return reduce(or_, newer) if origin in (Union, types.UnionType) else origin[newer]


def _newer_typed_dict(kind: Any, inside: tuple[Any, ...]) -> Any:
    import typing_extensions as newer

    fields: dict[str, Any] = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        # a quoted NotRequired is not in __required_keys__, which was worked out before it could be read
        said = get_origin(hint)
        presence: Any = newer.Required if name in kind.__required_keys__ else newer.NotRequired
        if said in (newer.Required, newer.NotRequired):
            presence, hint = said, get_args(hint)[0]
        fields[name] = presence[without_old_typed_dicts(hint, inside)]
    return newer.TypedDict(kind.__name__, fields)  # type: ignore[operator]
