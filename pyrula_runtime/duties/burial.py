"""Burial: frees at once everything that a dead worker of this host still holds, and judges what its death means.

Who is dead is known in two ways. A supervisor has reaped its child and says so (`look`, with what it found); or a black
box, which carries a record lock for its worker's life, has a free lock (`act`, see blackbox). No TTL and no scan is
waited for. What the dead incarnation holds is asked of the store, not of the box, and given back under its own fences:
whoever tells it twice changes nothing. Each dead is looked at twice, a second apart at least, before its traces are
removed, because a claim may have been on its way to the store when the worker died.

A round leaves the children of a living supervisor alone for a while: their parent knows why they ended, and tells its
clerk. Who came first would judge without that, and the run that killed its worker would go free.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pyrula_runtime import stacks
from pyrula_runtime.blackbox import BoxView, find_dead, layout, read_box, remove
from pyrula_runtime.core.blame import Budget, Cause
from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.status import RunEvent, RunStatus, after
from pyrula_runtime.duties.blaming import Blamed, Freed, free_by
from pyrula_runtime.duties.carrying import carry
from pyrula_runtime.duties.inquest import PLAIN, Witnesses, begun_of, death_for, death_of
from pyrula_runtime.runtime_dir import boot_id
from pyrula_runtime.stores.clock import Clock
from pyrula_runtime.stores.partly import as_far_as_known
from pyrula_runtime.stores.protocol import Holding, Release, Store
from pyrula_runtime.wire import Finding

log = logging.getLogger("pyrula.duties")

SECOND_LOOK_MS = 1_000
# for so long a round leaves a dead child to its living parent: two looks of its clerk and some
PARENTS_TURN_MS = 3_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look at a dead worker found: what it freed, whom it blamed, whether it was the last that is needed.

    `fault` is why not all of it could be done: whoever looked comes back for the rest.
    """

    freed: tuple[str, ...]
    blamed: tuple[Blamed, ...]
    final: bool
    fault: StoreUnavailable | None = None


class Burial:
    """The round that buries; knows which dead were seen before.

    `told` hears of every run that the round has blamed; what `look` finds is its caller's to tell.
    """

    def __init__(
        self,
        store: Store,
        directory: Path,
        clock: Clock,
        budget: Budget,
        told: Callable[[str, Blamed], None] = lambda incarnation, blamed: None,
    ) -> None:
        self._store = store
        self._directory = directory
        self._clock = clock
        self._budget = budget
        self._told = told
        self._first_seen: dict[str, int] = {}  # by whoever is dead and was looked at
        self._noticed: dict[str, int] = {}  # by whoever is dead and was left to its parent
        self._half_known: set[str] = set()  # dead of whom some runs were freed while others could not be seen
        self.in_hand: set[str] = set()  # dead that somebody else looks at, so that the round need not

    async def act(self) -> None:
        """Bury whoever is dead now, as far as boxes tell. Raises StoreUnavailable, once what can be done is done."""
        dead = find_dead(self._directory, boot_id=boot_id(), store_identity=self._store.identity)
        still_there = {box.incarnation for box in dead} | self.in_hand
        self._first_seen = {who: at for who, at in self._first_seen.items() if who in still_there}
        self._noticed = {who: at for who, at in self._noticed.items() if who in still_there}
        self._half_known &= still_there
        fault: StoreUnavailable | None = None
        for box in dead:
            if box.incarnation not in self.in_hand and not self._is_parents(box):
                is_news = box.incarnation not in self._first_seen
                look = await self.look(box.incarnation)
                if look.freed or (is_news and look.fault is None):
                    _tell(box, look.freed)
                for blamed in look.blamed:
                    self._told(box.incarnation, blamed)
                fault = fault or look.fault
        if fault is not None:
            raise fault

    def _is_parents(self, box: BoxView) -> bool:
        """Whether this dead is to be left to its supervisor for now."""
        if box.role == PLAIN or box.incarnation in self._first_seen or not _lives(box.parent_pid):
            return False
        now_ms = self._clock.mono_ms()
        return now_ms - self._noticed.setdefault(box.incarnation, now_ms) < PARENTS_TURN_MS

    async def look(self, incarnation: str, finding: Finding | None = None) -> Look:
        """Free what this dead worker holds; the look that comes a second after the first one removes its traces.

        Raises StoreUnavailable if nothing is known of what it holds.
        """
        holdings, fault = await as_far_as_known(self._store.holdings(incarnation))
        if fault is not None and holdings:
            self._half_known.add(incarnation)  # also later: what is left then was not alone
        freed = await self._free(incarnation, holdings, finding)
        # and what its last writes do to other runs
        for rest in (partial(self._store.give_up_leases, incarnation), partial(carry, self._store)):
            try:
                await rest()
            except StoreUnavailable as error:
                fault = fault or error
        if fault is not None:
            return Look(freed=freed.run_ids, blamed=freed.blamed, final=False, fault=fault)
        now_ms = self._clock.mono_ms()
        if now_ms - self._first_seen.setdefault(incarnation, now_ms) < SECOND_LOOK_MS:
            return Look(freed=freed.run_ids, blamed=freed.blamed, final=False)
        await self._store.retire(incarnation)
        box = read_box(layout.box_path(self._directory, incarnation))
        if box is not None and not box.held:
            remove(box)
        stacks.forget(stacks.stack_path(self._directory, incarnation))
        self._first_seen.pop(incarnation, None)
        self._half_known.discard(incarnation)
        return Look(freed=freed.run_ids, blamed=freed.blamed, final=True)

    async def _free(self, incarnation: str, holdings: Sequence[Holding], finding: Finding | None) -> Freed:
        if not holdings:
            return Freed(run_ids=(), blamed=())
        seen = Witnesses(
            incarnation=incarnation,
            box=read_box(layout.box_path(self._directory, incarnation)),
            note=stacks.crash_of(stacks.stack_path(self._directory, incarnation)),
            finding=finding,
        )
        tokens = [each.token for each in holdings]
        death = death_of(seen, tokens, self._clock.wall_ms(), self._clock.mono_ms())
        # whose box does not say who was in flight, of him only the whole store does
        is_known = incarnation not in self._half_known or (seen.box is not None and seen.box.in_flight_complete)
        begun = begun_of(seen.box, tokens) if is_known else frozenset()
        unconcerned = replace(death, cause=Cause.blameless)
        deaths = [(each, death_for(seen, each, death) if each.token in begun else unconcerned) for each in holdings]
        return await free_by(self._store, deaths, self._budget)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _tell(box: BoxView, freed: tuple[str, ...]) -> None:
    held = f"its runs are free again: {', '.join(freed)}" if freed else "it held no run"
    log.warning("worker %s (pid %d) died; %s", box.worker_id, box.pid, held)


async def free_all(store: Store, incarnation: str) -> tuple[str, ...]:
    """Hand back every run that an incarnation holds, all in one breath, blaming none; the ids of those still held."""
    holdings = await store.holdings(incarnation)
    status = after(RunStatus.running, RunEvent.release)
    releases = (store.release(Release(token=holding.token, status=status, ready=True)) for holding in holdings)
    answers = await asyncio.gather(*releases)
    return tuple(holding.token.run_id for holding, is_ours in zip(holdings, answers, strict=True) if is_ours)
