"""Taking runs, keeping them, and taking them from holders that went silent.

Runs are taken by priority and then in the order of submission, over all workflows that are served together. A pinned
run stands in the line of its version alone, so one that nobody here serves holds nobody up.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from heapq import merge
from itertools import islice

import apsw

from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.core.tree import OnEnd
from pyrula_runtime.stores.protocol import Claim, ClaimRequest, Holding, Lapsed, ParentLink, Renewed, Wake
from pyrula_runtime.stores.sqlite import dossiers, journal, messages, pulse
from pyrula_runtime.stores.sqlite.queries import named
from pyrula_runtime.stores.sqlite.transaction import Tx, rows

SQL = named("claims")


def _places(db: apsw.Connection, request: ClaimRequest, limit: int) -> list[int]:
    which = "_suspects" if request.suspects else ""
    lines = []
    for serves in request.serves:
        lines.append(rows(db, SQL[f"unpinned{which}"], (serves.workflow, limit)))
        if serves.version is not None:
            lines.append(rows(db, SQL[f"pinned{which}"], (serves.workflow, limit, serves.version)))
    # a workflow served in two versions offers its unpinned runs twice
    in_order = dict.fromkeys(n for _, n in merge(*lines))
    return list(islice(in_order, limit))


def claimable(db: apsw.Connection, request: ClaimRequest) -> bool:
    """Whether a claim would find anything now; asked before the write lock is taken, so an idle claim costs no lock."""
    return bool(_places(db, request, 1))


def claim(tx: Tx, request: ClaimRequest) -> tuple[Claim, ...]:
    """Take the first claimable runs; none while the disk is full."""
    if tx.strained:
        return ()
    return tuple(_take(tx, n, request) for n in _places(tx.db, request, request.limit))


def _take(tx: Tx, n: int, request: ClaimRequest) -> Claim:
    nonce = os.urandom(8).hex()
    until_ms = tx.mono_ms + request.lock_ttl_ms
    (row,) = tx.rows(SQL["take"], n, request.to_status, nonce, request.incarnation, until_ms, tx.wall_ms)
    run_id, fence, workflow, version, length, size, created_ms, started_ms, cancel, *rest = row
    inbox_len, generation, parent, record, suspect, input_ = rest
    return Claim(
        token=Token(run_id=run_id, fence=fence, nonce=nonce),
        workflow=workflow,
        version=version,
        input=input_,
        journal=journal.page(tx.db, n, 0) if length else (),
        journal_len=length,
        journal_bytes=size,
        created_ms=created_ms,
        started_ms=started_ms,
        now_ms=tx.wall_ms,
        cancel_requested=bool(cancel),
        dossier=dossiers.told(record, suspect),
        inbox=messages.unconsumed(tx.db, n) if inbox_len else (),
        inbox_len=inbox_len,
        parent=_link(tx, n, parent) if parent is not None else None,
        generation=generation,
    )


def _link(tx: Tx, n: int, parent: str) -> ParentLink:
    ((op_id, on_end),) = tx.rows(SQL["link"], n)
    return ParentLink(run_id=parent, op_id=op_id, on_end=OnEnd(on_end))


def renew(tx: Tx, tokens: Sequence[Token], lock_ttl_ms: int) -> Renewed:
    """Give live tokens a full life from now."""
    lost, cancelled, inbox = set(), set(), {}
    for token in tokens:
        found = tx.rows(SQL["renew"], token.run_id, token.fence, token.nonce, tx.mono_ms + lock_ttl_ms)
        if not found:
            lost.add(token.run_id)
            continue
        ((cancel, inbox_len),) = found
        if cancel:
            cancelled.add(token.run_id)
        if inbox_len:
            inbox[token.run_id] = inbox_len
    return Renewed(lost=frozenset(lost), cancelled=frozenset(cancelled), inbox=inbox)


def reclaim_lapsed(tx: Tx, to_status: RunStatus, lock_ttl_ms: int, limit: int) -> Lapsed:
    """Make runs whose holders went silent claimable; after a silence of the whole store, give all of them a life."""
    if pulse.was_silent(tx, lock_ttl_ms):
        tx.rows(SQL["push_out"], tx.mono_ms + lock_ttl_ms)
        return Lapsed(run_ids=(), grace=True)
    lapsed = tx.rows(SQL["lapsed"], tx.mono_ms, limit)
    run_ids = tuple(tx.rows(SQL["reclaim"], n, to_status)[0][0] for (n,) in lapsed)
    if run_ids:
        tx.wakes |= {Wake.ready, Wake.attention}
    return Lapsed(run_ids=run_ids)


def holdings(db: apsw.Connection, incarnation: str) -> tuple[Holding, ...]:
    """What an incarnation holds."""
    return tuple(
        Holding(
            token=Token(run_id=run_id, fence=fence, nonce=nonce),
            workflow=workflow,
            dossier=dossiers.told(record, suspect),
        )
        for run_id, fence, nonce, workflow, record, suspect in db.execute(SQL["holdings"], (incarnation,))
    )


def suspects(db: apsw.Connection) -> int:
    """How many suspects can be claimed."""
    ((count,),) = rows(db, SQL["suspects"], ())
    return int(count)
