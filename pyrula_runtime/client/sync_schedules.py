"""The schedules of a store for code without an event loop: the same names, each call waiting for its answer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyrula_runtime.client.handle import RunHandle
from pyrula_runtime.client.loop_thread import LoopThread
from pyrula_runtime.client.schedules import Schedules, ScheduleSummary

if TYPE_CHECKING:
    from pyrula_runtime.client.sync import SyncRunHandle


class SyncSchedules:
    """The schedules of a client's store: `client.schedules`. A schedule has the name of its workflow."""

    def __init__(
        self,
        thread: LoopThread,
        schedules: Schedules,
        handle: Callable[[RunHandle[Any]], SyncRunHandle[Any]],
    ) -> None:
        self._thread = thread
        self._schedules = schedules
        self._handle = handle

    def list(self) -> tuple[ScheduleSummary, ...]:
        """All schedules, in order of their names."""
        return self._thread.run(self._schedules.list())

    def pause(self, name: str) -> None:
        """Let it fire no more until it is resumed; runs that have begun go on."""
        self._thread.run(self._schedules.pause(name))

    def resume(self, name: str) -> None:
        """Let it fire again, from now on: what came meanwhile is not made up for."""
        self._thread.run(self._schedules.resume(name))

    def trigger(self, name: str) -> SyncRunHandle[Any]:
        """Begin a run now, beside those of its times. IllegalTransition if its policy keeps it from that."""
        return self._handle(self._thread.run(self._schedules.trigger(name)))

    def backfill(self, name: str, start: datetime, end: datetime) -> tuple[SyncRunHandle[Any], ...]:
        """Begin runs of the times from `start` up to `end` (not included) that have none; all of them at once.

        Both are datetimes with a time zone, and over. The runs that were made are returned, in order of their times.
        """
        return tuple(map(self._handle, self._thread.run(self._schedules.backfill(name, start, end))))

    def times(self, name: str, start: datetime, end: datetime) -> tuple[datetime, ...]:
        """The times from `start` up to `end` (not included), both with a time zone; at most 10,000."""
        return self._thread.run(self._schedules.times(name, start, end))

    def next(self, name: str, count: int = 5) -> tuple[datetime, ...]:
        """The next times, jitter left aside, in the time zone of the schedule; whether or not it is paused."""
        return self._thread.run(self._schedules.next(name, count))

    def drop(self, name: str) -> None:
        """Forget a schedule; its runs go on. One that the code of a worker still declares comes back."""
        self._thread.run(self._schedules.drop(name))
