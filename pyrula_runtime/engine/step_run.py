"""A step being performed: its attempts, its time limit, its outcome.

Async steps are tasks on the lane's loop, plain ones get a thread. A step whose time is over is given up at once, even
if its code does not react: what it returns later is dropped. All of it runs on the lane's thread but the plain
function itself.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from pyrula_runtime.core.cursor import Asked
from pyrula_runtime.core.entries import AttemptFailed, Completed, Failed
from pyrula_runtime.core.errors import ErrorRecord, StepTimeout
from pyrula_runtime.engine.current import Current, StopSign, current
from pyrula_runtime.engine.failure import record_of
from pyrula_runtime.engine.posting import post
from pyrula_runtime.engine.program import StepCall
from pyrula_runtime.engine.threads import Job
from pyrula_runtime.engine.whereabouts import task_name


class StepOwner(Protocol):
    """The turn, as a step sees it."""

    def settled(self, outcome: Completed | Failed) -> None:
        """The step has its outcome."""

    def attempt_failed(self, entry: AttemptFailed) -> None:
        """An attempt failed; the next one comes at its time."""

    def store_ms(self) -> int:
        """The store's wall time: what is recorded is dated by it."""


class StepPlace(Protocol):
    """Where steps run."""

    loop: asyncio.AbstractEventLoop

    def in_thread(self, whose: Current, work: Callable[[], Any]) -> Job:
        """Run a plain step's code in a thread."""

    def chance(self) -> float:
        """A random number in [0, 1), for jitter."""


class StepRun:
    """One operation from its first attempt in this turn to its outcome."""

    def __init__(self, place: StepPlace, owner: StepOwner, whose: Current, asked: Asked, call: StepCall) -> None:
        self._place = place
        self._owner = owner
        self._whose = whose
        self._op = asked.op
        self._failed_attempts = asked.attempts
        self._call = call
        self._over = False
        self._sign = StopSign()
        self.idle_until_ms: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._abandon: Callable[[], object] = lambda: None
        wait_ms = asked.retry_at_ms - owner.store_ms()
        if wait_ms > 0:
            self.idle_until_ms = asked.retry_at_ms
            self._timer = place.loop.call_later(wait_ms / 1000, self._attempt)
        else:
            self._attempt()

    def stop(self) -> None:
        """Nobody wants the outcome: cancel the task; a thread is left to itself."""
        self._over = True
        self._disarm()
        self._sign.is_shown = True
        self._abandon()

    def _attempt(self) -> None:
        self._disarm()
        if self._over:  # an order came first (see on_lane)
            return
        context = contextvars.copy_context()
        number = self._failed_attempts + 1
        self.idle_until_ms = None
        self._sign = StopSign()
        whose = Current(
            run_id=self._whose.run_id,
            workflow=self._whose.workflow,
            op_id=self._op.op_id,
            step=self._op.name,
            attempt=number,
            sign=self._sign,
        )
        context.run(current.set, whose)
        if self._call.is_async:
            self._attempt_on_lane(context, number)
        else:
            self._attempt_in_thread(context, whose)

    def _arm(self, number: int) -> None:
        """The attempt's code runs from now on; a wait for a thread is not its time."""
        if self._call.timeout_s is not None and not self._is_stale(number):
            self._timer = self._place.loop.call_later(self._call.timeout_s, self._timed_out, number)

    def _attempt_on_lane(self, context: contextvars.Context, number: int) -> None:
        self._arm(number)
        try:
            coroutine = context.run(self._call.call)
        except BaseException as error:  # noqa: BLE001 - the user's call is wrong: that is the step's outcome
            self._place.loop.call_soon(self._failed, error, number)
            return
        task = self._place.loop.create_task(coroutine, name=task_name(self._whose, self._op), context=context)
        self._abandon = task.cancel
        task.add_done_callback(lambda task: self._task_done(task, number))

    def _attempt_in_thread(self, context: contextvars.Context, whose: Current) -> None:
        loop, timeout_s, call = self._place.loop, self._call.timeout_s, self._call.call

        def work() -> Any:
            if timeout_s is not None:
                post(loop, self._arm, whose.attempt)
            return context.run(call)

        job = self._place.in_thread(whose, work)
        self._abandon = job.give_up

        def done(future: Future[Any]) -> None:
            if not future.cancelled():
                post(loop, self._thread_done, future, whose.attempt)

        job.add_done_callback(done)

    def _task_done(self, task: asyncio.Task[Any], number: int) -> None:
        error = asyncio.CancelledError("the step's task was cancelled") if task.cancelled() else task.exception()
        if error is None:
            self._returned(task.result(), number)
        else:
            self._failed(error, number)

    def _thread_done(self, future: Future[Any], number: int) -> None:
        error = future.exception()
        if error is None:
            self._returned(future.result(), number)
        else:
            self._failed(error, number)

    def _timed_out(self, number: int) -> None:
        abandon = self._abandon
        self._sign.is_shown = True
        self._failed(StepTimeout(self._op.name, _timeout_record(self._call.timeout_s)), number)
        abandon()

    def _returned(self, value: object, number: int) -> None:
        if self._is_stale(number):
            return
        try:
            json = self._call.to_json(value)
        except BaseException as error:  # noqa: BLE001 - a value that its annotation or JSON refuses is a failed attempt
            self._failed(error, number)
            return
        self._settle(Completed(op=self._op, at_ms=self._owner.store_ms(), value=json))

    def _failed(self, error: BaseException, number: int) -> None:
        if self._is_stale(number):
            return
        self._disarm()
        record = error.error if isinstance(error, StepTimeout) else record_of(error)
        now_ms = self._owner.store_ms()
        retry = self._call.retry
        final = isinstance(error, retry.never_for) if retry.never_for else False
        delay_ms = None if final else retry.delay_ms(number, self._place.chance())
        if delay_ms is None:
            self._settle(Failed(op=self._op, at_ms=now_ms, error=record))
            return
        self._failed_attempts = number
        self._abandon = lambda: None
        self._timer = self._place.loop.call_later(delay_ms / 1000, self._attempt)
        self.idle_until_ms = now_ms + delay_ms
        entry = AttemptFailed(op=self._op, at_ms=now_ms, number=number, error=record, retry_at_ms=self.idle_until_ms)
        self._owner.attempt_failed(entry)

    def _is_stale(self, number: int) -> bool:
        return self._over or number != self._failed_attempts + 1

    def _settle(self, outcome: Completed | Failed) -> None:
        self._over = True
        self._disarm()
        self._owner.settled(outcome)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _timeout_record(timeout_s: float | None) -> ErrorRecord:
    return ErrorRecord(type=StepTimeout.__name__, message=f"the step took longer than its timeout of {timeout_s} s")
