"""What is done to the relatives of a run that ends while no turn of it is at work: it was dropped, or quarantined.

A turn tells its parent and cancels its children with its last commit (see kin). Whoever else ends a run does the same,
in the same write.
"""

from __future__ import annotations

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.status import CANCELLATION, TERMINAL, RunStatus
from pyrula_runtime.core.tree import Child, OnEnd, to_cancel
from pyrula_runtime.engine.kin import report_to
from pyrula_runtime.engine.payloads import PLAIN
from pyrula_runtime.stores.protocol import CancelRun, Effect, Ending, RunQuery, RunRecord, Store

_LIVE = frozenset(RunStatus) - TERMINAL
_PAGE = 500


async def parting(store: Store, run: RunRecord, status: RunStatus, error: bytes | None = None) -> tuple[Effect, ...]:
    """What goes with the write that gives this run this terminal status, with an error written without a codec."""
    report = report_to(run.parent, run.run_id, Ending(status=status, error=error), PLAIN)
    return (*report, *[CancelRun(run_id=each, moves=CANCELLATION) for each in await _to_cancel(store, run.run_id)])


async def _to_cancel(store: Store, run_id: str) -> tuple[str, ...]:
    found: tuple[str, ...] = ()
    before: str | None = None
    while True:
        try:
            page = await store.find(RunQuery(parent=run_id, statuses=_LIVE, limit=_PAGE, before=before))
        except UsageError:  # a store that cannot keep a run as a child has none
            return ()
        found += to_cancel(
            Child(run_id=each.run_id, status=each.status, on_end=each.parent.on_end if each.parent else OnEnd.abandon)
            for each in page
        )
        if len(page) < _PAGE:
            return found
        before = page[-1].run_id
