"""Runs with something against them, written into a real store as the burial of a worker writes it."""

from __future__ import annotations

from collections.abc import Callable

from pyrula_runtime.core.blame import NOTHING, Budget, Cause, Death, Evidence, Executing, Judgement, Record, judged
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.codec import dossier_of, dump_error
from pyrula_runtime.stores.protocol import Claim, ClaimRequest, Release, Serves, Store

STACK = """  File "/srv/app/orders.py", line 31, in pay
    return polite(5)
  File "/srv/app/orders.py", line 7, in polite
    time.sleep(s)
"""
LINE = "/srv/app/orders.py:7 in polite: time.sleep(s)"
BUDGET = Budget()


def evidence(cause: Cause = Cause.loop_blocked, at_ms: int = 1_000) -> Evidence:
    return Evidence(
        at_ms=at_ms,
        cause=cause,
        worker="w-0",
        pid=4711,
        exit="was killed by SIGKILL",
        op_id="polite#1",
        step="polite",
        for_ms=94_000,
        line=LINE,
        stack=STACK,
        rss_bytes=52_000_000,
    )


def death(run_id: str, cause: Cause = Cause.loop_blocked, *, at_ms: int = 1_000, in_cell: bool = False) -> Death:
    executing = Executing(run_id=run_id, op_id="polite#1", step="polite", for_ms=94_000)
    return Death(
        cause=cause,
        in_cell=in_cell,
        executing=(executing,),
        in_flight=(run_id,),
        evidence=evidence(cause, at_ms),
        guilty=run_id,
    )


async def taken(store: Store, workflow: str, *, suspects: bool = False) -> Claim:
    """One run, claimed as a worker or a cell would."""
    request = ClaimRequest(
        incarnation="i",
        serves=(Serves(workflow=workflow, version=None),),
        limit=1,
        lock_ttl_ms=30_000,
        to_status=RunStatus.running,
        suspects=suspects,
    )
    (claim,) = await store.claim(request)
    return claim


async def buried(store: Store, claim: Claim, record: Record, of: Death) -> Judgement:
    """The run is given back with what this death means for it."""
    judgement = judged(claim.token.run_id, record, of, BUDGET)
    is_over = judgement.error is not None
    release = Release(
        token=claim.token,
        status=RunStatus.quarantined if is_over else RunStatus.queued,
        ready=not is_over,
        error=None if judgement.error is None else dump_error(judgement.error),
        dossier=dossier_of(judgement.record),
    )
    assert await store.release(release)
    return judgement


async def suspected(store: Store, workflow: str, cause: Cause = Cause.killed) -> Judgement:
    """The oldest run of a workflow becomes a suspect."""
    claim = await taken(store, workflow)
    return await buried(store, claim, NOTHING, death(claim.token.run_id, cause))


async def quarantined(
    store: Store, workflow: str, cause: Cause = Cause.loop_blocked, now_ms: Callable[[], int] = lambda: 1_000
) -> str:
    """The oldest run of a workflow is charged until it is out."""
    record, suspects = NOTHING, False
    while True:
        claim = await taken(store, workflow, suspects=suspects)
        judgement = await buried(
            store, claim, record, death(claim.token.run_id, cause, at_ms=now_ms(), in_cell=suspects)
        )
        record, suspects = judgement.record, True
        if judgement.error is not None:
            return claim.token.run_id
