"""What the engine executes: programs (workflows) and the calls they make, free of how users write them.

The layer above turns decorated functions into these values; the engine knows no decorator, no annotation and no
registry. Everything that crosses is JSON: inputs, results, outcomes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Protocol

from pyrula_runtime.core.entries import Json, OpKind
from pyrula_runtime.core.retry import ONCE, Retry
from pyrula_runtime.core.scheduling import Declaration
from pyrula_runtime.core.tree import OnEnd
from pyrula_runtime.options import Isolation
from pyrula_runtime.stores.protocol import NewRun


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCall:
    """One step to perform: a call without arguments, and the policy that goes with it.

    call: runs the user's function; a coroutine function if `is_async`, else a plain one that gets a thread.
    to_json: the function's return value as JSON; raises InputError if it cannot be.
    from_json: what the body gets for it, the same live and replayed; raises InputError if the code changed its mind.
    """

    kind: ClassVar[OpKind] = OpKind.step
    name: str
    call: Callable[[], Any]
    is_async: bool
    to_json: Callable[[Any], Json]
    from_json: Callable[[Json], Any]
    retry: Retry = ONCE
    timeout_s: float | None = None


def _as_it_is(value: Json) -> Any:
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitCall:
    """Something to wait for, which nobody performs.

    for_ms: it is over so long after the body asked for it, by the body's time.
    until_ms: or at this time, in milliseconds since the epoch.
    hears: the name of the messages of which the first brings its outcome.
    late: what is told if it is over by time, where that is a failure.
    from_json: what the body gets for its outcome, the same live and replayed; raises InputError if it does not fit.
    """

    kind: OpKind
    name: str
    for_ms: int | None = None
    until_ms: int | None = None
    hears: str | None = None
    late: str = ""
    from_json: Callable[[Json], Any] = _as_it_is


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildCall:
    """A run to start as a child, and its outcome to wait for.

    run: the run to create, without id and parent, its input in the clear.
    on_end: what becomes of it when it is still alive at the parent's end, or when the parent gives it up.
    from_json: what the body gets for its result, the same live and replayed; raises InputError if it does not fit.
    """

    kind: ClassVar[OpKind] = OpKind.child
    run: NewRun
    on_end: OnEnd
    from_json: Callable[[Json], Any]

    @property
    def name(self) -> str:
        """What the operation is called: as its workflow is."""
        return self.run.workflow


@dataclass(frozen=True, slots=True, kw_only=True)
class TellCall:
    """Something to tell another run: a signal with a JSON document, or, if it is None, a cancel."""

    kind: ClassVar[OpKind] = OpKind.tell
    run_id: str
    signal: str | None = None
    payload: bytes = b"null"
    from_json: Callable[[Json], Any] = _as_it_is

    @property
    def name(self) -> str:
        """What the operation is called."""
        return "cancel" if self.signal is None else self.signal


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitCall:
    """An event to tell, with a JSON document; without an id it gets one of its own, the same in every replay."""

    kind: ClassVar[OpKind] = OpKind.emit
    name: str
    payload: bytes
    event_id: str | None = None
    from_json: Callable[[Json], Any] = _as_it_is


Request = StepCall | WaitCall | ChildCall | TellCall | EmitCall


class Operations(Protocol):
    """What a body may ask of its turn. Calls number themselves in the branch of the caller, at once."""

    @property
    def run_id(self) -> str:
        """The run's id."""

    def ask(self, request: Request) -> Awaitable[Any]:
        """Have an operation; for a body in a thread the answer is the value itself (see SyncOperations)."""

    def start_child(self, call: ChildCall) -> tuple[str, Awaitable[Any]]:
        """Start a child: its run id, and its result to come."""

    def continue_as_new(self, given: bytes) -> NoReturn:
        """End here and go on as new, with this JSON document for an input."""

    def patched(self, name: str) -> bool:
        """Whether the run goes the new way here: for ever so, if it does, and never, if it has passed here before."""

    def show(self, document: bytes) -> None:
        """Set what the run shows to people, a JSON object."""

    def derive(self, name: str) -> bytes:
        """32 bytes that belong to the next call of this name in this branch."""

    def now_ms(self) -> int:
        """The time of the newest entry that the body has seen, or of the run's first claim."""

    @property
    def replaying(self) -> bool:
        """Whether the body goes over what it did in an earlier turn."""


class SyncOperations(Protocol):
    """What a body in a thread of its own may ask: the same, but each call returns when its outcome is there."""

    @property
    def run_id(self) -> str:
        """The run's id."""

    def ask(self, requests: Sequence[Request]) -> list[Any]:
        """Have operations side by side; their values in order, the error of the first that fails in journal order."""

    def ask_first(self, requests: Sequence[Request]) -> tuple[int, Any]:
        """Have operations side by side until the first has its outcome: which it is, and its value."""

    def limited(self, request: WaitCall) -> AbstractContextManager[None]:
        """Inside, operations end with the error of this wait as soon as it is over."""

    def start_child(self, call: ChildCall) -> tuple[str, Callable[[], Any]]:
        """Start a child: its run id, and what waits for its result."""

    def continue_as_new(self, given: bytes) -> NoReturn:
        """End here and go on as new, with this JSON document for an input."""

    def patched(self, name: str) -> bool:
        """Whether the run goes the new way here: for ever so, if it does, and never, if it has passed here before."""

    def show(self, document: bytes) -> None:
        """Set what the run shows to people, a JSON object."""

    def derive(self, name: str) -> bytes:
        """32 bytes that belong to the next call of this name."""

    def now_ms(self) -> int:
        """The time of the newest entry that the body has seen, or of the run's first claim."""

    @property
    def replaying(self) -> bool:
        """Whether the body goes over what it did in an earlier turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """An event that starts a workflow, if what it carries is admitted; without `admits` whatever it carries."""

    event: str
    admits: Callable[[Any], object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A workflow as the engine sees it. Exactly one of `start` and `run` is given.

    start: makes the body's coroutine; runs on the lane.
    run: the whole body; runs in a thread of its own.
    to_json: the result as JSON; raises InputError if it cannot be.
    cancel_within_s: how long its code may unwind after a cancel or the end of its time, or after a pause of that.
    isolation: where its turns run; None leaves it to the worker.
    schedule, triggers: what starts it beside those who submit it.
    """

    name: str
    version: str | None
    start: Callable[[Operations, Json], Coroutine[Any, Any, Any]] | None = None
    run: Callable[[SyncOperations, Json], Any] | None = None
    to_json: Callable[[Any], Json]
    timeout_s: float | None = None
    cancel_within_s: float = 3600.0
    isolation: Isolation | None = None
    schedule: Declaration | None = None
    triggers: tuple[Trigger, ...] = ()

    def is_isolated(self, otherwise: Isolation) -> bool:
        """Whether each of its turns has a lane of its own. A plain function has a thread of its own anyway."""
        return self.start is not None and (self.isolation or otherwise) == "turn"
