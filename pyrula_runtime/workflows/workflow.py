"""A workflow: a function whose runs are durable, with the name, version and limits that it is known by."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cached_property, update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, cast

from pyrula_runtime.core.entries import Json
from pyrula_runtime.core.errors import InputError, UsageError
from pyrula_runtime.core.ids import checked_name
from pyrula_runtime.core.scheduling import Declaration
from pyrula_runtime.forms.form import Form, result_form
from pyrula_runtime.options import ISOLATIONS, Isolation
from pyrula_runtime.scheduling.records import TIME_PARAMETER, input_at
from pyrula_runtime.workflows.binding import Binding, parameters_behind_context
from pyrula_runtime.workflows.naming import checked_seconds, checked_timeout, name_of
from pyrula_runtime.workflows.starting import OnEvent, Schedule, triggers

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

_CONTEXTS = {True: "WorkflowContext", False: "SyncWorkflowContext"}


class Workflow(Generic[P, T, R]):
    """A registered function; called directly, it is that function and nothing more. `R` is what a run results in."""

    __name__: str
    __wrapped__: Callable[P, T]

    def __init__(
        self,
        function: Callable[P, T],
        *,
        name: str | None = None,
        version: str | None = None,
        timeout: float | None = None,
        cancel_within: float = 3600.0,
        isolation: Isolation | None = None,
        schedule: Schedule | None = None,
        on_event: str | OnEvent | Sequence[str | OnEvent] | None = None,
    ) -> None:
        _refuse_what_is_no_body(function)
        self.function = function
        self.name = checked_name(name_of(function, "workflow") if name is None else name, "workflow")
        self.version = _checked_version(version, self.name)
        self.timeout_s = checked_timeout(timeout, f"workflow {self.name!r}")
        self.cancel_within_s = checked_seconds(cancel_within, f"workflow {self.name!r}: cancel_within")
        self.is_async = inspect.iscoroutinefunction(function)
        self.isolation = _checked_isolation(isolation, self.name, self.is_async)
        self.schedule = _checked_schedule(schedule, self.name)
        self.triggers = triggers(on_event)
        parameters_behind_context(self.name, function)
        _check_context(self.name, function, _CONTEXTS[self.is_async])
        update_wrapper(self, function, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function, here and now."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<workflow {self.name!r}>"

    @property
    def place(self) -> str:
        """Where it is defined, for people."""
        code = inspect.unwrap(self.function).__code__
        return f"{self.module}.{self.function.__qualname__} ({code.co_filename}:{code.co_firstlineno})"

    @property
    def module(self) -> str:
        """The module that defines it."""
        return self.function.__module__

    @cached_property
    def binding(self) -> Binding:
        """How an input fills its parameters; UsageError if an annotation means nothing."""
        return Binding(self.name, self.function)

    @cached_property
    def form(self) -> Form:
        """How its results become JSON and come back; UsageError if its return annotation means nothing."""
        return result_form(self.function, f"the result of workflow {self.name!r}")

    @cached_property
    def declaration(self) -> Declaration | None:
        """Its schedule; UsageError if its runs could not begin with what a schedule gives them."""
        if self.schedule is None:
            return None
        named = {each.name for each in parameters_behind_context(self.name, self.function)}
        declared = self.schedule.declared(self.name, self.version, takes_time=TIME_PARAMETER in named)
        try:
            self.check_input(input_at(declared, 0))
        except InputError as error:
            raise UsageError(
                f"{error}; a run that a schedule begins is given nothing but its time, as parameter {TIME_PARAMETER!r}"
            ) from error
        return declared

    def check_input(self, given: Json) -> None:
        """Raise InputError if the parameters cannot be filled from this."""
        self.binding.fill(given)

    def read_result(self, stored: Json) -> R:
        """The typed result; InputError if it does not fit any more."""
        return cast(R, self.form.from_json(stored))


def _refuse_what_is_no_body(function: Any) -> None:
    if not inspect.isfunction(function):
        raise UsageError(f"@workflow goes on a function (def or async def), not on {function!r}")
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise UsageError(f"workflow {function.__qualname__}() yields, but a run has one result: return a list instead")


def _checked_version(version: object, name: str) -> str | None:
    if version is not None and not (isinstance(version, str) and version):
        raise UsageError(f"workflow {name!r}: version={version!r} must be text that is not empty")
    return version


def _checked_schedule(schedule: object, name: str) -> Schedule | None:
    if schedule is not None and not isinstance(schedule, Schedule):
        raise UsageError(f"workflow {name!r}: schedule={schedule!r} must be a Schedule, as in Schedule(every=60)")
    return schedule


def _checked_isolation(isolation: Any, name: str, is_async: object) -> Isolation | None:
    if isolation is None:
        return None
    if isolation not in ISOLATIONS:
        raise UsageError(f'workflow {name!r}: isolation={isolation!r} must be "lane" or "turn"')
    if not is_async:
        raise UsageError(
            f"workflow {name!r}: isolation={isolation!r} is for async def workflows; a plain def has a thread anyway"
        )
    chosen: Isolation = isolation
    return chosen


def _check_context(name: str, function: Callable[..., Any], wanted: str) -> None:
    """The first parameter is never resolved, so that users may import the context's type for type checkers only."""
    first = next(iter(inspect.signature(function).parameters.values()))
    written = getattr(first.annotation, "__name__", first.annotation)
    told = written.rpartition(".")[2] if isinstance(written, str) else ""
    if told in _CONTEXTS.values() and told != wanted:
        kind = "async def" if wanted == _CONTEXTS[True] else "def"
        raise UsageError(f"workflow {name!r}: a workflow written with {kind} gets a {wanted}, not a {told}")
