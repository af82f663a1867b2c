"""Burial: frees at once everything that a dead worker of this host still holds.

A worker's black box carries a record lock for the worker's life, so a free lock is proof of death (see blackbox); no
TTL and no scan is waited for. What the dead incarnation holds is asked of the store, not of the box, and given back
under its own fences: whoever tells it twice changes nothing. Each dead is looked at twice, a second apart at least,
before its box is removed, because a claim may have been on its way to the store when the worker died.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from pyrula_runtime.blackbox import BoxView, find_dead, remove
from pyrula_runtime.core.status import RunEvent, RunStatus, after
from pyrula_runtime.runtime_dir import boot_id
from pyrula_runtime.stores.protocol import Release, Store

log = logging.getLogger("pyrula.duties")

_SECOND_LOOK_MS = 1_000


class Burial:
    """The round that buries; knows which dead were seen before."""

    def __init__(self, store: Store, directory: Path, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._directory = directory
        self._now_ms = now_ms
        self._first_seen: dict[str, int] = {}

    async def act(self) -> None:
        """Bury whoever is dead now."""
        dead = find_dead(self._directory, boot_id=boot_id(), store_identity=self._store.identity)
        still_there = {box.incarnation for box in dead}
        self._first_seen = {who: at for who, at in self._first_seen.items() if who in still_there}
        for box in dead:
            freed = await free_all(self._store, box.incarnation)
            if freed or box.incarnation not in self._first_seen:
                _tell(box, freed)
            first = self._first_seen.setdefault(box.incarnation, self._now_ms())
            if self._now_ms() - first >= _SECOND_LOOK_MS:
                await self._store.retire(box.incarnation)
                remove(box)
                del self._first_seen[box.incarnation]


def _tell(box: BoxView, freed: tuple[str, ...]) -> None:
    held = f"its runs go on: {', '.join(freed)}" if freed else "it held no run"
    log.warning("worker %s (pid %d) died; %s", box.worker_id, box.pid, held)


async def free_all(store: Store, incarnation: str) -> tuple[str, ...]:
    """Hand back every run that an incarnation holds; the ids of those that were still held."""
    freed = []
    for holding in await store.holdings(incarnation):
        status = after(RunStatus.running, RunEvent.release)
        if await store.release(Release(token=holding.token, status=status, ready=True)):
            freed.append(holding.token.run_id)
    return tuple(freed)
