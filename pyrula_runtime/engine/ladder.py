"""The rungs that a stuck lane climbs inside its own worker, as long as the GIL is free.

| the same code has the lane for | what happens |
|---|---|
| `evacuate_after` | the lane's other runs are handed back, uncharged; if nobody knows whose code it is, all of them |
| the limit of the workflow | the blocking run's lock is renewed no more, and the run is given up with its evidence |

The watchdog says that the lane is stuck and for how long, by its own reckoning of what counts (core.standstill); this
round sleeps until the next rung can be reached, and looks again. Under a supervisor the last rung is the parent's, who
kills; a worker without one gives the run up itself and ends (`give_up`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import RunEvent, RunStatus, after
from pyrula_runtime.engine.posting import post
from pyrula_runtime.engine.watchdog import Block
from pyrula_runtime.stores.protocol import Release, Store

log = logging.getLogger("pyrula.worker")

# how long the round rests while no lane is stuck: it is nudged when one is (seconds)
_IDLE_S = 3600.0
# and how long at least while one is
_LEAST_S = 0.02


class StuckLane(Protocol):
    """The lane, as far as it can be emptied while it is stuck."""

    def condemn(self, keep: str) -> list[Token]:
        """Nothing of its runs but this one's code runs here any more; the tokens to hand back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rungs:
    """The times of the ladder in seconds; `limits_s` by workflow, `limit_s` for all others and for code of no run."""

    evacuate_s: float
    limit_s: float
    limits_s: Mapping[str, float]

    def limit_of_workflow(self, workflow: str) -> float:
        """How long the code of a workflow may keep its lane."""
        return self.limits_s.get(workflow, self.limit_s)

    def limit_of(self, block: Block) -> float:
        """How long this code may keep the lane."""
        return self.limit_of_workflow(block.whose.workflow) if block.whose else self.limit_s


class Ladder:
    """The round that climbs. All on the control thread, but for `wake`."""

    def __init__(
        self,
        store: Store,
        lane: StuckLane,
        rungs: Rungs,
        *,
        stuck: Callable[[], Block | None],
        evacuated: Callable[[tuple[str, ...]], None],
        give_up: Callable[[Block], Awaitable[None]] | None = None,
    ) -> None:
        """`stuck` is the watchdog's word on the lane as it is now, `evacuated` hears of what was handed back."""
        self.nudge = asyncio.Event()
        self.rest_s = _IDLE_S
        self._loop = asyncio.get_running_loop()
        self._store = store
        self._lane = lane
        self._rungs = rungs
        self._stuck = stuck
        self._evacuated = evacuated
        self._give_up = give_up
        self._to_release: list[Token] = []

    def wake(self) -> None:
        """The watchdog has found the lane stuck; any thread."""
        post(self._loop, self.nudge.set)

    async def act(self) -> None:
        """Do what the time has come for."""
        self.rest_s = _IDLE_S
        await self._release()  # what an outage has kept from it
        block = self._stuck()
        if block is None:
            return
        limit_s = self._rungs.limit_of(block)
        rungs_s = [self._rungs.evacuate_s] + ([limit_s] if self._give_up else [])
        if block.for_s >= self._rungs.evacuate_s:
            await self._evacuate(block)
        if self._give_up is not None and block.for_s >= limit_s:
            await self._give_up(block)
            return
        left_s = [rung_s - block.for_s for rung_s in rungs_s if rung_s > block.for_s]
        self.rest_s = max(min(left_s, default=rungs_s[0]), _LEAST_S)

    async def _evacuate(self, block: Block) -> None:
        self._to_release += self._lane.condemn(block.whose.run_id if block.whose else "")
        await self._release()

    async def _release(self) -> None:
        """Hand back what is condemned; what the store does not take now is tried again."""
        if not self._to_release:
            return
        status = after(RunStatus.running, RunEvent.release)
        tokens = self._to_release
        answers = await asyncio.gather(
            *(self._store.release(Release(token=token, status=status, ready=True)) for token in tokens)
        )
        self._to_release = []
        if freed := tuple(token.run_id for token, is_ours in zip(tokens, answers, strict=True) if is_ours):
            log.warning(
                "lane stuck: handed back its other %d runs, uncharged: %s",
                len(freed),
                ", ".join(freed),
                extra={"event": "lane:evacuated", "run_ids": freed},
            )
            self._evacuated(freed)
