"""Retention of runs: those that ended longer ago than they are to be kept are dropped, in small pages.

A run that lives is never dropped, nor one whose parent lives: what it came to has reached the parent, but its record
belongs to what people look at while they look at the parent. Quarantined runs have a time of their own, because their
evidence is what somebody still has to look at. Without an option, everything is kept for ever.
"""

from __future__ import annotations

from pyrula_runtime.core.status import TERMINAL, RunStatus
from pyrula_runtime.options import WorkerOptions
from pyrula_runtime.stores.protocol import Store

# runs dropped in one call, so that it stays short, and how often a round looks (seconds)
_PAGE = 100
PERIOD_S = 60.0

_QUARANTINED = frozenset({RunStatus.quarantined})


async def drop(store: Store, options: WorkerOptions) -> None:
    """Drop what need not be kept any longer."""
    for statuses, kept_s in (
        (TERMINAL - _QUARANTINED, options.retention),
        (_QUARANTINED, options.retention_quarantined),
    ):
        while kept_s > 0 and await store.drop_finished(statuses, round(kept_s * 1000), _PAGE):
            pass
