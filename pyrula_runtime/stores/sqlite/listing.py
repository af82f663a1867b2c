"""Looking at runs: one, a page of them, how many.

A page is merged from one short range of the (workflow, status, id) index for each combination asked for, so that its
cost depends on the size of the page and never on how many runs there are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from heapq import merge
from itertools import islice, product
from typing import Any

import apsw

from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.core.tree import OnEnd
from pyrula_runtime.stores.protocol import Census, ParentLink, RunQuery, RunRecord
from pyrula_runtime.stores.sqlite import dossiers
from pyrula_runtime.stores.sqlite.claims import suspects
from pyrula_runtime.stores.sqlite.queries import named
from pyrula_runtime.stores.sqlite.transaction import rows

SQL = named("listing")
_AFTER_ALL_IDS = "\U0010ffff"


def read(db: apsw.Connection, run_id: str, mono_ms: int) -> RunRecord | None:
    """The run as it stands."""
    for row in db.execute(SQL["one"], (run_id,)):
        return _record(row, mono_ms)
    return None


def _record(row: tuple[Any, ...], mono_ms: int) -> RunRecord:
    run_id, workflow, version, status, rev, fence, input_, result, error, digest, *rest = row
    length, size, inbox, cancel, against, suspect, created_ms, started_ms, finished_ms, owner, lock_until, *rest = rest
    priority, start_at_ms, due_ms, parent, op_id, on_end, schedule, generation, shown, awaits = rest
    return RunRecord(
        run_id=run_id,
        workflow=workflow,
        version=version,
        status=RunStatus(status),
        rev=rev,
        fence=fence,
        input=input_,
        result=result,
        error=error,
        digest=digest,
        journal_len=length,
        journal_bytes=size,
        inbox_len=inbox,
        cancel_requested=bool(cancel),
        dossier=dossiers.told(against, suspect),
        created_ms=created_ms,
        started_ms=started_ms,
        finished_ms=finished_ms,
        owner=owner,
        lock_left_ms=None if lock_until is None else lock_until - mono_ms,
        priority=priority,
        start_at_ms=start_at_ms,
        due_ms=due_ms,
        awaits=awaits,
        parent=None if parent is None else ParentLink(run_id=parent, op_id=op_id, on_end=OnEnd(on_end)),
        schedule_id=schedule,
        generation=generation,
        shown=shown,
    )


def find(db: apsw.Connection, query: RunQuery, mono_ms: int) -> tuple[RunRecord, ...]:
    """A page of runs, newest first."""
    found = (read(db, run_id, mono_ms) for run_id in _newest(db, query))
    return tuple(record for record in found if record is not None)


def _newest(db: apsw.Connection, query: RunQuery) -> list[str]:
    page = (query.before or _AFTER_ALL_IDS, query.limit)
    if query.parent is not None or query.schedule_id is not None:
        return _newest_kin(db, query, page)
    if query.workflow is None and query.statuses is None:
        return [run_id for (run_id,) in rows(db, SQL["newest"], page)]
    workflows = [query.workflow] if query.workflow is not None else [name for (name,) in db.execute(SQL["workflows"])]
    statuses = query.statuses if query.statuses is not None else RunStatus
    ranges = [rows(db, SQL["newest_of"], (*page, *of)) for of in product(workflows, statuses)]
    return _merged(ranges, query.limit)


def _newest_kin(db: apsw.Connection, query: RunQuery, page: tuple[str, int]) -> list[str]:
    which, of = ("children", query.parent) if query.parent is not None else ("fired", query.schedule_id)
    statuses = query.statuses if query.statuses is not None else RunStatus
    return _merged([rows(db, SQL[which], (*page, of, status, query.workflow)) for status in statuses], query.limit)


def _merged(ranges: Sequence[list[tuple[str]]], limit: int) -> list[str]:
    return [run_id for (run_id,) in islice(merge(*ranges, reverse=True), limit)]


def census(db: apsw.Connection, statuses: frozenset[RunStatus]) -> Census:
    """How many runs there are: of these statuses, suspects, pinned ones that have not ended."""
    pins = {(workflow, version): count for workflow, version, count in db.execute(SQL["pins"])}
    return Census(counts=counts(db, statuses), suspects=suspects(db), pins=pins)


def counts(db: apsw.Connection, statuses: frozenset[RunStatus]) -> Mapping[tuple[str, RunStatus], int]:
    """How many runs of these statuses there are by workflow and status."""
    found = db.execute(SQL["counts"], (json.dumps(sorted(statuses)),))
    return {(workflow, RunStatus(status)): count for workflow, status, count in found if count}
