"""The workflows that this process has defined, by name: two of one name would make their runs a matter of luck."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from pyrula_runtime.client.submittable import announce
from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.options import Isolation
from pyrula_runtime.workflows.starting import OnEvent, Schedule
from pyrula_runtime.workflows.workflow import Workflow

P = ParamSpec("P")
R = TypeVar("R")

AnyWorkflow = Workflow[..., Any, Any]


class Registry:
    """Workflows by name. The same function defined again, as by a re-import, takes its own place."""

    def __init__(self) -> None:
        self._by_name: dict[str, AnyWorkflow] = {}

    def add(self, workflow: AnyWorkflow) -> None:
        """Register it; UsageError names both places if another one has its name."""
        first = self._by_name.get(workflow.name)
        if first is not None and not _is_again(first, workflow):
            raise UsageError(
                f"two workflows are called {workflow.name!r}: {first.place} and {workflow.place}; rename one, or give "
                f"it a name of its own with @workflow(name=...)"
            )
        self._by_name[workflow.name] = workflow

    def __iter__(self) -> Iterator[AnyWorkflow]:
        return iter(list(self._by_name.values()))

    def __contains__(self, name: str) -> bool:
        return name in self._by_name


REGISTRY = Registry()


def _is_again(first: AnyWorkflow, second: AnyWorkflow) -> bool:
    """Whether both are one definition: imported anew, or once as a script and once as a module."""
    a, b = first.function, second.function
    same_file = a.__code__.co_filename == b.__code__.co_filename
    return a.__qualname__ == b.__qualname__ and (a.__module__ == b.__module__ or same_file)


class _Decorator(Protocol):
    """What `@workflow(...)` returns: typed by what the function results in, awaited if it is async."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, Coroutine[Any, Any, R], R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Workflow[P, R, R]: ...


@overload
def workflow(function: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, Coroutine[Any, Any, R], R]: ...


@overload
def workflow(function: Callable[P, R], /) -> Workflow[P, R, R]: ...


@overload
def workflow(
    *,
    name: str | None = None,
    version: str | None = None,
    timeout: float | None = None,
    cancel_within: float = 3600.0,
    isolation: Isolation | None = None,
    schedule: Schedule | None = None,
    on_event: str | OnEvent | Sequence[str | OnEvent] | None = None,
) -> _Decorator: ...


def workflow(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a workflow: `@workflow`, or `@workflow(name=..., version=..., timeout=...)`.

    The function's first parameter is the context; the others are filled from the input of a run.

    name: what it is submitted by; unset, the function's own name.
    version: runs submitted by function are pinned to it; unset, any worker that serves the name takes them.
    timeout: seconds from the first claim of a run until it is unwound and fails; unset, no limit.
    cancel_within: seconds that its code may take to unwind after a cancel or its timeout; then it is given up. While
        the run is paused they do not pass, and a resume gives all of them again.
    isolation: where its turns run: "lane", together with others on one event loop, or "turn", each on a thread and
        event loop of its own; unset, as the worker's option says. A plain function has a thread of its own anyway.
    schedule: when runs begin by themselves; a parameter `scheduled_at`, if there is one, gets the time that is meant.
    on_event: the event, or events, whose coming begins a run: a name, or `OnEvent` with a filter. Its payload is the
        run's input.
    """
    return partial(_define, **options) if function is None else _define(function, **options)


def _define(function: Callable[..., Any], **options: Any) -> AnyWorkflow:
    defined: AnyWorkflow = Workflow(function, **options)
    REGISTRY.add(defined)
    announce(defined)
    return defined
