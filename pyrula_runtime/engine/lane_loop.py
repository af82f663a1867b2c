"""The event loop of a lane: of the kind that this process uses, with a record of whose code it runs.

Everything that a run starts on its loop comes back by a callback: a task's next step, a timer, a done-callback, what a
generator or a `__del__` left to be done. asyncio copies the context into each, and the context says whose it is. So one
place sees all of it, before the callback gets control; what comes without a run's context is nobody's, and is not
written down. Work in the threads of `run_in_executor` and `asyncio.to_thread` gets the context too, and says itself
that it executes. asyncio's own loops are made to use handles that look there; loops of another kind (uvloop) get every
callback wrapped, which costs them an argument more.

What a transport hears from its socket is nobody's, even if a run has made the connection: connections are shared. Code
of the run that waits for it is called by its own callback.

Orders of other threads are looked for at the same place (see on_lane).
"""

from __future__ import annotations

import asyncio
import functools
import os
import time
from asyncio import events
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from functools import partial
from typing import Any

from pyrula_runtime.engine.current import current
from pyrula_runtime.engine.forks import end_if_forked, here
from pyrula_runtime.engine.on_lane import OnLane
from pyrula_runtime.engine.posting import post
from pyrula_runtime.engine.presence import Presence, ThreadSpan


def lane_loop(presence: Presence, kind: Any = None) -> Any:
    """A new event loop, of the kind that this process uses if none is given.

    Its `on_lane` is what it runs, `urgent` takes orders.
    """
    if kind is None:
        plain = asyncio.new_event_loop()
        kind = type(plain)
        plain.close()
    loop: Any = _recording_kind(kind)()
    loop.record(presence)
    return loop


@functools.cache
def _recording_kind(kind: type[Any]) -> type[Any]:
    ours = _WithHandles if issubclass(kind, asyncio.BaseEventLoop) else _WithWrappers
    return type(f"Lane{kind.__name__}", (ours, kind), {})


class _Recording:
    """What lanes' loops of all kinds have in common; stands before the kind that it changes."""

    on_lane: OnLane
    _presence: Presence
    _recorded: Callable[..., None]

    def record(self, presence: Presence) -> None:
        """Write down there from now on."""
        self.on_lane = OnLane()
        self._presence = presence
        self._recorded = _wrapper(presence, self.on_lane, self)

    def urgent(self, order: Callable[[], object]) -> None:
        """Have this done before the loop gives control to any more user code; any thread."""
        self.on_lane.orders.append(order)
        post(self, self.on_lane.obey)  # type: ignore[arg-type]

    def stop(self) -> None:
        self.on_lane.stopped_by = self.on_lane.whose
        super().stop()  # type: ignore[misc]

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        whose = current.get()
        if whose is not None and (executor is None or isinstance(executor, ThreadPoolExecutor)):
            span = ThreadSpan(self._presence, whose.place)
            func, args = partial(copy_context().run, span.around, partial(func, *args)), ()
        return super().run_in_executor(executor, func, *args)  # type: ignore[misc]

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> Any:
        return super().add_reader(fd, self._recorded, callback, *args)  # type: ignore[misc]

    def add_writer(self, fd: Any, callback: Callable[..., Any], *args: Any) -> Any:
        return super().add_writer(fd, self._recorded, callback, *args)  # type: ignore[misc]


class _WithHandles(_Recording):
    """For asyncio's own loops."""

    def record(self, presence: Presence) -> None:
        super().record(presence)
        self._soon = _handle_kind(events.Handle, presence, self.on_lane)
        self._later = _handle_kind(events.TimerHandle, presence, self.on_lane)

    def _call_soon(self, callback: Callable[..., object], args: Any, context: Context | None) -> events.Handle:
        """Every callback comes by here, also those of other threads; asyncio's own makes a plain handle instead."""
        handle: events.Handle = self._soon(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> events.TimerHandle:
        timer: events.TimerHandle = super().call_at(when, callback, *args, context=context)  # type: ignore[misc]
        timer.__class__ = self._later
        return timer


class _WithWrappers(_Recording):
    """For any other."""

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        return super().call_soon(self._recorded, callback, *args, context=context)  # type: ignore[misc]

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        return super().call_soon_threadsafe(self._recorded, callback, *args, context=context)  # type: ignore[misc]

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Any:
        return super().call_later(delay, self._recorded, callback, *args, context=context)  # type: ignore[misc]

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        return super().call_at(when, self._recorded, callback, *args, context=context)  # type: ignore[misc]


def _handle_kind(kind: type[Any], presence: Presence, on_lane: OnLane) -> type[Any]:
    """A kind of handle that keeps the record. Closures, because this is on the path of every step of the loop."""
    run, whose_of, orders = kind._run, current, on_lane.orders
    enter, leave, clock_ns, pid = presence.enter_lane, presence.leave_lane, time.monotonic_ns, os.getpid()

    def recorded_run(self: Any) -> None:
        if orders:
            on_lane.obey()
            if self._cancelled:
                return
        whose = self._context.get(whose_of)
        if whose is None:
            run(self)
            return
        on_lane.whose = whose
        enter(whose.place, clock_ns())
        try:
            run(self)
        finally:
            if here.pid != pid:
                end_if_forked(pid)
            leave()
            on_lane.whose = None

    return type(kind.__name__, (kind,), {"__slots__": (), "_run": recorded_run})


def _wrapper(presence: Presence, on_lane: OnLane, loop: Any) -> Callable[..., None]:
    """The same for a callback, which finds itself in its own context."""
    orders, pid = on_lane.orders, os.getpid()

    def recorded(callback: Callable[..., object], *args: Any) -> None:
        if orders:
            on_lane.obey()
        whose = current.get()
        if whose is None:
            callback(*args)
            return
        on_lane.whose = whose
        presence.enter_lane(whose.place, time.monotonic_ns())
        try:
            callback(*args)
        except Exception as error:  # noqa: BLE001 - it goes where the loop sends such errors, while it is known whose it is
            loop.call_exception_handler({"message": f"Exception in callback {callback!r}", "exception": error})
        finally:
            end_if_forked(pid)
            presence.leave_lane()
            on_lane.whose = None

    return recorded
