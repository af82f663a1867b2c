"""An event loop whose time stands still, and moves only when its owner says so.

asyncio asks its selector to wait until something happens or the next timer is due. This one looks whether anything has
happened, and if not, whether anything still can without time going on. Somebody may be at work outside of the loop, a
thread or a service behind a socket: then it waits for real, and if a timer would be due by then, time goes on as much.
Otherwise the loop is *quiet*: whoever waits for that is told, and decides how far time moves.

So time never depends on how fast the code is, and a test that is run again sees the same times.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.engine.current import Current, current
from pyrula_runtime.stores.clock import ManualClock


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """Nothing can happen unless time moves, by `timer_ms` for the loop's next timer (None: it has none).

    `is_late`: that is not so, but whoever is at work outside of the loop was waited for long enough.
    """

    timer_ms: int | None
    is_late: bool = False


class _Selector(selectors.DefaultSelector):
    """The look at the world. `rest` is what the loop does when there is nothing to see."""

    rest: Callable[[float | None], list[Any]]

    def look(self, timeout: float | None) -> list[Any]:
        return super().select(timeout)

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        return ready if ready or (timeout is not None and timeout <= 0) else self.rest(timeout)


class SkippingLoop(asyncio.SelectorEventLoop):
    """The loop. `is_at_work` says whether somebody outside of it is, in whose work the loop takes part."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.is_at_work: Callable[[], bool] = lambda: False
        self.deadline_s = 0.0  # until when to wait for those at work, on the host's monotonic clock
        self._selector_of_ours = _Selector()
        self._selector_of_ours.rest = self._rest
        self._waiter: asyncio.Future[Quiet] | None = None
        self._executing = 0
        self._worked_at_ms = 0
        self._worked_s = 0.0  # how long others were waited for since time last moved
        super().__init__(self._selector_of_ours)
        # what is due at this very time is due: asyncio's own nanosecond is lost in the time of a long simulation
        self._clock_resolution = 1e-6
        self._own_files = len(self._selector_of_ours.get_map())

    def time(self) -> float:
        return self.clock.mono_ms() / 1000

    @property
    def is_executing(self) -> bool:
        """Whether work that was given to an executor (`asyncio.to_thread`) is not done."""
        return self._executing > 0

    @property
    def has_sockets(self) -> bool:
        """Whether somebody waits for a socket, or a pipe."""
        return len(self._selector_of_ours.get_map()) > self._own_files

    def timed(self) -> set[Current]:
        """The code of runs that waits for time to pass."""
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        waiting = {handle._context.get(current) for handle in scheduled if not handle.cancelled()}  # type: ignore[attr-defined]
        return {each for each in waiting if each is not None}

    def quiet(self) -> asyncio.Future[Quiet]:
        """Done when nothing can happen any more at the present time."""
        if self._waiter is not None and not self._waiter.done():
            raise UsageError("two at once wait for the loop to be quiet")
        self._waiter = self.create_future()
        return self._waiter

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = super().run_in_executor(executor, func, *args)
        self._executing += 1
        future.add_done_callback(self._executed)
        return future

    def _executed(self, _future: asyncio.Future[Any]) -> None:
        self._executing -= 1

    def _rest(self, timeout: float | None) -> list[Any]:
        """What the selector does when nothing has happened and the next timer is due in `timeout` seconds."""
        if self._waiter is None:
            return self._selector_of_ours.look(None)
        if not self.is_at_work():
            return self._tell(Quiet(timer_ms=None if timeout is None else _whole_ms(timeout)))
        return self._wait_for_work(timeout)

    def _wait_for_work(self, timeout: float | None) -> list[Any]:
        if self._worked_at_ms != self.clock.mono_ms():
            self._worked_at_ms, self._worked_s = self.clock.mono_ms(), 0.0
        left_s = math.inf if timeout is None else max(timeout - self._worked_s, 0.0)
        before_s = time.monotonic()
        patience_s = max(self.deadline_s - before_s, 0.0)
        ready = self._selector_of_ours.look(min(left_s, patience_s))
        if ready:
            self._worked_s += time.monotonic() - before_s
            return ready
        if timeout is not None and left_s <= patience_s:
            self.clock.move(_whole_ms(timeout))
            return []
        return self._tell(Quiet(timer_ms=None, is_late=True))

    def _tell(self, quiet: Quiet) -> list[Any]:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(quiet)
        return []


def _whole_ms(seconds: float) -> int:
    """Never early: whole milliseconds, at least one; without what floating point has added."""
    return max(1, math.ceil(round(seconds * 1000, 6)))
