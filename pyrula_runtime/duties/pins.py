"""Watching for runs whose version nobody serves any more, as after a deploy that took the old code away too early."""

from __future__ import annotations

from collections.abc import Mapping

from pyrula_runtime.core.pins import Pin, unserved
from pyrula_runtime.core.why import SILENT_AFTER_MS
from pyrula_runtime.stores.protocol import Store


class PinWatch:
    """What two looks in a row have found: workers that are about to start have not told what they serve yet."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._before: Mapping[Pin, int] = {}

    async def look(self, pins: Mapping[Pin, int]) -> Mapping[Pin, int]:
        """Those of these pins that nobody serves, with the number of their runs, most runs first."""
        found: Mapping[Pin, int] = {}
        if pins:
            live = [worker for worker in await self._store.workers() if worker.age_ms < SILENT_AFTER_MS]
            found = unserved(pins, {(each.workflow, each.version) for worker in live for each in worker.serves})
        before, self._before = self._before, found
        return {pin: runs for pin, runs in found.items() if pin in before}
