"""A plain function's body, in a thread of its own.

The thread runs on while the lane does other things, and reports through the lane's loop, so nothing of a turn is ever
touched from two threads. It is parked while it waits inside an operation. A turn that ends in a wait unwinds it like
any other body, so what waits for months keeps no thread: the function is called anew when there is something to do.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn, Protocol

from pyrula_runtime.core.entries import Op
from pyrula_runtime.core.errors import ContinuesAsNew, TurnSuspended, UsageError
from pyrula_runtime.core.ids import Branch, derived_bytes
from pyrula_runtime.engine.body import ELSEWHERE, BodyPort, op_of, patch_of
from pyrula_runtime.engine.posting import post
from pyrula_runtime.engine.program import ChildCall, Request
from pyrula_runtime.engine.threads import Job


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
        self._root = Branch(port.root)
        self._waiting: _Waiting | None = None
        self._limits: set[str] = set()
        self._begun: set[str] = set()  # what was asked for without waiting for it
        self._outcomes: dict[str, tuple[object, BaseException | None]] = {}  # of these
        self._job: Job | None = None
        self._over = False

    # towards the turn, on the lane's thread

    def start(self) -> None:
        context = contextvars.copy_context()
        self._job = self._start_thread(partial(context.run, self._in_thread))

    def deliver(self, op: Op, value: object, error: BaseException | None) -> None:
        if op.op_id in self._begun:
            self._outcomes[op.op_id] = (value, error)
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
                if op.op_id in self._begun:
                    self._outcomes[op.op_id] = (None, asyncio.CancelledError())

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
        """Without requests it waits for what was begun before."""
        self._waiting, self.is_parked = waiting, True
        if self._over:
            self._resume(TurnSuspended())
            return
        for op, request in zip(waiting.ops, requests, strict=bool(requests)):
            self._port.asked(op, request)  # a refusal is the turn's to act on: it suspends this body at once
        self._port.parked()

    def _began(self, op: Op, call: ChildCall, answer: queue.SimpleQueue[str | None]) -> None:
        is_begun = not self._over and self._port.asked(op, call)
        self._begun.add(op.op_id)
        answer.put(self._port.child_id(op) if is_begun else None)

    def _marked(self, op: Op, answers: queue.SimpleQueue[bool | None]) -> None:
        answers.put(None if self._over else self._port.marks.patched(op))

    def _showed(self, document: bytes) -> None:
        if not self._over:
            self._port.marks.show(document)

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

    def start_child(self, call: ChildCall) -> tuple[str, Callable[[], Any]]:
        op, answer = op_of(call, self._branch()), queue.SimpleQueue[str | None]()
        self._stay.leave()
        post(self._lane, self._began, op, call, answer)
        child_id = answer.get()
        self._stay.enter()
        if child_id is None:
            raise TurnSuspended
        return child_id, partial(self._join, op)

    def _join(self, op: Op) -> Any:
        self._branch()
        if op.op_id not in self._outcomes:
            self._park(_Waiting([op], is_race=False), ())
        value, error = self._outcomes[op.op_id]
        if error is not None:
            raise error
        return value

    def continue_as_new(self, given: bytes) -> NoReturn:
        self._branch()
        raise ContinuesAsNew(given)

    def _wait(self, requests: Sequence[Request], *, is_race: bool) -> _Waiting:
        branch = self._branch()
        waiting = _Waiting([op_of(request, branch) for request in requests], is_race=is_race)
        if requests:
            self._park(waiting, requests)
        return waiting

    def _park(self, waiting: _Waiting, requests: Sequence[Request]) -> None:
        self._stay.leave()
        post(self._lane, self._asked, waiting, requests)
        error = waiting.answer.get()
        self._stay.enter()
        if error is not None:
            raise error

    @contextmanager
    def limited(self, request: Request) -> Iterator[None]:
        op = op_of(request, self._branch())
        post(self._lane, self._limited, op, request)
        try:
            yield
        finally:
            post(self._lane, self._unlimited, op)

    def patched(self, name: str) -> bool:
        op, answers = patch_of(name, self._branch()), queue.SimpleQueue[bool | None]()
        self._stay.leave()
        post(self._lane, self._marked, op, answers)
        answer = answers.get()
        self._stay.enter()
        if answer is None:
            raise TurnSuspended
        return answer

    def show(self, document: bytes) -> None:
        self._branch()
        post(self._lane, self._showed, document)

    def derive(self, name: str) -> bytes:
        return derived_bytes(self._port.marks.run_here(self.run_id), self._branch().op_id(name))

    def now_ms(self) -> int:
        return self._port.now_ms()

    @property
    def replaying(self) -> bool:
        return self._port.replaying

    def _branch(self) -> Branch:
        if self._over:
            raise TurnSuspended
        if threading.get_ident() != self._thread_id:
            raise UsageError(ELSEWHERE)
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
