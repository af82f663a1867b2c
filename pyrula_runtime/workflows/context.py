"""What a workflow's function is given first: its durable operations, as methods.

`WorkflowContext` is for `async def` bodies: an operation is numbered when the method is called, and what it returns may
be awaited then or later. `SyncWorkflowContext` is for plain functions, whose thread waits inside the method. Everything
a body learns through either is the same in every replay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Literal, NoReturn, ParamSpec, TypeVar, cast, overload
from uuid import UUID

from pyrula_runtime.client.submittable import Submittable
from pyrula_runtime.client.submitting import encode
from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.ids import checked_name
from pyrula_runtime.engine.current import Current, current
from pyrula_runtime.engine.program import Operations, Request, SyncOperations
from pyrula_runtime.workflows.children import ChildHandle, SyncChildHandle, child_call
from pyrula_runtime.workflows.logs import BodyLog
from pyrula_runtime.workflows.racing import First, check_any, first
from pyrula_runtime.workflows.showing import status_document
from pyrula_runtime.workflows.starting import emit_call
from pyrula_runtime.workflows.steps import step_call
from pyrula_runtime.workflows.time_limit import TimeLimit
from pyrula_runtime.workflows.waits import Duration, signal, sleep_for, sleep_until, time_limit

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

OnEndName = Literal["cancel", "abandon"]

_EPOCH = datetime.fromtimestamp(0, UTC)


def current_step() -> Current:
    """The step whose code is running; UsageError outside of steps."""
    whose = current.get()
    if whose is None or not whose.op_id:
        raise UsageError("current_step() was called outside of a step")
    return whose


class _Context:
    """What both kinds of bodies have: nothing here waits."""

    def __init__(self, operations: Operations | SyncOperations, workflow: str) -> None:
        self._operations = operations
        self.workflow = workflow
        self.log = BodyLog(workflow, lambda: operations.replaying)

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._operations.run_id

    @property
    def idempotency_key(self) -> str:
        """Inside a step equal in all its attempts, for services that take such a key; in the body the run's id."""
        whose = current.get()
        return self.run_id if whose is None else whose.idempotency_key

    @property
    def replaying(self) -> bool:
        """Whether the body goes over what it did before."""
        return self._operations.replaying

    def now(self) -> datetime:
        """The time, in UTC, of the newest thing that the body has learnt; it stands still in between."""
        return _EPOCH + timedelta(milliseconds=self._operations.now_ms())

    def patched(self, id: str) -> bool:
        """Whether this run goes the new way at this place of the code, which `id` names.

        A run that passed here before the change goes the old way, False, in every replay. Any other goes the new way,
        True, and that is recorded. When no run of the old way is left, the call and the old way can be removed.
        """
        return self._operations.patched(checked_name(id, "patch"))

    def set_status(self, status: dict[str, Any]) -> None:
        """Show this to whoever looks at the run from now on, in place of what it showed before.

        A small object of JSON, such as `{"stage": "packing", "done": 3}`. It is no step, costs nothing in a replay, and
        becomes an event of the run as well (see RunHandle.events).
        """
        self._operations.show(status_document(status))

    def uuid4(self) -> UUID:
        """A random UUID."""
        return UUID(bytes=self._operations.derive("uuid4")[:16], version=4)

    def random(self) -> float:
        """A random number in [0, 1)."""
        return (int.from_bytes(self._operations.derive("random")[:7], "big") >> 3) / 2**53


