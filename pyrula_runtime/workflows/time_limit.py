"""`async with ctx.timeout(seconds)`: a limit that is journaled, so it strikes at the same place in every replay.

It works as `asyncio.timeout` does: when the time is over, the task that holds it is cancelled inside of the block, and
the cancel leaves the block as `WaitTimeout`. A cancel that came from elsewhere stays one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any

from pyrula_runtime.core.errors import WaitTimeout


class TimeLimit:
    """One limit, for one `async with`."""

    def __init__(self, begin: Callable[[], asyncio.Future[Any]]) -> None:
        self._begin = begin
        self._late: WaitTimeout | None = None

    async def __aenter__(self) -> TimeLimit:
        """The time begins."""
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancels = task.cancelling()
        self._wait = self._begin()
        self._wait.add_done_callback(self._is_over)
        return self

    def _is_over(self, wait: asyncio.Future[Any]) -> None:
        error = None if wait.cancelled() else wait.exception()
        if isinstance(error, WaitTimeout):  # else the turn ends here
            self._late = error
            self._task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The time is not counted any more."""
        self._wait.remove_done_callback(self._is_over)
        self._wait.cancel()
        late = self._late
        if late is not None and self._task.uncancel() <= self._cancels and isinstance(error, asyncio.CancelledError):
            raise late from error
