"""The event loop that a workflow's body runs on: a queue of callbacks, and nothing from the outside world.

A body must do the same thing each time it is replayed, so it gets a loop on which nothing else can happen: no clock,
no sockets, no threads, no other workflow. Tasks, futures, `asyncio.gather`, `TaskGroup`, locks and queues work, since
they need no more than `call_soon`; they run in strict first-in-first-out order. Whatever would let time or I/O in
raises `BodyOperationRefused` with the durable way to do it.

`drain` runs the body until it is parked: the queue is empty and only an outcome from outside can make it go on. It is
called from a plain callback of the lane's own loop and never blocks on anything but user code. For its duration this
loop is the thread's running loop, as asyncio's own loops do it.

Order: asyncio keeps tasks in sets (a TaskGroup cancels its tasks in a set's order, `wait` returns sets), and the order
of a set follows hashes, which for tasks are memory addresses. Here a task's hash is its number in the body, so a replay
goes through the same tasks in the same order.

Branches: a task started in the body is a line of its own (`core.ids.Branch`), named by the qualified name of its
coroutine and numbered in the branch that started it, so a library's tasks shift nobody's numbers.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import sys
from asyncio import events
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.ids import Branch


class BodyOperationRefused(UsageError):
    """A workflow's body used time, I/O or threads directly instead of a durable operation."""


_STEP = "ctx.step(function, ...): steps may do I/O, use threads and take time"
_INPUT_OUTPUT = ("I/O", _STEP)
_TIMER = (
    "a timer (asyncio.sleep, wait_for, timeout)",
    "ctx.sleep(seconds) and ctx.timeout(seconds), which last through crashes and deploys, and a step for work that "
    "takes time",
)
_THREAD = ("a thread (asyncio.to_thread, run_in_executor)", _STEP)
_REFUSALS = {
    "call_later": _TIMER,
    "call_at": _TIMER,
    "time": _TIMER,
    "run_in_executor": _THREAD,
    "call_soon_threadsafe": _THREAD,
}


class _BodyTask(asyncio.Task[Any]):
    """A task with its number for a hash."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, Any], **options: Any) -> None:
        self._number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


class BodyLoop:
    """One body's loop. Not thread-safe; driven by `drain` from the lane.

    It is no `AbstractEventLoop`: asyncio only calls the few methods below, and all others are to be refused.
    """

    def __init__(self, first_number: int = 0, root: Branch | None = None) -> None:
        """`first_number` belongs to the run: asyncio keeps the tasks of all loops in one set, where equals collide."""
        self._numbers = itertools.count(first_number)
        self._ready: deque[asyncio.Handle] = deque()
        self._branches: WeakKeyDictionary[asyncio.Task[Any], Branch] = WeakKeyDictionary()
        self._generators: list[AsyncGenerator[Any, Any]] = []
        self._closed = False
        self.root = root or Branch()

    @property
    def _as_loop(self) -> Any:
        return self

    # what asyncio's tasks and futures need

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self._as_loop, context)
        self._ready.append(handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self._as_loop)

    def create_task(
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        name: object = None,
        context: contextvars.Context | None = None,
        **_later_versions: Any,
    ) -> asyncio.Task[Any]:
        name = None if name is None else str(name)
        task = _BodyTask(self.number(), coro, loop=self._as_loop, name=name, context=context)
        qualname = getattr(coro, "__qualname__", type(coro).__qualname__)
        self._branches[task] = self.branch().fork(qualname)
        return task

    def create_root(self, coro: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """The task of the body itself."""
        task = _BodyTask(self.number(), coro, loop=self._as_loop)
        self._branches[task] = self.root
        return task

    def number(self) -> int:
        """The next number of what the body makes, the same in each replay."""
        return next(self._numbers)

    def branch(self) -> Branch:
        """The branch of the code that is running; callbacks that belong to no task count as the root's."""
        task = asyncio.current_task(self._as_loop)
        return self.root if task is None else self._branches[task]

    def tasks(self) -> list[asyncio.Task[Any]]:
        """Tasks of this body that have not ended."""
        return [task for task in self._branches if not task.done()]

    def drain(self) -> None:
        """Run until the body is parked."""
        outer = events._get_running_loop()
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._generators.append, finalizer=None)
        events._set_running_loop(self._as_loop)
        ready = self._ready
        try:
            while ready:
                handle = ready.popleft()
                if not handle._cancelled:
                    with contextlib.suppress(SystemExit, KeyboardInterrupt):  # the task has kept it as its outcome
                        handle._run()
        finally:
            events._set_running_loop(outer)
            sys.set_asyncgen_hooks(*hooks)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Errors nobody awaited: asyncio would log them, but each outcome is in the journal already."""

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._closed

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        self._ready.clear()
        self._generators.clear()

    def __getattr__(self, name: str) -> NoReturn:
        """Everything else that an event loop can do is what a body must not."""
        what, instead = _REFUSALS.get(name, _INPUT_OUTPUT)
        raise BodyOperationRefused(f"{what} in a workflow's body would not survive a replay; use {instead}")
