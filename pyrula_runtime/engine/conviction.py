"""The last rung in a worker that has no supervisor: the run that keeps the lane is charged, all others go back.

The worker itself is witness, judge and the one that has to go: its lane is in code that nobody can end. So it writes
down what its watchdog saw, frees every run that it holds, the guilty one with the charge, and leaves (see worker).
Code of no run blocks as well; then nobody is charged.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass

from pyrula_runtime.core.blame import Budget, Cause, Death, Evidence, Executing, Judgement, judged
from pyrula_runtime.core.status import RunEvent, RunStatus, after
from pyrula_runtime.engine.judged_runs import record_of, release_of
from pyrula_runtime.engine.watchdog import Block
from pyrula_runtime.stores.partly import as_far_as_known
from pyrula_runtime.stores.protocol import Holding, Release, Store

log = logging.getLogger("pyrula.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Court:
    """Where a worker judges itself; `is_alone` says whether its only run is here by intent, as in a cell."""

    store: Store
    incarnation: str
    worker_id: str
    budget: Budget
    is_alone: Callable[[], bool]

    async def convict(self, block: Block, now_ms: int) -> None:
        """Free all that is held here, and charge whose code keeps the lane. StoreUnavailable: to be done again."""
        holdings, fault = await as_far_as_known(self.store.holdings(self.incarnation))
        guilty = block.whose.run_id if block.whose else ""
        releases = [await self._verdict(each, block, now_ms) for each in holdings if each.token.run_id == guilty]
        status = after(RunStatus.running, RunEvent.release)
        releases += [
            Release(token=each.token, status=status, ready=True) for each in holdings if each.token.run_id != guilty
        ]
        await asyncio.gather(*map(self.store.release, releases))
        if fault is not None:
            raise fault

    async def charge(self, block: Block, now_ms: int) -> None:
        """Free and charge only whose code it is; the others are not in its way. StoreUnavailable: as above."""
        guilty = block.whose.run_id if block.whose else ""
        holdings, fault = await as_far_as_known(self.store.holdings(self.incarnation))
        for each in holdings:
            if each.token.run_id == guilty:
                await self.store.release(await self._verdict(each, block, now_ms))
                return
        if fault is not None:
            raise fault

    async def _verdict(self, holding: Holding, block: Block, now_ms: int) -> Release:
        judgement = judged(holding.token.run_id, record_of(holding), self._death(block, now_ms), self.budget)
        _tell(holding, block, judgement)
        return await release_of(self.store, holding, judgement)

    def _death(self, block: Block, now_ms: int) -> Death:
        assert block.whose is not None
        whose, for_ms = block.whose, round(block.for_s * 1000)
        evidence = Evidence(
            at_ms=now_ms,
            cause=Cause.loop_blocked,
            worker=self.worker_id,
            pid=os.getpid(),
            op_id=whose.op_id,
            step=whose.step,
            for_ms=for_ms,
            line=block.line,
            stack=block.stack,
        )
        executing = Executing(run_id=whose.run_id, op_id=whose.op_id, step=whose.step, for_ms=for_ms)
        return Death(
            cause=Cause.loop_blocked,
            in_cell=self.is_alone(),
            executing=(executing,),
            in_flight=(whose.run_id,),
            evidence=evidence,
            guilty=whose.run_id,
        )


def _tell(holding: Holding, block: Block, judgement: Judgement) -> None:
    fields = {
        "event": "run:charge" if judgement.error is None else "run:error",
        "run_id": holding.token.run_id,
        "workflow": holding.workflow,
        "step": block.whose.step if block.whose else "",
        "line": block.line,
        "cause": Cause.loop_blocked.value,
    }
    if judgement.error is not None:
        log.error("run quarantined: %s", judgement.error.message, extra=fields)
        return
    count = "a charge" if judgement.charged == 1 else f"{judgement.charged} charges"
    log.error("run gets %s: its code blocked the lane for %.1f s, at %s", count, block.for_s, block.line, extra=fields)
