"""A workflow's body in flight: the async kind on its own little loop, here; the plain kind in a thread (threaded_body).

Both look the same to the turn that drives them. A body is *parked* when it can only go on by an outcome; the turn
delivers one, the body runs and parks again. On the way it tells its `BodyPort` what it asks for, what it no longer
wants, and how it ends. The async body runs inside the call that delivers; the threaded one runs on while the lane does
other things and reports through the lane's loop, so nothing of a turn is ever touched from two threads.

Ending from outside. `strike` lets `CancelledError` in and the body may go on with durable operations (compensation).
`suspend` lets `TurnSuspended` in: every operation called from then on raises it again, and whatever the body does on
the way out is neither journaled nor heard.
"""

from __future__ import annotations

import asyncio
from asyncio import events
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, Protocol, cast
from zlib import crc32

from pyrula_runtime.core.entries import Op, OpKind
from pyrula_runtime.core.errors import ContinuesAsNew, TurnSuspended, UsageError
from pyrula_runtime.core.ids import Branch, derived_bytes
from pyrula_runtime.engine.body_loop import BodyLoop
from pyrula_runtime.engine.marks import Marks
from pyrula_runtime.engine.program import ChildCall, Request

# how often a suspended body's leftover tasks are cancelled again before they are let go
_UNWIND_ROUNDS = 3

ELSEWHERE = (
    "a durable operation was called outside the workflow's body, for example inside a step; call it in the body and "
    "pass the value on"
)


class BodyPort(Protocol):
    """What a body reports to, always on the lane's thread."""

    run_id: str
    marks: Marks
    root: str  # what the ids of all operations begin with: the run's generation, if it is not the first

    @property
    def replaying(self) -> bool:
        """Whether the body goes over what it did in an earlier turn."""

    def now_ms(self) -> int:
        """The time of the newest entry that entered the body."""

    def asked(self, op: Op, request: Request) -> bool:
        """The body asks for an operation; False if the turn is over and the body must unwind."""

    def child_id(self, op: Op) -> str:
        """The run id of the child that was asked for by this operation."""

    def withdrew(self, op: Op) -> None:
        """The body no longer wants an operation's outcome."""

    def parked(self) -> None:
        """A threaded body has parked or ended."""

    def ended(self, value: object, error: BaseException | None) -> None:
        """The body returned `value` or raised `error`."""


class Body(Protocol):
    """What a turn can do to a body."""

    is_parked: bool

    def start(self) -> None:
        """Run to the first parking place."""

    def deliver(self, op: Op, value: object, error: BaseException | None) -> None:
        """Let an outcome in; the body is parked."""

    def strike(self) -> None:
        """Let CancelledError in; the body is parked."""

    def suspend(self) -> None:
        """Let TurnSuspended in; nothing is reported afterwards."""


def patch_of(name: str, branch: Branch) -> Op:
    """The next patch of this name in this branch; it counts apart from steps that are called so."""
    return Op(op_id=branch.op_id(f"patched({name})"), kind=OpKind.patch, name=name)


def op_of(request: Request, branch: Branch) -> Op:
    """The operation that is asked for, with the next number of its name in the branch."""
    return Op(op_id=branch.op_id(request.name), kind=request.kind, name=request.name)


class Operation(asyncio.Future[Any]):
    """What a durable operation gives to an async body: a future that tells when the body cancels it."""

    def __init__(self, op: Op, body: AsyncBody) -> None:
        super().__init__(loop=cast(asyncio.AbstractEventLoop, body.loop))
        self.op = op
        self._body = body
        self._number = body.loop.number()

    def __hash__(self) -> int:
        """By number, as body_loop has it for tasks."""
        return self._number

    def cancel(self, msg: Any | None = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled:
            self._body.withdraw(self.op)
        return cancelled


class AsyncBody:
    """A coroutine function's body; also what its context talks to (program.Operations)."""

    is_parked = True

    def __init__(self, port: BodyPort, make: Callable[[AsyncBody], Coroutine[Any, Any, Any]]) -> None:
        self.loop = BodyLoop(crc32(port.run_id.encode()) << 20, Branch(port.root))
        self.run_id = port.run_id
        self._port = port
        self._make = make
        self._waiting: dict[str, Operation] = {}
        self._root: asyncio.Task[Any] | None = None
        self._over = False

    # towards the turn

    def start(self) -> None:
        if not self._over:
            self._root = self.loop.create_root(self._make(self))
            self._run()

    def deliver(self, op: Op, value: object, error: BaseException | None) -> None:
        if self._over:  # suspended by what the lane had to do before this
            return
        waiting = self._waiting.pop(op.op_id)
        if error is not None:
            waiting.set_exception(error)
        else:
            waiting.set_result(value)
        self._run()

    def strike(self) -> None:
        if self._over:
            return
        assert self._root is not None
        self._root.cancel()
        self._run()

    def suspend(self) -> None:
        self._over = True
        for waiting in list(self._waiting.values()):
            if not waiting.done():
                waiting.set_exception(TurnSuspended())
        self.loop.drain()
        for _ in range(_UNWIND_ROUNDS):
            for task in self.loop.tasks():
                task.cancel()
            self.loop.drain()
        self._let_go()

    def _run(self) -> None:
        self.loop.drain()
        root = self._root
        if root is None or not root.done() or self._over:
            return
        self._over = True
        error = asyncio.CancelledError() if root.cancelled() else root.exception()
        value = None if error is not None else root.result()
        for task in self.loop.tasks():  # what the body started and did not wait for ends with it
            task.cancel()
        self.loop.drain()
        self._let_go()
        self._port.ended(value, error)

    def _let_go(self) -> None:
        self._waiting.clear()
        self.loop.close()

    # towards the context

    def ask(self, request: Request) -> Operation:
        op = op_of(request, self._branch())
        operation = Operation(op, self)
        if not self._port.asked(op, request):
            raise TurnSuspended
        self._waiting[op.op_id] = operation
        return operation

    def start_child(self, call: ChildCall) -> tuple[str, asyncio.Future[Any]]:
        operation = self.ask(call)
        return self._port.child_id(operation.op), operation

    def continue_as_new(self, given: bytes) -> NoReturn:
        if self._branch() is not self.loop.root:
            raise UsageError("continue_as_new() must be called by the workflow's function itself, not by a task of it")
        raise ContinuesAsNew(given)

    def patched(self, name: str) -> bool:
        answer = self._port.marks.patched(patch_of(name, self._branch()))
        if answer is None:
            raise TurnSuspended
        return answer

    def show(self, document: bytes) -> None:
        self._branch()
        self._port.marks.show(document)

    def derive(self, name: str) -> bytes:
        return derived_bytes(self._port.marks.run_here(self.run_id), self._branch().op_id(name))

    def now_ms(self) -> int:
        return self._port.now_ms()

    @property
    def replaying(self) -> bool:
        return self._port.replaying

    def withdraw(self, op: Op) -> None:
        self._waiting.pop(op.op_id, None)
        if not self._over:
            self._port.withdrew(op)

    def _branch(self) -> Branch:
        if self._over:
            raise TurnSuspended
        if events._get_running_loop() is not cast(Any, self.loop):
            raise UsageError(ELSEWHERE)
        return self.loop.branch()
