"""The lanes of one store handle, one for each event loop that uses it."""

from __future__ import annotations

import asyncio
import threading

from pyrula_runtime.stores.valkey.address import Address
from pyrula_runtime.stores.valkey.lane import Lane
from pyrula_runtime.stores.valkey.settings import Settings


class Lanes:
    """Makes a lane for each loop with its first call, and ends them all."""

    def __init__(self, address: Address, settings: Settings) -> None:
        self._address, self._settings = address, settings
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
            lane = self._lanes[asyncio.get_running_loop()] = Lane(self._address, self._settings)
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
        if lane.loop.is_running():
            elsewhere = asyncio.run_coroutine_threadsafe(lane.finish(), lane.loop)
            try:
                await asyncio.wait_for(asyncio.wrap_future(elsewhere), self._settings.close_s)
            except TimeoutError:
                lane.shut()
        else:
            lane.shut()
