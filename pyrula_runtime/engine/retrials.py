"""Suspects in a worker that has no supervisor: each runs alone, between the worker's other work.

A suspect is claimed like any run, by a claim of its own kind. From then on nothing else is claimed, by no last commit
either; what runs is finished; the suspect runs; and then the worker goes on as before, until the next look. So a stream
of suspects gets a turn now and then, and ordinary work all the rest of the time.

It is claimed before the others have finished, so that of several workers one makes room and not all of them; and a
worker that has something to finish leaves a suspect to idle ones for one look.

| state | and then | becomes |
|---|---|---|
| none | a suspect waits, and nobody has taken it since the last look, or nothing runs here | waiting |
| waiting | the others have finished | alone |
| waiting | it was given back meanwhile (the lane is stuck) | none |
| alone | its turn is over | none |
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from pyrula_runtime.core.locks import Token
from pyrula_runtime.engine.claiming import Claiming
from pyrula_runtime.engine.coming import Coming
from pyrula_runtime.engine.commons import Commons
from pyrula_runtime.engine.lane_setup import LaneSetup
from pyrula_runtime.stores.partly import as_far_as_known
from pyrula_runtime.stores.protocol import Claim

log = logging.getLogger("pyrula.worker")


class Keeper(Protocol):
    """Who has the turns."""

    @property
    def draining(self) -> bool:
        """Whether no turn begins any more."""

    def held(self) -> list[Token]:
        """The tokens of all runs that are turns here, or soon will be."""

    def take(self, claims: Sequence[Claim]) -> None:
        """Start a turn for each claim soon; their slots are taken already."""


class Retrials:
    """The round; `look` nudges what depends on whether the worker claims."""

    def __init__(
        self, setup: LaneSetup, keeper: Keeper, commons: Commons, claiming: Claiming, look: Callable[[], None]
    ) -> None:
        self.nudge = asyncio.Event()
        self._setup = setup
        self._keeper = keeper
        self._coming: Coming = commons.coming
        self._no_successors = commons.no_successors
        self._claiming = claiming
        self._look = look
        self._was_left = False  # at the last look a suspect waited, and was left to others
        self._claim: Claim | None = None
        self._began = False

    @property
    def makes_room(self) -> bool:
        """Whether nothing else is claimed here."""
        return self._claim is not None

    @property
    def is_alone(self) -> bool:
        """Whether what runs here is one suspect and nothing else."""
        return self._began

    def slot_came_free(self) -> None:
        """A turn has ended here."""
        if self._claim is not None:
            self.nudge.set()

    def drain(self) -> None:
        """The worker drains: a suspect that has not begun goes back."""
        if self._claim is not None and not self._began:
            self._hand_over(self._claim)  # which gives it back, since the worker drains

    async def act(self) -> None:
        """Go as far as possible."""
        if self._claim is None and not self._keeper.draining:
            await self._find()
        if self._claim is not None and not self._began:
            self._begin(self._claim)
        if self._claim is not None and self._began and self._claim.token not in self._keeper.held():
            self._go_on()

    async def _find(self) -> None:
        suspects, fault = await as_far_as_known(self._setup.store.suspects())
        if not suspects:
            self._was_left = False
            if fault is not None:
                raise fault
            return
        if self._keeper.held() and not self._was_left:
            self._was_left = True
            return
        self._was_left = False
        self._setup.slots.overfill(1)
        claims: Sequence[Claim] = ()
        try:
            claims = await self._setup.store.claim(replace(self._setup.claim_request(1), suspects=True))
        finally:
            if not claims:
                self._setup.slots.give(1)
        for claim in claims:
            self._claim, self._began = claim, False
            self._coming.add([claim.token])
            self._coming.seen(claim.token)  # it is not the lane that lets it wait
            self._claiming.paused = True
            self._no_successors.set()
            self._look()
            others = len(self._keeper.held()) - 1
            log.warning(
                "a suspect is to run alone here: %d other runs are finished first, and nothing is claimed meanwhile",
                others,
                extra=_fields(claim),
            )

    def _begin(self, claim: Claim) -> None:
        if not self._coming.is_wanted(claim.token):
            self._coming.done(claim.token)
            self._setup.slots.give(1)
            self._go_on()
        elif set(self._keeper.held()) <= {claim.token}:
            self._hand_over(claim)

    def _hand_over(self, claim: Claim) -> None:
        if self._coming.withdraw(claim.token):
            self._began = True
            self._keeper.take([claim])

    def _go_on(self) -> None:
        self._claim, self._began = None, False
        self._claiming.paused = False
        self._no_successors.clear()
        self._look()


def _fields(claim: Claim) -> dict[str, str]:
    return {"run_id": claim.token.run_id, "workflow": claim.workflow, "event": "run:retrial"}
