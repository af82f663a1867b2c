"""A lane's intake: from a claim that has arrived to the turn it becomes, or back to the store.

Between the two a journal may have to be read on, the worker may begin to drain, and the claim's token may die. Who asks
what is held here is told of claims on their way, too, and a token can be forsworn: then no turn ever begins for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.status import RunEvent, RunStatus, after
from pyrula_runtime.engine.commons import Commons
from pyrula_runtime.engine.lane_setup import LaneSetup
from pyrula_runtime.stores.protocol import Claim, Release

log = logging.getLogger("pyrula.lane")


class Intake:
    """One lane's intake; on the lane's thread, but for `coming`, which is for any."""

    def __init__(self, setup: LaneSetup, commons: Commons, begin: Callable[[Claim, Sequence[bytes]], None]) -> None:
        self.coming = commons.coming
        self._drain = commons.drain
        self._setup = setup
        self._store = setup.store
        self._begin = begin
        self._chores: set[asyncio.Task[None]] = set()

    def accept(self, claims: Sequence[Claim]) -> None:
        """Begin a turn for each claim, or hand it back."""
        self.coming.add(claim.token for claim in claims)
        self.start(claims)

    def start(self, claims: Sequence[Claim]) -> None:
        """The same for claims that are known to come."""
        for claim in claims:
            if self._turns_away(claim):
                continue
            if len(claim.journal) < claim.journal_len:
                self.coming.seen(claim.token)
                self.spawn(self._read_on(claim))
            else:
                self._enter(claim, claim.journal)

    def hand_back(self, claim: Claim, error: bytes | None = None) -> None:
        """Give a claim back that is no turn; with an error the run is paused until somebody looks."""
        event = RunEvent.release if error is None else RunEvent.mismatch
        status = after(RunStatus.running, event)
        release = Release(token=claim.token, status=status, ready=error is None, error=error)
        self.coming.done(claim.token)
        self.spawn(self.release(release))
        self._setup.free_slot()

    async def release(self, release: Release) -> None:
        """Tell the store, if it can be told."""
        try:
            await self._store.release(release)
        except StoreUnavailable as error:  # it is a stray from now on (see strays), or a burial frees it
            log.warning("cannot hand the run back: %s", error, extra={"run_id": release.token.run_id})

    async def _read_on(self, claim: Claim) -> None:
        journal = list(claim.journal)
        try:
            while len(journal) < claim.journal_len:
                page = await self._store.read_journal(claim.token.run_id, len(journal))
                if not page:  # a failover has lost its end, or the run is somebody else's by now and went on as new
                    log.warning("the journal has become shorter since the claim", extra={"run_id": claim.token.run_id})
                    self.hand_back(claim)
                    return
                journal += page
        except StoreUnavailable as error:
            log.warning("cannot read the journal: %s", error, extra={"run_id": claim.token.run_id})
            self.hand_back(claim)
            return
        if not self._turns_away(claim):
            self._enter(claim, journal)

    def _enter(self, claim: Claim, journal: Sequence[bytes]) -> None:
        if self.coming.begin(claim.token):
            self._begin(claim, journal)
        else:
            self._forget(claim)

    def _turns_away(self, claim: Claim) -> bool:
        """Whether no turn may begin: somebody else has decided about the claim meanwhile, or the worker drains."""
        if not self.coming.is_wanted(claim.token):
            self._forget(claim)
            return True
        if self._drain.is_set():
            self.hand_back(claim)
            return True
        return False

    def _forget(self, claim: Claim) -> None:
        self.coming.done(claim.token)
        self._setup.free_slot()

    async def settle(self) -> None:
        """Return when the store has been told of all that was handed back."""
        if self._chores:
            await asyncio.wait(self._chores)

    def give_up(self) -> None:
        """The lane ends: nobody hears what the store answers any more."""
        for chore in self._chores:
            chore.cancel()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this beside the turns, as long as the lane lives."""
        task = asyncio.get_running_loop().create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)
