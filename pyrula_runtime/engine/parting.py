"""What is done to relatives where no turn is at work: of a run that is dropped or quarantined, or sent on by a person.

A turn tells its parent and cancels its children with its last commit (see kin). Whoever else ends a run does the same,
in the same write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyrula_runtime.core.entries import Completed, Entry, Failed, Started, Withdrawn, in_force
from pyrula_runtime.core.status import CANCELLATION, TERMINAL, RunStatus
from pyrula_runtime.core.tree import Child, OnEnd, to_cancel
from pyrula_runtime.engine.kin import report_to
from pyrula_runtime.engine.payloads import PLAIN, Payloads
from pyrula_runtime.stores.protocol import CancelRun, DeliverTo, Effect, Ending, RunQuery, RunRecord, Store

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
        page = await store.find(RunQuery(parent=run_id, statuses=_LIVE, limit=_PAGE, before=before))
        found += to_cancel(
            Child(run_id=each.run_id, status=each.status, on_end=each.parent.on_end if each.parent else OnEnd.abandon)
            for each in page
        )
        if len(page) < _PAGE:
            return found
        before = page[-1].run_id


async def missed_reports(
    store: Store, run: RunRecord, journal: Sequence[Entry], payloads: Payloads
) -> tuple[Effect, ...]:
    """What children told this run after it had ended, which nobody kept; with `journal` it goes on. CodecFailed.

    It is told under an id of its own: it may have come before, to code that had given the child up. If it is there
    twice, the second is a stray.
    """
    counting = [entry for _, entry in in_force(journal)]
    settled = {each.op.op_id for each in counting if isinstance(each, Completed | Failed | Withdrawn)}
    reports: tuple[Effect, ...] = ()
    for each in counting:
        if isinstance(each, Started) and each.op.op_id not in settled:
            child = await store.read(each.child_id)
            if child is not None and child.status.is_terminal:
                ending = Ending(status=child.status, result=child.result, error=child.error)
                told = report_to(child.parent, child.run_id, ending, payloads)
                reports += tuple(_as_another(report, len(journal)) for report in told)
    return reports


def _as_another(report: DeliverTo, number: int) -> DeliverTo:
    message = report.message
    return replace(report, message=replace(message, message_id=f"{message.message_id}/{number}"))
