"""What a workflow's function is given first: its durable operations, as methods.

`WorkflowContext` is for `async def` bodies: an operation is numbered when the method is called, and what it returns may
be awaited then or later. `SyncWorkflowContext` is for plain functions, whose thread waits inside the method. Everything
a body learns through either is the same in every replay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast, overload
from uuid import UUID

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.engine.current import Current, current
from pyrula_runtime.engine.program import Operations, Request, SyncOperations
from pyrula_runtime.workflows.logs import BodyLog
from pyrula_runtime.workflows.steps import step_call
from pyrula_runtime.workflows.waits import Duration, sleep_for, sleep_until

P = ParamSpec("P")
R = TypeVar("R")

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
    def gather(self, *calls: partial[Coroutine[Any, Any, R]]) -> list[R]: ...

    @overload
    def gather(self, *calls: partial[R]) -> list[R]: ...

    def gather(self, *calls: partial[Any]) -> list[Any]:
        """Perform steps side by side, each given as `functools.partial(function, ...)`: their values, in order.

        Raises `StepFailed` of the first that fails; the others go on unheard.
        """
        for call in calls:
            if not isinstance(call, partial):
                raise UsageError(
                    f"gather takes steps as functools.partial(function, arguments...), not {call!r}; in a plain "
                    f"workflow a call would be performed at once"
                )
        return self._operations.ask([step_call(call.func, call.args, call.keywords) for call in calls])
