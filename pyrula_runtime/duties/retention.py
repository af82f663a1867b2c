"""Retention of runs: those that ended longer ago than they are to be kept are dropped, in small pages.

A run that lives is never dropped, nor one whose parent lives: what it came to has reached the parent, but its record
belongs to what people look at while they look at the parent. Quarantined runs have a time of their own, because their
evidence is what somebody still has to look at. Without an option, everything is kept for ever.

In a store of several shards a run may be begun from another shard by a process that stood still meanwhile, and would
find that nobody has begun it if it were dropped by then. So there each run is kept for an hour at least, which is long
after such a process has given up what it meant to do (stores.valkey.outbox).
"""

from __future__ import annotations

from pyrula_runtime.core.status import TERMINAL, RunStatus
from pyrula_runtime.options import WorkerOptions
from pyrula_runtime.stores.protocol import Store

# runs dropped in one call, so that it stays short, and how often a round looks (seconds)
_PAGE = 100
PERIOD_S = 60.0
# the least time that a run of a store of several shards is kept (seconds)
LEAST_OF_SHARDS_S = 3_600.0

_QUARANTINED = frozenset({RunStatus.quarantined})


async def drop(store: Store, options: WorkerOptions) -> None:
    """Drop what need not be kept any longer."""
    for statuses, kept_s in (
        (TERMINAL - _QUARANTINED, options.retention),
        (_QUARANTINED, options.retention_quarantined),
    ):
        older_than_ms = round(max(kept_s, LEAST_OF_SHARDS_S if store.shards > 1 else 0) * 1000)
        while kept_s > 0 and await store.drop_finished(statuses, older_than_ms, _PAGE):
            pass
