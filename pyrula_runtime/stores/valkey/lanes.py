"""The lanes of one store handle: for each event loop that uses it, one to each server that has shards."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

from pyrula_runtime.stores.valkey.lane import Lane
from pyrula_runtime.stores.valkey.route import Node, Route
from pyrula_runtime.stores.valkey.settings import Settings

_LOOK_S = 0.002  # between two looks whether another loop has finished: it cannot be awaited from here, and may die
_OfLoop = dict[Node | None, Lane]


class Lanes:
    """Makes a lane with the first call of a loop to a server, and ends them all."""

    def __init__(self, route: Route, settings: Settings) -> None:
        self._route, self._settings = route, settings
        self._lanes: dict[asyncio.AbstractEventLoop, _OfLoop] = {}
        self._mutex = threading.Lock()

    def open(self) -> None:
        """Begin anew."""
        self._lanes = {}

    def to(self, tag: str) -> Lane:
        """The lane of the running loop to whoever has this tag."""
        loop, node = asyncio.get_running_loop(), self._route.node_of(tag)
        ours = self._lanes.get(loop)
        if ours is None or node not in ours:
            return self._one_more(loop, node)
        return ours[node]

    def _one_more(self, loop: asyncio.AbstractEventLoop, node: Node | None) -> Lane:
        with self._mutex:
            for other, lanes in list(self._lanes.items()):
                if other.is_closed():  # a loop that ended without closing the store, such as a sync client's
                    for lane in lanes.values():
                        lane.shut()
                    del self._lanes[other]
            lane = self._lanes.setdefault(loop, {})[node] = Lane(self._route, self._settings, node)
            return lane

    async def close(self) -> None:
        """Finish every lane: this loop's here, the others' on their loops; one whose loop does not turn is shut."""
        with self._mutex:
            lanes, self._lanes = list(self._all()), {}
        await asyncio.gather(*[self._end(lane) for lane in lanes])

    def _all(self) -> Iterator[Lane]:
        for lanes in self._lanes.values():
            yield from lanes.values()

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
