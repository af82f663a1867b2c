"""Values for store tests: runs, requests and commits with everything but the point of the test filled in."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count

from pyrula_runtime.core.ids import run_id
from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import DELIVERY, RunStatus
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import (
    Claim,
    ClaimRequest,
    Commit,
    Delivery,
    Dossier,
    Ending,
    Message,
    NewRun,
    Serves,
    Store,
    Wait,
    WorkerRecord,
)

TTL_MS = 30_000
DAY_MS = 86_400_000
_ages = count(1_700_000_000_000)
_homes = [""]


@contextmanager
def at_home(shard: int) -> Iterator[None]:
    """Have all runs made here live in this shard, where a store has several."""
    _homes.append(f"-{shard:x}" if shard else "")
    yield
    _homes.pop()


def new_run(
    workflow: str = "order",
    version: str | None = None,
    *,
    key: str | None = None,
    digest: str = "d",
    input_: bytes = b"{}",
    run: str | None = None,
) -> NewRun:
    return NewRun(
        run_id=run or run_id(next(_ages), os.urandom(10)) + _homes[-1],
        workflow=workflow,
        version=version,
        input=input_,
        digest=digest,
        status=RunStatus.queued,
        idempotency_key=key,
    )


def request(
    *serves: tuple[str, str | None],
    limit: int = 10,
    incarnation: str = "w-1",
    ttl_ms: int = TTL_MS,
    suspects: bool = False,
) -> ClaimRequest:
    return ClaimRequest(
        incarnation=incarnation,
        serves=tuple(Serves(workflow=workflow, version=version) for workflow, version in serves or [("order", "1")]),
        limit=limit,
        lock_ttl_ms=ttl_ms,
        to_status=RunStatus.running,
        suspects=suspects,
    )


def appending(
    token: Token,
    at: int,
    *entries: bytes,
    ending: Ending | None = None,
    claim: ClaimRequest | None = None,
    dossier: Dossier | None = None,
) -> Commit:
    return Commit(
        token=token,
        expected_len=at,
        entries=entries,
        lock_ttl_ms=TTL_MS,
        ending=ending,
        claim=claim,
        dossier=dossier,
    )


COMPLETED = Ending(status=RunStatus.completed, result=b'"done"')
SUSPECT = Dossier(record=b'{"marks": 1}', is_suspect=True)
FAILED = Ending(status=RunStatus.failed, error=b'{"type": "Boom"}')


async def claimed(store: Store, incarnation: str = "w-1", workflow: str = "order") -> Claim:
    """Submit a run and take it."""
    await store.submit(new_run(workflow))
    (claim,) = await store.claim(request((workflow, "1"), limit=1, incarnation=incarnation))
    return claim


def waiting(due_ms: int | None = None, seen: int | None = 0, *, cancel_seen: bool = False) -> Ending:
    """The ending of a turn that waits for a time, or for more messages than it has seen, or both."""
    wait = Wait(due_ms=due_ms, inbox_seen=seen, wake_status=RunStatus.queued, cancel_seen=cancel_seen)
    return Ending(status=RunStatus.waiting, wait=wait)


async def suspended(
    store: Store, due_ms: int | None = None, seen: int | None = 0, *, run: NewRun | None = None
) -> Claim:
    """Submit a run, take it and let it wait."""
    await store.submit(run or new_run())
    (claim,) = await store.claim(request(limit=1))
    await store.commit(appending(claim.token, 0, ending=waiting(due_ms, seen)))
    return claim


def message(run_id: str, message_id: str = "m", body: bytes = b"{}") -> Message:
    return Message(run_id=run_id, message_id=message_id, name="paid", body=body)


async def send(store: Store, run_id: str, *message_ids: str) -> None:
    """Deliver messages in this order."""
    for message_id in message_ids:
        assert await store.deliver(message(run_id, message_id), DELIVERY) is Delivery.delivered


async def status_of(store: Store, run_id: str) -> RunStatus | None:
    record = await store.read(run_id)
    return None if record is None else record.status


async def journal_of(store: Store, run: str) -> Sequence[bytes]:
    """The whole journal, page by page."""
    entries: list[bytes] = []
    while page := await store.read_journal(run, len(entries)):
        entries += page
    return entries


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for what another thread or process is about to do."""
    while not await condition():  # noqa: ASYNC110 - there is no event to wait for on this side
        await asyncio.sleep(0.002)


def worker(incarnation: str, *, running: int = 0) -> WorkerRecord:
    return WorkerRecord(
        incarnation=incarnation,
        worker_id="w",
        pid=os.getpid(),
        host="here",
        serves=(Serves(workflow="order", version="1"), Serves(workflow="other", version=None)),
        capacity=50,
        running=running,
        draining=False,
    )


async def sign_of_life(store: Store) -> None:
    """What living workers do all the time."""
    await store.ping()
    await store.beat(worker("w-1"), DAY_MS)


async def alive_for(store: Store, clock: ManualClock, ms: int) -> None:
    """So much time passes while somebody is there."""
    while ms > 0:
        clock.move(step := min(ms, TTL_MS // 3))
        await sign_of_life(store)
        ms -= step
