"""Isolated turns that hang: they delay nobody, but must not live for ever.

Their loops are asked for an answer with every renewal of locks. A loop that has not turned for as long as its turn's
code may keep it (core.locks) does so no more: the run is released with a charge and its evidence, as if it had blocked
a lane, and the turn is given up. Its place is free then; its thread is left to itself, since nothing can end it.

What counts is time in which this round was made on time. A process that was stopped, frozen or starved makes it late,
and finds its loops unanswered through no fault of theirs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from pyrula_runtime.core.locks import Token
from pyrula_runtime.engine.conviction import Court
from pyrula_runtime.engine.current import Current
from pyrula_runtime.engine.isolated import IsolatedTurn
from pyrula_runtime.engine.lanes import Lanes
from pyrula_runtime.engine.watchdog import Block, block_on
from pyrula_runtime.stores.clock import Clock

log = logging.getLogger("pyrula.worker")


class Hung:
    """The round that finds them. `limit_of` says for how many seconds a workflow's code may keep its loop."""

    def __init__(
        self, lanes: Lanes, court: Court, limit_of: Callable[[str], float], period_s: float, clock: Clock
    ) -> None:
        self._lanes = lanes
        self._court = court
        self._limit_of = limit_of
        self._period_s = period_s
        self._clock = clock
        self._looked_ms = clock.mono_ms()
        self._silent_s: dict[Token, float] = {}

    async def act(self) -> None:
        """Look at each isolated turn once."""
        now_ms = self._clock.mono_ms()
        passed_s = min((now_ms - self._looked_ms) / 1000, 2 * self._period_s)
        self._looked_ms = now_ms
        turns = [turn for turn in self._lanes.isolated() if not turn.over.done()]
        silent = {turn.claim.token: self._silent_s.get(turn.claim.token, 0.0) for turn in turns if not turn.answered}
        self._silent_s = {token: silent_s + passed_s for token, silent_s in silent.items()}
        for turn in turns:
            for_s = self._silent_s.get(turn.claim.token)
            if for_s is None:
                turn.ask()
            elif for_s >= self._limit_of(turn.claim.workflow):
                await self._give_up(turn, for_s)

    async def _give_up(self, turn: IsolatedTurn, for_s: float) -> None:
        """StoreUnavailable: the next round tries again."""
        block = _block(turn, for_s)
        await self._court.charge(block, self._clock.wall_ms())
        self._lanes.give_up(turn)
        log.error(
            "isolated turn given up: its code has kept its event loop for %.1f s, at %s; its thread is abandoned\n%s",
            for_s,
            block.line,
            block.stack.rstrip(),
            extra={"event": "turn:abandoned", "run_id": turn.claim.token.run_id, "workflow": turn.claim.workflow},
        )


def _block(turn: IsolatedTurn, for_s: float) -> Block:
    """What keeps the turn's loop; it is the turn's, also where no task tells whose it is."""
    block = block_on(turn.lane, for_s)
    if block.whose is not None and block.whose.run_id == turn.claim.token.run_id:
        return block
    return replace(block, whose=Current(run_id=turn.claim.token.run_id, workflow=turn.claim.workflow))
