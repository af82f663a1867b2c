"""What the scripts' replies mean: bytes in, values of the contract out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores import protocol as p
from pyrula_runtime.stores.valkey.layout import Layout

_APPENDS = {append.value.encode(): append for append in p.Append}
_STATUSES = {status.encode(): status for status in RunStatus}


def _dossier(suspect: int, record: bytes) -> p.Dossier:
    return p.Dossier(record=record, is_suspect=bool(suspect)) if suspect or record else p.CLEAN


def submitted(reply: Sequence[bytes]) -> p.Submitted:
    """What `submit` answers."""
    kind, run_id = reply
    return p.Submitted(run_id=run_id.decode(), submission=p.Submission(kind.decode()))


def layout(reply: Sequence[int]) -> Layout:
    """What `begin` answers, after the schema."""
    count, most, is_told, *former = reply
    return Layout(
        count=count, most=most, is_told=bool(is_told), former=dict(zip(former[::2], former[1::2], strict=True))
    )


def claims(reply: Iterable[Sequence[Any]]) -> tuple[p.Claim, ...]:
    """What `claim` answers."""
    return tuple(map(_claim, reply))


def _claim(reply: Sequence[Any]) -> p.Claim:
    run_id, fence, nonce, workflow, version, input_, length, size, created_ms, started_ms, *rest = reply
    cancel, suspect, record, entries, now_ms = rest
    return p.Claim(
        token=Token(run_id=run_id.decode(), fence=fence, nonce=nonce.decode()),
        workflow=workflow.decode(),
        version=None if version is None else version.decode(),
        input=input_,
        journal=tuple(entries),
        journal_len=length,
        journal_bytes=size,
        created_ms=created_ms,
        started_ms=started_ms,
        now_ms=now_ms,
        cancel_requested=bool(cancel),
        dossier=_dossier(suspect, record),
    )


def committed(reply: Sequence[Any]) -> p.Committed:
    """What `commit` answers."""
    append, length, cancel, *claimed = reply
    return p.Committed(
        append=_APPENDS[append],
        length=length,
        cancel_requested=bool(cancel),
        claims=claims(claimed[0]) if claimed else (),
    )


def renewed(tokens: Sequence[Token], reply: Sequence[int]) -> p.Renewed:
    """What `renew` answers."""
    told = list(zip(tokens, reply, strict=True))
    return p.Renewed(
        lost=frozenset(token.run_id for token, state in told if state == 0),
        cancelled=frozenset(token.run_id for token, state in told if state == 2),
    )


def lapsed(reply: Sequence[Any]) -> p.Lapsed:
    """What `reclaim` answers."""
    grace, run_ids, *_ = reply
    return p.Lapsed(run_ids=tuple(run_id.decode() for run_id in run_ids), grace=bool(grace))


def reclaimed(reply: Sequence[Any]) -> tuple[p.Lapsed, int, int]:
    """What `reclaim` answers, how many outages there were, and how many effects are to be carried."""
    return lapsed(reply), reply[2], reply[3]


def holdings(reply: Iterable[Sequence[Any]]) -> tuple[p.Holding, ...]:
    """What `holdings` answers."""
    return tuple(
        p.Holding(
            token=Token(run_id=run_id.decode(), fence=fence, nonce=nonce.decode()),
            workflow=workflow.decode(),
            dossier=_dossier(suspect, record),
        )
        for run_id, fence, nonce, workflow, suspect, record in reply
    )


def _number(text: bytes | None) -> int | None:
    return int(text) if text else None


def record(run_id: str, reply: Sequence[Any] | None) -> p.RunRecord | None:
    """A run as `read` tells it."""
    if reply is None:
        return None
    facts, input_, result, error, length, inbox, lock_left = reply
    workflow, version, status, rev, fence, digest, size, cancel, suspect, dossier, *times = facts
    created_ms, started_ms, finished_ms, owner = times
    return p.RunRecord(
        run_id=run_id,
        workflow=workflow.decode(),
        version=None if version is None else version.decode(),
        status=_STATUSES[status],
        rev=int(rev),
        fence=int(fence),
        input=input_,
        result=result,
        error=error,
        digest=digest.decode(),
        journal_len=length,
        journal_bytes=int(size or 0),
        inbox_len=inbox,
        cancel_requested=cancel == b"1",
        dossier=_dossier(suspect == b"1", dossier or b""),
        created_ms=int(created_ms),
        started_ms=_number(started_ms),
        finished_ms=_number(finished_ms),
        owner=owner.decode() if owner else None,
        lock_left_ms=lock_left,
    )


def counts(reply: Sequence[Any]) -> Mapping[tuple[str, RunStatus], int]:
    """What `counts` answers."""
    rows = zip(reply[::3], reply[1::3], reply[2::3], strict=True)
    return {(workflow.decode(), _STATUSES[status]): number for workflow, status, number in rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A run that ended long ago, as it was found; its parent's id, if it has one."""

    run_id: str
    status: bytes
    rev: bytes
    parent: str | None


def finished(reply: Iterable[Sequence[Any]]) -> list[Ended]:
    """What `finished` answers."""
    return [
        Ended(run_id=run_id.decode(), status=status, rev=rev, parent=parent.decode() if parent else None)
        for run_id, status, rev, parent in reply
    ]


def workers(reply: Sequence[Any]) -> tuple[p.WorkerRecord, ...]:
    """What `workers` answers."""
    known = [_worker(told, age_ms) for told, age_ms in zip(reply[::2], reply[1::2], strict=True)]
    return tuple(sorted(known, key=lambda worker: worker.incarnation))


def _worker(told: bytes, age_ms: int) -> p.WorkerRecord:
    facts = orjson.loads(told)
    serves = tuple(p.Serves(workflow=workflow, version=version) for workflow, version in facts.pop("serves"))
    return p.WorkerRecord(**facts, serves=serves, age_ms=age_ms)


def leased(reply: Sequence[Any]) -> tuple[p.Leased, tuple[int, ...]]:
    """What `lease` answers: what is leased, and which shards are to be swept."""
    shards, workers, seats, swept = reply
    mine = sorted({int(seat) % shards for seat in seats})
    return p.Leased(mine=tuple(mine), shards=shards, workers=workers), tuple(map(int, swept))


def leases(reply: Sequence[Any]) -> tuple[p.Lease, ...]:
    """What `leases` answers."""
    shards, *rest = reply
    found = [
        p.Lease(
            incarnation=incarnation.decode(),
            shards=tuple(sorted({int(seat) % shards for seat in seats})),
            left_ms=left_ms,
        )
        for incarnation, seats, left_ms in zip(rest[::3], rest[1::3], rest[2::3], strict=True)
    ]
    return tuple(sorted(found, key=lambda lease: lease.incarnation))
