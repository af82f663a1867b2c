"""Burial: frees at once everything that a dead worker of this host still holds.

Who is dead is known in two ways. A supervisor has reaped its child and says so (`look`); or a black box, which carries
a record lock for its worker's life, has a free lock (`act`, see blackbox). No TTL and no scan is waited for. What the
dead incarnation holds is asked of the store, not of the box, and given back under its own fences: whoever tells it
twice changes nothing. Each dead is looked at twice, a second apart at least, before its box is removed, because a claim
may have been on its way to the store when the worker died.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyrula_runtime.blackbox import BoxView, find_dead, layout, read_box, remove
from pyrula_runtime.core.status import RunEvent, RunStatus, after
from pyrula_runtime.runtime_dir import boot_id
from pyrula_runtime.stores.protocol import Release, Store

log = logging.getLogger("pyrula.duties")

SECOND_LOOK_MS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look at a dead worker found: the runs it freed, and whether it was the last one that is needed."""

    freed: tuple[str, ...]
    final: bool


class Burial:
    """The round that buries; knows which dead were seen before. `now_ms` should be a clock that nobody sets."""

    def __init__(self, store: Store, directory: Path, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._directory = directory
        self._now_ms = now_ms
        self._first_seen: dict[str, int] = {}
        self.in_hand: set[str] = set()  # dead that somebody else looks at, so that the round need not

    async def act(self) -> None:
        """Bury whoever is dead now, as far as boxes tell."""
        dead = find_dead(self._directory, boot_id=boot_id(), store_identity=self._store.identity)
        still_there = {box.incarnation for box in dead} | self.in_hand
        self._first_seen = {who: at for who, at in self._first_seen.items() if who in still_there}
        for box in dead:
            if box.incarnation not in self.in_hand:
                is_news = box.incarnation not in self._first_seen
                look = await self.look(box.incarnation)
                if look.freed or is_news:
                    _tell(box, look.freed)

    async def look(self, incarnation: str) -> Look:
        """Free what this dead worker holds; the look that comes a second after the first one removes its traces."""
        freed = await free_all(self._store, incarnation)
        now_ms = self._now_ms()
        if now_ms - self._first_seen.setdefault(incarnation, now_ms) < SECOND_LOOK_MS:
            return Look(freed=freed, final=False)
        await self._store.retire(incarnation)
        box = read_box(layout.box_path(self._directory, incarnation))
        if box is not None and not box.held:
            remove(box)
        self._first_seen.pop(incarnation, None)
        return Look(freed=freed, final=True)


def _tell(box: BoxView, freed: tuple[str, ...]) -> None:
    held = f"its runs go on: {', '.join(freed)}" if freed else "it held no run"
    log.warning("worker %s (pid %d) died; %s", box.worker_id, box.pid, held)


async def free_all(store: Store, incarnation: str) -> tuple[str, ...]:
    """Hand back every run that an incarnation holds, all in one breath; the ids of those that were still held."""
    holdings = await store.holdings(incarnation)
    status = after(RunStatus.running, RunEvent.release)
    releases = (store.release(Release(token=holding.token, status=status, ready=True)) for holding in holdings)
    answers = await asyncio.gather(*releases)
    return tuple(holding.token.run_id for holding, is_ours in zip(holdings, answers, strict=True) if is_ours)
