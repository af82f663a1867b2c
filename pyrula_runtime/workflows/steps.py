"""Steps: functions with a name and a policy, and the calls that a body asks its turn to perform.

A call is what the engine gets: the bound function, how often and how long it is tried, and how its value becomes JSON
and comes back, which the function's return annotation says. All that depends on the function alone is worked out once,
so a call costs a few microseconds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial, update_wrapper
from types import FunctionType
from typing import Any, Generic, ParamSpec, TypeVar, overload

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.ids import checked_name
from pyrula_runtime.core.retry import Retry, as_retry
from pyrula_runtime.engine.program import StepCall
from pyrula_runtime.forms.form import Form, result_form
from pyrula_runtime.workflows.naming import checked_timeout, name_of
from pyrula_runtime.workflows.workflow import Workflow

P = ParamSpec("P")
T = TypeVar("T")


class Step(Generic[P, T]):
    """A function that can be performed as a step; called directly, it is that function and nothing more."""

    __name__: str
    __wrapped__: Callable[P, T]

    def __init__(
        self,
        function: Callable[P, T],
        *,
        name: str | None = None,
        retry: Retry | int | None = None,
        timeout: float | None = None,
    ) -> None:
        self.function: Callable[P, T] = _usable(function)
        self.name = checked_name(name_of(function, "step") if name is None else name, "step")
        self.retry = _policy(retry, self.name)
        self.timeout_s = checked_timeout(timeout, f"step {self.name!r}")
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
        self._form: Form | None = None
        update_wrapper(self, function, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function, here and now."""
        return self.function(*args, **kwargs)

    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        """As an attribute of an instance, the step of the bound method."""
        if instance is None:
            return self
        function: Any = self.function
        return Step(function.__get__(instance, owner), name=self.name, retry=self.retry, timeout=self.timeout_s)

    def __repr__(self) -> str:
        return f"<step {self.name!r}>"

    def with_options(
        self, *, name: str | None = None, retry: Retry | int | None = None, timeout: float | None = None
    ) -> Step[P, T]:
        """The same step under another name or policy; what is not given stays."""
        return Step(
            self.function,
            name=self.name if name is None else name,
            retry=self.retry if retry is None else retry,
            timeout=self.timeout_s if timeout is None else timeout,
        )

    @property
    def form(self) -> Form:
        """How its values become JSON and come back; UsageError if its return annotation means nothing."""
        form = self._form
        if form is None:
            what = f"the result of {getattr(self.function, '__qualname__', self.name)}()"
            form = self._form = result_form(self.function, what)
        return form


@overload
def step(function: Callable[P, T], /) -> Step[P, T]: ...


@overload
def step(
    *, name: str | None = None, retry: Retry | int | None = None, timeout: float | None = None
) -> Callable[[Callable[P, T]], Step[P, T]]: ...


def step(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a step: `@step`, or `@step(name=..., retry=..., timeout=...)`.

    name: what journal and logs call it; unset, the function's own name.
    retry: a `Retry`, or how often it is tried in all; unset, once.
    timeout: seconds that one attempt may take; unset, no limit.
    """
    return partial(Step, **options) if function is None else Step(function, **options)


def step_call(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> StepCall:
    """The call of a step, or of any function with a name, with these arguments."""
    called = function if type(function) is Step else _step_of(function)
    form = called.form
    return StepCall(
        name=called.name,
        call=partial(called.function, *args, **kwargs) if args or kwargs else called.function,
        is_async=called.is_async,
        to_json=form.to_json,
        from_json=form.from_json,
        retry=called.retry,
        timeout_s=called.timeout_s,
    )


def _step_of(function: Callable[..., Any]) -> Step[..., Any]:
    return _step_of_function(function) if type(function) is FunctionType else Step(function)


@lru_cache(maxsize=1024)
def _step_of_function(function: Callable[..., Any]) -> Step[..., Any]:
    return Step(function)


def _policy(retry: Any, name: str) -> Retry:
    if isinstance(retry, bool) or not isinstance(retry, Retry | int | None):
        raise UsageError(f"step {name!r}: retry={retry!r} must be a Retry or a number of attempts")
    return as_retry(retry)


def _usable(function: Any) -> Any:
    if inspect.iscoroutine(function):
        function.close()
        raise UsageError(
            f"{function.__name__}(...) was called where the function itself is needed: pass the function and its "
            f"arguments, as in ctx.step({function.__name__}, ...)"
        )
    if not callable(function):
        raise UsageError(f"a step must be a function, not {function!r}: pass the function and its arguments")
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise UsageError(f"step {function.__qualname__}() yields, but a step has one result: return a list instead")
    if isinstance(function, Step):
        raise UsageError(f"{function!r} is a step already; use its with_options(...) for other options")
    if isinstance(function, Workflow):
        raise UsageError(
            f"{function!r} is no step: a workflow is submitted by a client, and a step is a plain function"
        )
    return function
