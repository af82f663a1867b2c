"""The lanes of one store handle, one for each event loop that uses it."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress

from pyrula_runtime.stores.valkey.lane import Lane
from pyrula_runtime.stores.valkey.route import Route
from pyrula_runtime.stores.valkey.settings import Settings

_LOOK_S = 0.002  # between two looks whether another loop has finished: it cannot be awaited from here, and may die


class Lanes:
    """Makes a lane for each loop with its first call, and ends them all."""

    def __init__(self, route: Route, settings: Settings) -> None:
        self._route, self._settings = route, settings
        self._lanes: dict[asyncio.AbstractEventLoop, Lane] = {}
        self._mutex = threading.Lock()

    def open(self) -> None:
        """Begin anew."""
        self._lanes = {}

    def here(self) -> Lane:
        """The lane of the running loop."""
        lane = self._lanes.get(asyncio.get_running_loop())
        return lane or self._one_more()

    def _one_more(self) -> Lane:
        with self._mutex:
            for loop, lane in list(self._lanes.items()):
                if loop.is_closed():  # a loop that ended without closing the store, such as a sync client's
                    lane.shut()
                    del self._lanes[loop]
            lane = self._lanes[asyncio.get_running_loop()] = Lane(self._route, self._settings)
            return lane

    async def close(self) -> None:
        """Finish every lane: this loop's here, the others' on their loops; one whose loop does not turn is shut."""
        with self._mutex:
            lanes, self._lanes = list(self._lanes.values()), {}
        await asyncio.gather(*[self._end(lane) for lane in lanes])

    async def _end(self, lane: Lane) -> None:
        if lane.loop is asyncio.get_running_loop():
            await lane.finish()
            return
        finished = threading.Event()
        with suppress(RuntimeError):  # closed between two lines
            lane.loop.call_soon_threadsafe(_finish, lane, finished)
        deadline_s = time.monotonic() + self._settings.close_s
        # no event of this loop tells that another one has stopped
        while lane.loop.is_running() and not finished.is_set() and time.monotonic() < deadline_s:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)
        if not finished.is_set():
            lane.shut()


def _finish(lane: Lane, finished: threading.Event) -> None:
    task = lane.loop.create_task(lane.finish(), name="pyrula-store-finish")
    task.add_done_callback(lambda _: finished.set())
