"""From a run's input to the arguments of a workflow's function.

An object fills the parameters behind the context by name. A single parameter annotated with a model, dataclass,
TypedDict or dict takes the object whole, and any single parameter takes a value that is no object as it is. Everything
that does not fit is told in one sentence, so that whoever submits has to mend the input only once.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pyrula_runtime.core.entries import Json
from pyrula_runtime.core.errors import InputError, UsageError
from pyrula_runtime.forms.annotations import resolved, takes_object_whole
from pyrula_runtime.forms.form import Form, form_of

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_VARIADIC = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """Arguments for the parameters behind the context."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parameter:
    name: str
    form: Form
    is_required: bool
    default: Any
    is_positional_only: bool
    takes_object_whole: bool


class Binding:
    """How one workflow's input fills its parameters. Making it raises UsageError if an annotation means nothing."""

    def __init__(self, workflow: str, function: Callable[..., Any]) -> None:
        self._workflow = workflow
        self._parameters = tuple(
            _parameter(workflow, function, each) for each in parameters_behind_context(workflow, function)
        )
        self._names = [each.name for each in self._parameters]

    def fill(self, given: Json) -> Filled:
        """The arguments; InputError names everything in `given` that does not fit."""
        named = self._named(given)
        faults = list(self._misplaced(named))
        values: dict[str, Any] = {}
        for parameter in self._parameters:
            try:
                values[parameter.name] = _value(parameter, named)
            except InputError as error:
                faults.append(str(error))
        if faults:
            raise self._refusal("; ".join(faults))
        args = tuple(values.pop(each.name) for each in self._parameters if each.is_positional_only)
        return Filled(args=args, kwargs=values)

    def _named(self, given: Json) -> dict[str, Json]:
        """The input by parameter name."""
        only = self._parameters[0] if len(self._parameters) == 1 else None
        if given is None and not any(each.is_required for each in self._parameters):
            return {}
        if only is not None and (only.takes_object_whole or not isinstance(given, dict)):
            return {only.name: given}
        if isinstance(given, dict):
            return given
        if only is None and not self._parameters:
            raise self._refusal(f"it takes no input, and was given {_kind(given)}")
        raise self._refusal(f"it takes an object with {_listed(self._names)}, and was given {_kind(given)}")

    def _misplaced(self, named: dict[str, Json]) -> Iterator[str]:
        for name in named:
            if name not in self._names:
                close = difflib.get_close_matches(name, self._names, 1)
                hint = f"did you mean {close[0]!r}?" if close else f"it takes {_listed(self._names)}"
                yield f"there is no parameter {name!r} ({hint})"

    def _refusal(self, reason: str) -> InputError:
        return InputError(f"the input does not fit workflow {self._workflow!r}: {reason}")


def parameters_behind_context(workflow: str, function: Callable[..., Any]) -> list[inspect.Parameter]:
    """What an input can fill; UsageError if the function has no place for a context, or takes any number of things."""
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].kind not in _BY_POSITION:
        raise UsageError(f"workflow {workflow!r}: its function must take the context first, as in def {workflow}(ctx)")
    for each in parameters[1:]:
        if each.kind in _VARIADIC:
            raise UsageError(
                f"workflow {workflow!r}: {_VARIADIC[each.kind]}{each.name} cannot be filled from an input; name the "
                f"parameters, or take one dict"
            )
    return parameters[1:]


def _parameter(workflow: str, function: Callable[..., Any], parameter: inspect.Parameter) -> _Parameter:
    annotation = parameter.annotation
    if annotation is not inspect.Parameter.empty:
        annotation = resolved(function, annotation, f"parameter {parameter.name!r} of workflow {workflow!r}")
    return _Parameter(
        name=parameter.name,
        form=form_of(annotation).told_of(f"parameter {parameter.name!r}"),
        is_required=parameter.default is inspect.Parameter.empty,
        default=parameter.default,
        is_positional_only=parameter.kind is inspect.Parameter.POSITIONAL_ONLY,
        takes_object_whole=takes_object_whole(annotation),
    )


def _value(parameter: _Parameter, named: dict[str, Json]) -> Any:
    if parameter.name in named:
        return parameter.form.from_json(named[parameter.name])
    if parameter.is_required:
        raise InputError(f"parameter {parameter.name!r} is missing")
    return parameter.default


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names)) or "no input"


def _kind(given: Json) -> str:
    kinds = {dict: "an object", list: "an array", str: "text", bool: "true or false", type(None): "nothing"}
    return kinds.get(type(given), "a number")
