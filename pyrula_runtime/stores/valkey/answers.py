"""What the scripts' replies mean: bytes in, values of the contract out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.core.tree import OnEnd
from pyrula_runtime.stores import protocol as p
from pyrula_runtime.stores.valkey.layout import Layout

_APPENDS = {append.value.encode(): append for append in p.Append}
_STATUSES = {status.encode(): status for status in RunStatus}
_FRONT = 2**42  # places of one priority, as in lua/parts/places.lua


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
    run_id, fence, nonce, name, input_, length, size, created_ms, started_ms, came, suspect, *rest = reply
    record, entries, now_ms, *more = rest
    workflow, version = line(name)
    rare, inbox = more or (None, ())
    generation, parent, _ = _rare(rare)
    return p.Claim(
        token=Token(run_id=run_id.decode(), fence=fence, nonce=nonce.decode()),
        workflow=workflow,
        version=version,
        input=input_,
        journal=tuple(entries),
        journal_len=length,
        journal_bytes=size,
        created_ms=created_ms,
        started_ms=started_ms,
        now_ms=now_ms,
        cancel_requested=bool(came % 2),
        dossier=_dossier(suspect, record),
        inbox=received(inbox or ()),
        inbox_len=came // 2,
        inbox_skipped=inbox is None,
        parent=parent,
        generation=generation,
    )


def line(name: bytes) -> tuple[str, str | None]:
    """Workflow and version, if it is pinned, of a run that stands in the line of this name."""
    workflow, _, version = name.decode().partition("|")
    return workflow, version or None


def _rare(told: bytes | None) -> tuple[int, p.ParentLink | None, str | None]:
    """Generation, parent and schedule of a run, which few runs have."""
    if told is None:
        return 1, None, None
    generation, parent, schedule, on_end, op_id = orjson.loads(told)
    link = p.ParentLink(run_id=parent, op_id=op_id, on_end=OnEnd(on_end)) if parent else None
    return generation, link, schedule or None


def received(reply: Sequence[Any]) -> tuple[p.Received, ...]:
    """What `read_inbox` answers."""
    return tuple(map(_message, reply[::2], reply[1::2]))


def _message(seq: int, packed: bytes) -> p.Received:
    head, _, rest = packed.partition(b"]")
    id_len, name_len = orjson.loads(head + b"]")
    return p.Received(
        seq=seq,
        message_id=rest[:id_len].decode(),
        name=rest[id_len : id_len + name_len].decode(),
        body=rest[id_len + name_len :],
    )


def facts(after: int, reply: Iterable[bytes]) -> tuple[p.Fact, ...]:
    """What `read_facts` answers to the question for those after a number."""
    told = (fact.partition(b":") for fact in reply)
    return tuple(p.Fact(seq=seq, at_ms=int(at_ms), body=body) for seq, (at_ms, _, body) in enumerate(told, after + 1))


def woken(reply: Sequence[Any]) -> p.Woken:
    """What `wake_due` answers."""
    number, next_due_ms, now_ms = reply
    return p.Woken(woken=number, next_due_ms=next_due_ms, now_ms=now_ms)


def schedules(reply: Sequence[Any]) -> p.Schedules:
    """What `schedules` answers."""
    now_ms, soonest_ms, found = reply
    records = map(_schedule, found[::3], found[1::3], found[2::3])
    return p.Schedules(
        records=tuple(sorted(records, key=lambda schedule: schedule.schedule_id)), next_ms=soonest_ms, now_ms=now_ms
    )


def _schedule(schedule_id: bytes, kept: bytes, next_ms: int | None) -> p.ScheduleRecord:
    rev, _, record = kept.partition(b":")
    return p.ScheduleRecord(schedule_id=schedule_id.decode(), rev=int(rev), record=record, next_ms=next_ms)


def pending(limit: int, after: p.PendingEvent | None, reply: Iterable[Sequence[Any]]) -> tuple[p.PendingEvent, ...]:
    """What `events_pending` answers, of all workflows together: oldest first, then by workflow."""
    found = sorted(map(_pending, reply), key=lambda each: each.order)
    return tuple([each for each in found if after is None or each.order > after.order][:limit])


def _pending(row: Sequence[Any]) -> p.PendingEvent:
    place, workflow, event_id, name, body, ttl_ms, emitted_ms = row
    event = p.Event(event_id=event_id.decode(), name=name.decode(), body=body, ttl_ms=ttl_ms)
    return p.PendingEvent(event=event, workflow=workflow.decode() or None, emitted_ms=emitted_ms, place=place)


def committed(reply: Sequence[Any]) -> p.Committed:
    """What `commit` answers."""
    append, length, came, *claimed = reply
    return p.Committed(
        append=_APPENDS[append],
        length=length,
        cancel_requested=bool(came % 2),
        claims=claims(claimed[0]) if claimed else (),
        inbox_len=came // 2,
    )


def renewed(tokens: Sequence[Token], reply: Sequence[int]) -> p.Renewed:
    """What `renew` answers."""
    told = list(zip(tokens, reply, strict=True))
    return p.Renewed(
        lost=frozenset(token.run_id for token, state in told if state == 0),
        cancelled=frozenset(token.run_id for token, state in told if state and state % 2 == 0),
        inbox={token.run_id: (state - 1) // 2 for token, state in told if state > 2},
    )


def lapsed(reply: Sequence[Any]) -> p.Lapsed:
    """What `reclaim` answers."""
    grace, run_ids, _, _, quiet_ms = reply
    return p.Lapsed(run_ids=tuple(run_id.decode() for run_id in run_ids), grace=bool(grace), quiet_ms=quiet_ms)


def reclaimed(reply: Sequence[Any]) -> tuple[p.Lapsed, int, int]:
    """What `reclaim` answers, how many outages there were, and how many effects are to be carried."""
    return lapsed(reply), reply[2], reply[3]


def holdings(reply: Sequence[Any]) -> tuple[tuple[p.Holding, ...], int]:
    """What `holdings` answers, and how many effects are to be carried."""
    held, left_over = reply
    told = tuple(
        p.Holding(
            token=Token(run_id=run_id.decode(), fence=fence, nonce=nonce.decode()),
            workflow=line(name)[0],
            dossier=_dossier(suspect, record),
        )
        for run_id, fence, nonce, name, suspect, record, _ in sorted(held, key=lambda each: each[-1] % _FRONT)
    )
    return told, left_over


def _number(text: bytes | None) -> int | None:
    return int(text) if text else None


def record(run_id: str, reply: Sequence[Any] | None) -> p.RunRecord | None:
    """A run as `read` tells it."""
    if reply is None:
        return None
    facts, input_, result, error, shown, length, lock_left, due_ms = reply
    name, status, rev, fence, digest, size, came, suspect, dossier, *times, owner, place, start_at_ms = facts[:-2]
    rare, hears = facts[-2:]
    created_ms, started_ms, finished_ms = times
    workflow, version = line(name)
    generation, parent, schedule = _rare(rare)
    return p.RunRecord(
        run_id=run_id,
        workflow=workflow,
        version=version,
        status=_STATUSES[status],
        rev=int(rev),
        fence=int(fence),
        input=input_,
        result=result,
        error=error,
        digest=digest.decode(),
        journal_len=length,
        journal_bytes=int(size or 0),
        inbox_len=int(came or 0) // 2,
        cancel_requested=bool(int(came or 0) % 2),
        dossier=_dossier(suspect == b"1", dossier or b""),
        created_ms=int(created_ms),
        started_ms=_number(started_ms),
        finished_ms=_number(finished_ms),
        owner=owner.decode() if owner else None,
        lock_left_ms=lock_left,
        priority=-(int(place) // _FRONT),
        start_at_ms=_number(start_at_ms),
        due_ms=due_ms,
        awaits=None if hears is None else _words(hears),
        parent=parent,
        schedule_id=schedule,
        generation=generation,
        shown=shown,
    )


def _words(hears: bytes) -> str:
    """For which messages a run waits; a former version has written only that it does."""
    return "" if hears == b"1" else hears.decode()


def counts(reply: Sequence[Any]) -> Mapping[tuple[str, RunStatus], int]:
    """What `counts` answers."""
    rows = zip(reply[::3], reply[1::3], reply[2::3], strict=True)
    return {(workflow.decode(), _STATUSES[status]): number for workflow, status, number in rows}


def census(reply: Sequence[Any]) -> p.Census:
    """What `census` answers."""
    counted, suspects, pinned = reply
    named = zip(map(line, pinned[::2]), pinned[1::2], strict=True)
    pins = {(workflow, version or ""): int(number) for (workflow, version), number in named}
    return p.Census(counts=counts(counted), suspects=suspects, pins=pins)


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
