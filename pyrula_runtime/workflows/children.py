"""Children: the calls that start them, from what a body hands in, and the handles by which a body talks to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from pyrula_runtime.client import submitting
from pyrula_runtime.client.submittable import Submittable, known
from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.ids import checked_name
from pyrula_runtime.core.tree import OnEnd
from pyrula_runtime.engine.program import ChildCall, Operations, SyncOperations, TellCall

R = TypeVar("R")

_DAY_MS = 86_400_000


def child_call(workflow: Submittable[Any] | str, given: Any, on_end: str) -> ChildCall:
    """A run of this workflow as a child; InputError if the input does not fit it."""
    if on_end not in set(OnEnd):
        raise UsageError(f"on_end={on_end!r} must be {' or '.join(map(repr, map(str, OnEnd)))}")
    run = submitting.new_run(workflow, given, None, None, _DAY_MS)
    reader = known(workflow) if isinstance(workflow, str) else workflow
    from_json = _as_it_is if reader is None else reader.read_result
    return ChildCall(run=run, on_end=OnEnd(on_end), from_json=from_json)


def _as_it_is(stored: Any) -> Any:
    return stored


def signal_call(run_id: str, name: str, payload: Any) -> TellCall:
    """A signal to a child."""
    document = submitting.encode(payload, f"the payload of signal {checked_name(name, 'signal')!r}")
    return TellCall(run_id=run_id, signal=name, payload=document)


class ChildHandle(Generic[R]):
    """A child that an `async def` workflow has started."""

    def __init__(self, operations: Operations, run_id: str, result: asyncio.Future[R]) -> None:
        self._operations = operations
        self._result = result
        self.run_id = run_id

    def __repr__(self) -> str:
        return f"<child run {self.run_id}>"

    def result(self) -> asyncio.Future[R]:
        """Its value to come; awaiting it raises ChildFailed if the child ends otherwise."""
        return self._result

    def signal(self, name: str, payload: Any = None) -> asyncio.Future[None]:
        """Send it a signal, once."""
        return self._tell(signal_call(self.run_id, name, payload))

    def cancel(self) -> asyncio.Future[None]:
        """Ask it to unwind; its result then raises ChildFailed."""
        return self._tell(TellCall(run_id=self.run_id))

    def _tell(self, call: TellCall) -> asyncio.Future[None]:
        return cast("asyncio.Future[None]", self._operations.ask(call))


class SyncChildHandle(Generic[R]):
    """A child that a plain workflow has started."""

    def __init__(self, operations: SyncOperations, run_id: str, result: Callable[[], R]) -> None:
        self._operations = operations
        self._result = result
        self.run_id = run_id

    def __repr__(self) -> str:
        return f"<child run {self.run_id}>"

    def result(self) -> R:
        """Wait for its value; raises ChildFailed if the child ends otherwise."""
        return self._result()

    def signal(self, name: str, payload: Any = None) -> None:
        """Send it a signal, once."""
        self._operations.ask([signal_call(self.run_id, name, payload)])

    def cancel(self) -> None:
        """Ask it to unwind; its result then raises ChildFailed."""
        self._operations.ask([TellCall(run_id=self.run_id)])
