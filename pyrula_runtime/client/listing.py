"""Many runs read page by page, and those among them that are suspects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from pyrula_runtime.client.telling import RunSummary, summary
from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.status import TERMINAL, RunStatus
from pyrula_runtime.engine.payloads import Payloads
from pyrula_runtime.stores.protocol import RunQuery, Store

# runs of one answer (a page that somebody asked for)
LONGEST_PAGE = 10_000
# runs of one look, where all are looked through: each comes with its documents, which may have a megabyte
_LOOK = 100


def checked_limit(limit: object, most: int) -> int:
    """A number of runs; UsageError for what is none."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= most:
        shown = "of many digits" if isinstance(limit, int) and abs(limit) > 10**20 else repr(limit)
        raise UsageError(f"limit is {shown}, but must be a whole number from 1 to {most:,}")
    return limit


async def every(store: Store, query: RunQuery, payloads: Payloads) -> AsyncIterator[RunSummary]:
    """All runs of a query, newest first, whatever its limit."""
    query = replace(query, limit=_LOOK)
    while True:
        records = await store.find(query)
        for record in records:
            yield summary(record, payloads)
        if len(records) < _LOOK:
            return
        query = replace(query, before=records[-1].run_id)


async def suspects(store: Store, query: RunQuery, payloads: Payloads) -> tuple[RunSummary, ...]:
    """Those runs of a query that are tried again alone. The queue is looked through only if some wait in it."""
    statuses = set(query.statuses or set(RunStatus) - TERMINAL)
    if not await store.suspects():
        statuses.discard(RunStatus.queued)
    found: list[RunSummary] = []
    if not statuses:
        return ()
    async for each in every(store, replace(query, statuses=frozenset(statuses)), payloads):
        if each.suspect:
            found.append(each)
        if len(found) == query.limit:
            break
    return tuple(found)
