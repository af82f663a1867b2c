"""Values for store tests: runs, requests and commits with everything but the point of the test filled in."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from itertools import count

from pyrula_runtime.core.ids import run_id
from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores.protocol import (
    Claim,
    ClaimRequest,
    Commit,
    Dossier,
    Ending,
    NewRun,
    Serves,
    Store,
    WorkerRecord,
)

TTL_MS = 30_000
DAY_MS = 86_400_000
_ages = count(1_700_000_000_000)


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
        run_id=run or run_id(next(_ages), os.urandom(10)),
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
