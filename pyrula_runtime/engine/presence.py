"""Who executes: written down before the code gets control, so that it can be read when nobody can be asked any more.

Three places are watched. A *body* is driven from the lane under `DrivenBody`. Everything else that runs on the lane's
loop, steps and the tasks, callbacks and timers they start, comes by a callback of the loop (see lane_loop). A *thread*
says it itself, and says that it does nothing while it waits for the outcomes of steps.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from pyrula_runtime.blackbox import NO_SLOT, Place
from pyrula_runtime.engine.body import AsyncBody
from pyrula_runtime.engine.current import Current
from pyrula_runtime.engine.forks import end_if_forked
from pyrula_runtime.engine.on_lane import OnLane

Returned = TypeVar("Returned")


class Presence(Protocol):
    """What a lane writes down; the black box is the one that counts."""

    def lane_thread(self, thread_id: int) -> None:
        """The kernel's id of the lane's thread."""

    def beat_lane(self, ms: int) -> None:
        """The lane's loop was here at this monotonic time."""

    def watch_thread(self, thread_id: int) -> None:
        """The kernel's id of the watchdog's thread."""

    def beat_watch(self, ms: int) -> None:
        """The watchdog's thread was here, with the GIL, at this monotonic time."""

    def collecting(self, since_ms: int, total_ms: int) -> None:
        """Python collects garbage since then (0: it does not), and has done so for that long in all before."""

    def lane_busy_since_ms(self) -> int:
        """Since when the lane executes one piece of code of one run; 0: it does not. Any thread."""

    def enter_lane(self, place: Place, at_ns: int) -> None:
        """The lane executes this since that monotonic nanosecond."""

    def leave_lane(self) -> None:
        """The lane executes no turn from now on."""

    def enter_thread(self, place: Place, at_ns: int) -> int:
        """The calling thread executes this since then; gives what `leave_thread` takes."""

    def leave_thread(self, slot: int) -> None:
        """That thread executes no turn from now on."""

    def hold(self, run_id: str, fence: int) -> int:
        """This run is in flight here; gives what `drop` takes."""

    def drop(self, slot: int) -> None:
        """That run is in flight no more."""


class Unrecorded:
    """Where nobody looks, nothing is written down."""

    def lane_thread(self, thread_id: int) -> None: ...

    def beat_lane(self, ms: int) -> None: ...

    def watch_thread(self, thread_id: int) -> None: ...

    def beat_watch(self, ms: int) -> None: ...

    def collecting(self, since_ms: int, total_ms: int) -> None: ...

    def lane_busy_since_ms(self) -> int:
        return 0

    def enter_lane(self, place: Place, at_ns: int) -> None: ...

    def leave_lane(self) -> None: ...

    def enter_thread(self, place: Place, at_ns: int) -> int:
        return NO_SLOT

    def leave_thread(self, slot: int) -> None: ...

    def hold(self, run_id: str, fence: int) -> int:
        return NO_SLOT

    def drop(self, slot: int) -> None: ...


def mono_ms() -> int:
    """The monotonic clock that all processes of a host share."""
    return time.monotonic_ns() // 1_000_000


class ThreadSpan:
    """One thread's stay in the code of a run."""

    def __init__(self, presence: Presence, place: Place) -> None:
        self.place = place
        self._presence = presence
        self._slot = NO_SLOT
        self._pid = os.getpid()

    def enter(self) -> None:
        """The code goes on."""
        self._slot = self._presence.enter_thread(self.place, time.monotonic_ns())

    def leave(self) -> None:
        """The code waits, or is over."""
        end_if_forked(self._pid)
        self._presence.leave_thread(self._slot)
        self._slot = NO_SLOT

    def around(self, work: Callable[[], Returned]) -> Returned:
        """Do the work, in this thread."""
        self.enter()
        try:
            return work()
        finally:
            self.leave()


class DrivenBody:
    """An async body with the note of whose code is running: what watchdog and black box go by."""

    def __init__(self, body: AsyncBody, whose: Current, on_lane: OnLane, presence: Presence) -> None:
        self._body = body
        self._whose = whose
        self._on_lane = on_lane
        self._presence = presence
        self._pid = os.getpid()
        self._is_suspended = False
        self.is_parked = True

    def start(self) -> None:
        self._drive(self._body.start)

    def deliver(self, op: Any, value: object, error: BaseException | None) -> None:
        self._drive(self._body.deliver, op, value, error)

    def strike(self) -> None:
        self._drive(self._body.strike)

    def suspend(self) -> None:
        self._is_suspended = True
        self._run(self._body.suspend)

    def _drive(self, act: Callable[..., None], *args: object) -> None:
        if self._on_lane.orders:
            self._on_lane.obey()
            if self._is_suspended:  # that was one of the orders
                return
        self._run(act, *args)

    def _run(self, act: Callable[..., None], *args: object) -> None:
        on_lane, presence, whose = self._on_lane, self._presence, self._whose
        outer, on_lane.whose = on_lane.whose, whose
        presence.enter_lane(whose.place, time.monotonic_ns())
        try:
            act(*args)
        finally:
            end_if_forked(self._pid)
            on_lane.whose = outer
            if outer is None:
                presence.leave_lane()
            else:
                presence.enter_lane(outer.place, time.monotonic_ns())
