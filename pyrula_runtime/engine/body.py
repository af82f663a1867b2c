"""A workflow's body in flight: the async kind on its own little loop, the plain kind in its own thread.

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
import contextvars
import queue
import threading
from asyncio import events
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, cast
from zlib import crc32

from pyrula_runtime.core.entries import Op
from pyrula_runtime.core.errors import TurnSuspended, UsageError
from pyrula_runtime.core.ids import Branch, derived_bytes
from pyrula_runtime.engine.body_loop import BodyLoop
from pyrula_runtime.engine.posting import post
from pyrula_runtime.engine.program import Request
from pyrula_runtime.engine.threads import Job

# how often a suspended body's leftover tasks are cancelled again before they are let go
_UNWIND_ROUNDS = 3

_ELSEWHERE = (
    "a durable operation was called outside the workflow's body, for example inside a step; call it in the body and "
    "pass the value on"
)


class BodyPort(Protocol):
    """What a body reports to, always on the lane's thread."""

    run_id: str

    @property
    def replaying(self) -> bool:
        """Whether the body goes over what it did in an earlier turn."""

    def now_ms(self) -> int:
        """The time of the newest entry that entered the body."""

    def asked(self, op: Op, request: Request) -> bool:
        """The body asks for an operation; False if the turn is over and the body must unwind."""

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


def _op_of(request: Request, branch: Branch) -> Op:
    return Op(op_id=branch.op_id(request.name), kind=request.kind, name=request.name)