class WorkflowContext(_Context):
    """The context of an `async def` workflow."""

    _operations: Operations

    def __init__(self, operations: Operations, workflow: str) -> None:
        super().__init__(operations, workflow)
        # an attribute, because type checkers lose all signatures but the first of a staticmethod made of it
        self.gather = asyncio.gather
        """Wait for several operations or coroutines side by side, as `asyncio.gather` does."""

    @overload
    def step(
        self, function: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[R]: ...

    @overload
    def step(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[R]: ...

    def step(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> asyncio.Future[Any]:
        """Perform a step: a function decorated with `@step`, or any that has a name; every argument goes to it.

        Awaiting what this returns gives the function's value or raises `StepFailed`; cancelling it gives the step up.
        """
        return self._ask(step_call(function, args, kwargs))

    def sleep(self, duration: Duration) -> asyncio.Future[None]:
        """Wait for so many seconds, or a `timedelta`, through crashes and deploys; no worker is kept meanwhile."""
        return self._ask(sleep_for(duration))

    def sleep_until(self, moment: datetime) -> asyncio.Future[None]:
        """Wait for this moment, a `datetime` with a time zone; at once over if it has passed."""
        return self._ask(sleep_until(moment))

    @overload
    def wait_signal(self, name: str, *, timeout: Duration | None = None) -> asyncio.Future[Any]: ...

    @overload
    def wait_signal(self, name: str, *, type: type[T], timeout: Duration | None = None) -> asyncio.Future[T]: ...

    def wait_signal(self, name: str, *, type: Any = None, timeout: Duration | None = None) -> asyncio.Future[Any]:
        """Wait for the next signal of this name: its payload, read as `type`, such as a model; kept if it came before.

        Raises SignalTimeout after `timeout` seconds, InputError if the payload does not fit.
        """
        return self._ask(signal(name, type, timeout))

    def timeout(self, duration: Duration) -> TimeLimit:
        """`async with ctx.timeout(seconds):` cancels what takes longer and raises WaitTimeout, a TimeoutError."""
        limit = time_limit(duration)
        return TimeLimit(lambda: self._ask(limit))

    async def first(self, *operations: Awaitable[R]) -> First[R]:
        """Wait for the first of several operations: `which, value = await ctx.first(...)`; the others are cancelled.

        If the first fails, its error is raised.
        """
        return await first(operations)

    @overload
    def child(
        self, workflow: Submittable[R], input: Any = None, *, on_end: OnEndName = "cancel"
    ) -> asyncio.Future[R]: ...

    @overload
    def child(self, workflow: str, input: Any = None, *, on_end: OnEndName = "cancel") -> asyncio.Future[Any]: ...

    def child(
        self, workflow: Submittable[Any] | str, input: Any = None, *, on_end: OnEndName = "cancel"
    ) -> asyncio.Future[Any]:
        """Have another workflow run as a child of this run, and wait for its result: its value, or ChildFailed.

        By function or by name, as `submit` has it. A child that is still alive when this run ends, or gives it up, is
        cancelled; with `on_end="abandon"` it goes on by itself.
        """
        return self._ask(child_call(workflow, input, on_end))

    @overload
    def start_child(
        self, workflow: Submittable[R], input: Any = None, *, on_end: OnEndName = "cancel"
    ) -> ChildHandle[R]: ...

    @overload
    def start_child(self, workflow: str, input: Any = None, *, on_end: OnEndName = "cancel") -> ChildHandle[Any]: ...

    def start_child(
        self, workflow: Submittable[Any] | str, input: Any = None, *, on_end: OnEndName = "cancel"
    ) -> ChildHandle[Any]:
        """Start a child and go on: its handle, to wait for its result, to signal or to cancel it. See `child`."""
        run_id, result = self._operations.start_child(child_call(workflow, input, on_end))
        return ChildHandle(self._operations, run_id, cast("asyncio.Future[Any]", result))

    def emit(self, name: str, payload: Any = None, *, id: str | None = None) -> asyncio.Future[None]:
        """Tell an event, once: each workflow that it starts begins one run, with the payload as its input.

        An event that others may tell, too, is told once if all give it the same `id`; each name has ids of its own.
        """
        return self._ask(emit_call(name, payload, id))

    def continue_as_new(self, input: Any = None) -> NoReturn:
        """End this round and begin the next with another input, an empty journal, and the same run id.

        For runs that go on for ever. Nothing after it is executed. Children are treated as at the run's end; signals
        that nobody has waited for yet are there in the next round.
        """
        self._operations.continue_as_new(encode(input, "the input to continue with"))

    def _ask(self, request: Request) -> asyncio.Future[Any]:
        return cast("asyncio.Future[Any]", self._operations.ask(request))


class SyncWorkflowContext(_Context):
    """The context of a plain `def` workflow."""

    _operations: SyncOperations

    @overload
    def step(self, function: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...

    @overload
    def step(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...

    def step(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Perform a step and wait for it: its value, or `StepFailed`; every argument goes to the function."""
        return self._operations.ask([step_call(function, args, kwargs)])[0]

    def sleep(self, duration: Duration) -> None:
        """Wait for so many seconds, or a `timedelta`, through crashes and deploys.

        Neither a worker nor a thread is kept meanwhile: the function is left here, and called anew when it is time.
        """
        self._operations.ask([sleep_for(duration)])

    def sleep_until(self, moment: datetime) -> None:
        """Wait for this moment, a `datetime` with a time zone; at once over if it has passed."""
        self._operations.ask([sleep_until(moment)])

    @overload
    def wait_signal(self, name: str, *, timeout: Duration | None = None) -> Any: ...

    @overload
    def wait_signal(self, name: str, *, type: type[T], timeout: Duration | None = None) -> T: ...

    def wait_signal(self, name: str, *, type: Any = None, timeout: Duration | None = None) -> Any:
        """Wait for the next signal of this name: its payload, read as `type`, such as a model; kept if it came before.

        Raises SignalTimeout after `timeout` seconds, InputError if the payload does not fit.
        """
        return self._operations.ask([signal(name, type, timeout)])[0]

    @overload
    def child(self, workflow: Submittable[R], input: Any = None, *, on_end: OnEndName = "cancel") -> R: ...

    @overload
    def child(self, workflow: str, input: Any = None, *, on_end: OnEndName = "cancel") -> Any: ...

    def child(self, workflow: Submittable[Any] | str, input: Any = None, *, on_end: OnEndName = "cancel") -> Any:
        """Have another workflow run as a child of this run, and wait for its result: its value, or ChildFailed.

        By function or by name, as `submit` has it. A child that is still alive when this run ends, or gives it up, is
        cancelled; with `on_end="abandon"` it goes on by itself.
        """
        return self._operations.ask([child_call(workflow, input, on_end)])[0]

    @overload
    def start_child(
        self, workflow: Submittable[R], input: Any = None, *, on_end: OnEndName = "cancel"
    ) -> SyncChildHandle[R]: ...

    @overload
    def start_child(
        self, workflow: str, input: Any = None, *, on_end: OnEndName = "cancel"
    ) -> SyncChildHandle[Any]: ...

    def start_child(
        self, workflow: Submittable[Any] | str, input: Any = None, *, on_end: OnEndName = "cancel"
    ) -> SyncChildHandle[Any]:
        """Start a child and go on: its handle, to wait for its result, to signal or to cancel it. See `child`."""
        run_id, result = self._operations.start_child(child_call(workflow, input, on_end))
        return SyncChildHandle(self._operations, run_id, result)

    def emit(self, name: str, payload: Any = None, *, id: str | None = None) -> None:
        """Tell an event, once: each workflow that it starts begins one run, with the payload as its input.

        An event that others may tell, too, is told once if all give it the same `id`; each name has ids of its own.
        """
        self._operations.ask([emit_call(name, payload, id)])

    def continue_as_new(self, input: Any = None) -> NoReturn:
        """End this round and begin the next with another input, an empty journal, and the same run id.

        For runs that go on for ever. Nothing after it is executed. Children are treated as at the run's end; signals
        that nobody has waited for yet are there in the next round.
        """
        self._operations.continue_as_new(encode(input, "the input to continue with"))

    def timeout(self, duration: Duration) -> AbstractContextManager[None]:
        """`with ctx.timeout(seconds):` gives up what takes longer and raises WaitTimeout, a TimeoutError."""
        return self._operations.limited(time_limit(duration))

    @overload
    def gather(self, *calls: partial[Coroutine[Any, Any, R]]) -> list[R]: ...

    @overload
    def gather(self, *calls: partial[R]) -> list[R]: ...

    @overload
    def gather(self, *calls: partial[Any]) -> list[Any]: ...

    def gather(self, *calls: partial[Any]) -> list[Any]:
        """Have operations side by side: their values, in order.

        A step is given as `functools.partial(function, ...)`, anything else as `functools.partial(ctx.sleep, ...)`.
        Raises the error of the first that fails; the others go on unheard.
        """
        return self._operations.ask([self._request(call, "gather") for call in calls])

    @overload
    def first(self, *calls: partial[Coroutine[Any, Any, R]]) -> First[R]: ...

    @overload
    def first(self, *calls: partial[R]) -> First[R]: ...

    @overload
    def first(self, *calls: partial[Any]) -> First[Any]: ...

    def first(self, *calls: partial[Any]) -> First[Any]:
        """Wait for the first of several operations, given as for `gather`; the others are cancelled.

        `which, value = ctx.first(...)`. If the first fails, its error is raised.
        """
        check_any(calls)
        return First(*self._operations.ask_first([self._request(call, "first") for call in calls]))

    def _request(self, call: object, of: str) -> Request:
        if not isinstance(call, partial):
            raise UsageError(
                f"{of} takes operations as functools.partial(function, arguments...), not {call!r}; in a plain "
                f"workflow a call would be performed at once"
            )
        if getattr(call.func, "__self__", None) is not self:
            return step_call(call.func, call.args, call.keywords)
        build = _REQUESTS.get(call.func.__name__)
        if build is None:
            raise UsageError(f"{of} cannot have ctx.{call.func.__name__} beside other operations")
        return build(*call.args, **call.keywords)


def _signal(name: str, *, type: Any = None, timeout: Duration | None = None) -> Request:
    return signal(name, type, timeout)


def _child(workflow: Submittable[Any] | str, input: Any = None, *, on_end: OnEndName = "cancel") -> Request:
    return child_call(workflow, input, on_end)


# what methods of a plain workflow's context ask for, where they stand beside others
_REQUESTS: dict[str, Callable[..., Request]] = {
    "sleep": sleep_for,
    "sleep_until": sleep_until,
    "wait_signal": _signal,
    "child": _child,
}
