"""A thread with an event loop that works for code without one, for any number of threads at once."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from pyrula_runtime.client.door import CLOSED
from pyrula_runtime.core.errors import UsageError

R = TypeVar("R")


class LoopThread:
    """A thread that runs coroutines for others. Its thread does not survive a fork, and it says so."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._is_closed = False

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Run `work` on the loop and wait for it."""
        with self._mutex:  # so that whatever is begun before the end is waited for there
            fault = self._fault()
            if fault:
                work.close()
                raise UsageError(fault)
            future = asyncio.run_coroutine_threadsafe(work, self._started())
        try:
            return future.result()
        finally:
            future.cancel()  # an interrupt ended the wait; after an answer it does nothing

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Run the last word, let what is under way end, and stop. Idempotent."""
        with self._mutex:
            loop, self._loop = self._loop, None
            self._is_closed = True
        if loop is None or self._thread is None or self._pid != os.getpid():
            last.close()
            return
        asyncio.run_coroutine_threadsafe(_wound_up(last), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()

    def _fault(self) -> str:
        if self._is_closed:
            return CLOSED
        if self._loop is not None and self._pid != os.getpid():
            return "this client was used before the process was forked; make a new one in each process"
        return ""

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
            self._thread = threading.Thread(target=self._loop.run_forever, name="pyrula-client", daemon=True)
            self._thread.start()
        return self._loop


async def _wound_up(last: Coroutine[Any, Any, None]) -> None:
    await last
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_default_executor()