class _Operation(asyncio.Future[Any]):
    """What a durable operation gives to an async body: a future that tells when the body cancels it."""

    def __init__(self, op: Op, body: AsyncBody) -> None:
        super().__init__(loop=cast(asyncio.AbstractEventLoop, body.loop))
        self._op = op
        self._body = body
        self._number = body.loop.number()

    def __hash__(self) -> int:
        """By number, as body_loop has it for tasks."""
        return self._number

    def cancel(self, msg: Any | None = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled:
            self._body.withdraw(self._op)
        return cancelled


class AsyncBody:
    """A coroutine function's body; also what its context talks to (program.Operations)."""

    is_parked = True

    def __init__(self, port: BodyPort, make: Callable[[AsyncBody], Coroutine[Any, Any, Any]]) -> None:
        self.loop = BodyLoop(crc32(port.run_id.encode()) << 20)
        self.run_id = port.run_id
        self._port = port
        self._make = make
        self._waiting: dict[str, _Operation] = {}
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

    def ask(self, request: Request) -> asyncio.Future[Any]:
        op = _op_of(request, self._branch())
        operation = _Operation(op, self)
        if not self._port.asked(op, request):
            raise TurnSuspended
        self._waiting[op.op_id] = operation
        return operation

    def derive(self, name: str) -> bytes:
        return derived_bytes(self.run_id, self._branch().op_id(name))

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
            raise UsageError(_ELSEWHERE)
        return self.loop.branch()


class Stay(Protocol):
    """The record of when a thread executes the code of a run and when it only waits."""

    def enter(self) -> None:
        """The code goes on."""

    def leave(self) -> None:
        """The code waits."""


class _Waiting:
    """Operations that a threaded body waits for, all or the first of them; the answer is taken by its thread."""

    def __init__(self, ops: list[Op], *, is_race: bool) -> None:
        self.ops = ops
        self.is_race = is_race
        self.missing = {op.op_id for op in ops}
        self.values: dict[str, object] = {}
        self.answer: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()


class SyncBody:
    """A plain function's body in a thread; also what its context talks to (program.SyncOperations)."""

    def __init__(
        self,
        port: BodyPort,
        run: Callable[[SyncBody], Any],
        lane: asyncio.AbstractEventLoop,
        start_thread: Callable[[Callable[[], None]], Job],
        stay: Stay,
    ) -> None:
        self.is_parked = False
        self.run_id = port.run_id
        self._port = port
        self._run = run
        self._lane = lane
        self._start_thread = start_thread
        self._stay = stay
        self._thread_id: int | None = None
        self._root = Branch()
        self._waiting: _Waiting | None = None
        self._limits: set[str] = set()
        self._job: Job | None = None
        self._over = False

    # towards the turn, on the lane's thread

    def start(self) -> None:
        context = contextvars.copy_context()
        self._job = self._start_thread(partial(context.run, self._in_thread))

    def deliver(self, op: Op, value: object, error: BaseException | None) -> None:
        waiting = self._waiting
        if waiting is None:
            return
        if op.op_id in self._limits:
            self._withdraw_rest(waiting)
            self._resume(error)
        if op.op_id not in waiting.missing:
            return  # of a group that has failed already; nobody looks at it any more
        waiting.missing.discard(op.op_id)
        waiting.values[op.op_id] = value
        if waiting.is_race:
            self._withdraw_rest(waiting)
        if error is not None or waiting.is_race or not waiting.missing:
            self._resume(error)

    def strike(self) -> None:
        if self._waiting is not None:
            self._withdraw_rest(self._waiting)
        self._resume(asyncio.CancelledError())

    def _withdraw_rest(self, waiting: _Waiting) -> None:
        for op in waiting.ops:
            if op.op_id in waiting.missing:
                self._port.withdrew(op)

    def suspend(self) -> None:
        self._over = True
        if self._waiting is not None:
            self._resume(TurnSuspended())
        elif self._job is not None:
            self._job.give_up()  # it is in user code, and comes back from there when it likes

    def _resume(self, error: BaseException | None) -> None:
        waiting, self._waiting = self._waiting, None
        assert waiting is not None
        self.is_parked = False
        waiting.answer.put(error)

    def _asked(self, waiting: _Waiting, requests: Sequence[Request]) -> None:
        self._waiting, self.is_parked = waiting, True
        if self._over:
            self._resume(TurnSuspended())
            return
        for op, request in zip(waiting.ops, requests, strict=True):
            self._port.asked(op, request)  # a refusal is the turn's to act on: it suspends this body at once
        self._port.parked()

    def _limited(self, op: Op, request: Request) -> None:
        if not self._over:
            self._limits.add(op.op_id)
            self._port.asked(op, request)

    def _unlimited(self, op: Op) -> None:
        self._limits.discard(op.op_id)
        if not self._over:
            self._port.withdrew(op)

    def _ended(self, value: object, error: BaseException | None) -> None:
        if not self._over:
            self._over, self.is_parked = True, True
            self._port.ended(value, error)
            self._port.parked()

    # towards the context, on the body's own thread

    def ask(self, requests: Sequence[Request]) -> list[Any]:
        waiting = self._wait(requests, is_race=False)
        return [waiting.values[op.op_id] for op in waiting.ops]

    def ask_first(self, requests: Sequence[Request]) -> tuple[int, Any]:
        waiting = self._wait(requests, is_race=True)
        return next((at, waiting.values[op.op_id]) for at, op in enumerate(waiting.ops) if op.op_id in waiting.values)

    def _wait(self, requests: Sequence[Request], *, is_race: bool) -> _Waiting:
        branch = self._branch()
        waiting = _Waiting([_op_of(request, branch) for request in requests], is_race=is_race)
        if not requests:
            return waiting
        self._stay.leave()
        post(self._lane, self._asked, waiting, requests)
        error = waiting.answer.get()
        self._stay.enter()
        if error is not None:
            raise error
        return waiting

    @contextmanager
    def limited(self, request: Request) -> Iterator[None]:
        op = _op_of(request, self._branch())
        post(self._lane, self._limited, op, request)
        try:
            yield
        finally:
            post(self._lane, self._unlimited, op)

    def derive(self, name: str) -> bytes:
        return derived_bytes(self.run_id, self._branch().op_id(name))

    def now_ms(self) -> int:
        return self._port.now_ms()

    @property
    def replaying(self) -> bool:
        return self._port.replaying

    def _branch(self) -> Branch:
        if self._over:
            raise TurnSuspended
        if threading.get_ident() != self._thread_id:
            raise UsageError(_ELSEWHERE)
        return self._root

    def _in_thread(self) -> None:
        self._thread_id = threading.get_ident()
        value: object = None
        error: BaseException | None = None
        try:
            value = self._run(self)
        except BaseException as raised:  # noqa: BLE001 - whatever the user's code raises is the run's outcome
            error = raised
        post(self._lane, self._ended, value, error)
