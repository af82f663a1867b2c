"""Standing in for a worker that lives and cannot speak, because somebody holds its GIL: nothing of it runs, nor renews.

Its supervisor sees that and says how far to go. The locks of all that it holds are kept alive as soon as nothing is
heard of it, for whatever reason; once it is known to be mute its shards are handed to its neighbours, where a store has
several; later all runs but one go back to the queue, uncharged, and only the blocking one's lock is kept. What the
worker does on waking with a token that was handed back is refused by the store, so no harm is done if it wakes in
between.

Whatever it holds is asked of the store each time: a claim may have come to it while it stood still. The supervisor
repeats what it said while it is so; if it falls silent, nobody knows any more whether the worker lives, and its locks
may lapse as anybody's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import RunEvent, RunStatus, after
from pyrula_runtime.stores.partly import as_far_as_known
from pyrula_runtime.stores.protocol import Release, Store
from pyrula_runtime.wire import Stage, StandIn

log = logging.getLogger("pyrula.duties")

# renewals go to the store in groups of this size, so that one call stays short
_GROUP = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mute:
    stage: Stage
    keep: str
    told_ms: int


class StandingIn:
    """The round that stands in; to be made every third of a lock's life, and at once after `hear` says so."""

    def __init__(
        self,
        store: Store,
        lock_ttl_ms: int,
        mono_ms: Callable[[], int],
        evacuated: Callable[[str, tuple[str, ...]], None],
    ) -> None:
        self._store = store
        self._lock_ttl_ms = lock_ttl_ms
        self._mono_ms = mono_ms
        self._evacuated = evacuated
        self._mute: dict[str, _Mute] = {}

    @property
    def mute(self) -> frozenset[str]:
        """For whom it stands in."""
        return frozenset(self._mute)

    def hear(self, told: StandIn) -> bool:
        """Note what the supervisor says; whether there is something to do at once."""
        former = self._mute.get(told.incarnation)
        if told.stage is Stage.over:
            self.over(told.incarnation)
            return False
        self._mute[told.incarnation] = _Mute(stage=told.stage, keep=told.keep, told_ms=self._mono_ms())
        return former is None or (former.stage, former.keep) != (told.stage, told.keep)

    def over(self, incarnation: str) -> None:
        """This worker speaks again, or is dead."""
        self._mute.pop(incarnation, None)

    async def act(self) -> None:
        """Do for all of them what they cannot. Raises StoreUnavailable, once what can be done is done."""
        fault: StoreUnavailable | None = None
        for incarnation, mute in list(self._mute.items()):
            if self._mono_ms() - mute.told_ms > self._lock_ttl_ms:
                log.warning("nothing was heard of the mute worker %s for a lock's life: it is left alone", incarnation)
                self.over(incarnation)
                continue
            try:
                await self._stand_in_for(incarnation, mute)
            except StoreUnavailable as error:
                fault = fault or error
        if fault is not None:
            raise fault

    async def _stand_in_for(self, incarnation: str, mute: _Mute) -> None:
        holdings, fault = await as_far_as_known(self._store.holdings(incarnation))
        held = [each.token for each in holdings]
        for start in range(0, len(held), _GROUP):  # first of all: nothing else here is in a hurry
            renewal = self._store.renew(held[start : start + _GROUP], self._lock_ttl_ms)
            _, missed = await as_far_as_known(renewal)
            fault = fault or missed
        if mute.stage is Stage.evacuate:
            await self._evacuate(incarnation, [each for each in held if each.run_id != mute.keep])
        if mute.stage is not Stage.renew:
            await self._store.give_up_leases(incarnation)  # it can begin nothing; its neighbours can
        if fault is not None:
            raise fault

    async def _evacuate(self, incarnation: str, tokens: Sequence[Token]) -> None:
        status = after(RunStatus.running, RunEvent.release)
        releases = [self._store.release(Release(token=token, status=status, ready=True)) for token in tokens]
        answers = await asyncio.gather(*releases)
        if freed := tuple(token.run_id for token, is_ours in zip(tokens, answers, strict=True) if is_ours):
            log.warning(
                "handed back %d runs of the mute worker %s, uncharged: %s",
                len(freed),
                incarnation,
                ", ".join(freed),
                extra={"event": "lane:evacuated", "run_ids": freed},
            )
            self._evacuated(incarnation, freed)
