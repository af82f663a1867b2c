"""The verbs of the SQLite store: each is a call to the writer or to the reads thread, nothing more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import apsw

from pyrula_runtime.core.errors import StoreUnavailable, UsageError
from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import Moves, RunStatus
from pyrula_runtime.stores import protocol as p
from pyrula_runtime.stores.clock import Clock
from pyrula_runtime.stores.sqlite import (
    claims,
    commits,
    events,
    facts,
    journal,
    listing,
    messages,
    releases,
    retention,
    schedules,
    submits,
    waits,
    workers,
)
from pyrula_runtime.stores.sqlite.answers import Call
from pyrula_runtime.stores.sqlite.batches import Write
from pyrula_runtime.stores.sqlite.opened import Opened, open_file
from pyrula_runtime.stores.sqlite.settings import Settings
from pyrula_runtime.stores.sqlite.transaction import Tx
from pyrula_runtime.stores.sqlite.wakes import Listener
from pyrula_runtime.stores.undivided import Undivided

Answer = TypeVar("Answer")


class SqliteStore(Undivided):
    """One SQLite file as a store. See `protocol.Store` for what the verbs promise."""

    def __init__(self, path: Path, clock: Clock, settings: Settings | None = None) -> None:
        self._path = path.absolute()
        self._clock = clock
        self._settings = settings or Settings()
        self._opened: Opened | None = None
        self._mutex = threading.Lock()

    @property
    def url(self) -> str:
        """The address; there are no secrets in it."""
        return f"sqlite:///{self._path}"

    @property
    def identity(self) -> str:
        """The same for every path that leads to this file."""
        return f"sqlite:{self._path.resolve()}"

    async def open(self) -> None:
        """Open or create the file."""
        await asyncio.to_thread(self._open)

    def _open(self) -> None:
        with self._mutex:
            if self._opened is None:
                self._opened = open_file(self._path, self._clock, self._settings)

    async def close(self) -> None:
        """Finish what is queued, then let go of the file."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        with self._mutex:
            opened, self._opened = self._opened, None
            if opened is not None:
                opened.close(self._settings.ping_s)

    def _here(self) -> Opened:
        opened = self._opened
        if opened is None:
            raise UsageError(f"store {self._path} is not open; await its open() first")
        opened.check_process()
        return opened

    def _write(self, work: Callable[[Tx], Answer], *, is_alive: bool = True) -> asyncio.Future[Answer]:
        writer = self._here().writer
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        writer.put(Write(work, future, is_alive=is_alive))
        return future

    def _read(self, work: Callable[[apsw.Connection], Answer]) -> asyncio.Future[Answer]:
        reads = self._here().reads
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        reads.put(Call(work, future))
        return future

    def _locks_live(self, lock_ttl_ms: int) -> None:
        """The shortest lock in use decides how often the store gives a sign of life."""
        self._here().writer.locks_live(lock_ttl_ms)

    def submit(self, run: p.NewRun) -> asyncio.Future[p.Submitted]:
        return self._write(partial(submits.submit, run=run))

    def claim(self, request: p.ClaimRequest) -> asyncio.Future[tuple[p.Claim, ...]]:
        self._locks_live(request.lock_ttl_ms)
        future: asyncio.Future[tuple[p.Claim, ...]] = asyncio.get_running_loop().create_future()
        look = partial(claims.claimable, request=request)
        self._here().writer.put(Write(partial(claims.claim, request=request), future, needed=look, otherwise=()))
        return future

    def renew(self, tokens: Sequence[Token], lock_ttl_ms: int) -> asyncio.Future[p.Renewed]:
        self._locks_live(lock_ttl_ms)
        return self._write(partial(claims.renew, tokens=tuple(tokens), lock_ttl_ms=lock_ttl_ms))

    def commit(self, commit: p.Commit) -> asyncio.Future[p.Committed]:
        return self._write(partial(commits.commit, wanted=commit))

    def release(self, release: p.Release) -> asyncio.Future[bool]:
        return self._write(partial(releases.release, wanted=release))

    def amend(self, amendment: p.Amendment) -> asyncio.Future[bool]:
        return self._write(partial(releases.amend, wanted=amendment))

    def deliver(self, message: p.Message, moves: Moves) -> asyncio.Future[p.Delivery]:
        return self._write(partial(messages.deliver, message=message, moves=moves))

    def read_inbox(self, run_id: str, after_seq: int) -> asyncio.Future[tuple[p.Received, ...]]:
        return self._read(partial(messages.read, run_id=run_id, after_seq=after_seq))

    async def wake_due(self, moves: Moves, limit: int) -> p.Woken:
        # looked at without the lock first: mostly nothing is due
        seen = await self._read(lambda db: waits.look(db, moves, self._clock.wall_ms()))
        if seen.next_due_ms is None or seen.next_due_ms > seen.now_ms:
            return seen
        return await self._write(partial(waits.wake_due, moves=moves, limit=limit))

    def reclaim_lapsed(self, to_status: RunStatus, lock_ttl_ms: int, limit: int) -> asyncio.Future[p.Lapsed]:
        self._locks_live(lock_ttl_ms)
        return self._write(partial(claims.reclaim_lapsed, to_status=to_status, lock_ttl_ms=lock_ttl_ms, limit=limit))

    def holdings(self, incarnation: str) -> asyncio.Future[tuple[p.Holding, ...]]:
        return self._read(partial(claims.holdings, incarnation=incarnation))

    def read(self, run_id: str) -> asyncio.Future[p.RunRecord | None]:
        return self._read(lambda db: listing.read(db, run_id, self._clock.mono_ms()))

    def read_journal(
        self, run_id: str, start: int, max_bytes: int = journal.PAGE_BYTES
    ) -> asyncio.Future[tuple[bytes, ...]]:
        return self._read(partial(journal.read, run_id=run_id, start=start, max_bytes=max_bytes))

    def find(self, query: p.RunQuery) -> asyncio.Future[tuple[p.RunRecord, ...]]:
        return self._read(lambda db: listing.find(db, query, self._clock.mono_ms()))

    def read_facts(self, run_id: str, after: int, limit: int) -> asyncio.Future[tuple[p.Fact, ...]]:
        return self._read(partial(facts.read, run_id=run_id, after=after, limit=limit))

    def counts(
        self, statuses: frozenset[RunStatus] = p.EVERY_STATUS
    ) -> asyncio.Future[Mapping[tuple[str, RunStatus], int]]:
        return self._read(partial(listing.counts, statuses=statuses))

    def census(self, statuses: frozenset[RunStatus]) -> asyncio.Future[p.Census]:
        return self._read(partial(listing.census, statuses=statuses))

    def suspects(self) -> asyncio.Future[int]:
        return self._read(claims.suspects)

    def beat(self, worker: p.WorkerRecord, forget_after_ms: int) -> asyncio.Future[None]:
        return self._write(partial(workers.beat, worker=worker, forget_after_ms=forget_after_ms))

    def retire(self, incarnation: str) -> asyncio.Future[None]:
        return self._write(partial(workers.retire, incarnation=incarnation))

    def workers(self) -> asyncio.Future[tuple[p.WorkerRecord, ...]]:
        return self._read(lambda db: workers.known(db, self._clock.mono_ms()))

    def purge(self, limit: int) -> asyncio.Future[int]:
        return self._write(lambda tx: submits.purge(tx, limit) + events.purge(tx, limit))

    async def drop_finished(self, statuses: frozenset[RunStatus], older_than_ms: int, limit: int) -> int:
        # looked at without the lock first: mostly nothing is over
        last_ms = self._clock.wall_ms() - older_than_ms
        found = await self._read(partial(retention.look, statuses=statuses, last_ms=last_ms, limit=limit))
        if not found:
            return 0
        return await self._write(partial(retention.drop, found=found, older_than_ms=older_than_ms))

    def put_schedule(self, schedule: p.ScheduleRecord) -> asyncio.Future[bool]:
        return self._write(partial(schedules.put, schedule=schedule))

    def schedules(self, *, due_only: bool = False) -> asyncio.Future[p.Schedules]:
        return self._read(lambda db: schedules.read(db, self._clock.wall_ms(), due_only=due_only))

    def fire(self, firing: p.Firing) -> asyncio.Future[bool]:
        return self._write(partial(schedules.fire, firing=firing))

    def drop_schedule(self, schedule_id: str) -> asyncio.Future[bool]:
        return self._write(partial(schedules.drop, schedule_id=schedule_id))

    async def subscribe(self, workflow: str, version: str | None, names: frozenset[str]) -> None:
        if await self._read(partial(events.is_news, workflow=workflow, version=version, names=names)):
            await self._write(partial(events.subscribe, workflow=workflow, version=version, names=names))

    def emit(self, event: p.Event) -> asyncio.Future[p.Emission]:
        return self._write(partial(events.emit, event=event))

    def events_pending(
        self, workflows: frozenset[str] | None, limit: int, after: p.PendingEvent | None = None
    ) -> asyncio.Future[tuple[p.PendingEvent, ...]]:
        return self._read(partial(events.pending, workflows=workflows, limit=limit, after=after))

    def settle_event(self, event_id: str, workflow: str, run: p.NewRun | None) -> asyncio.Future[bool]:
        return self._write(partial(events.settle, event_id=event_id, workflow=workflow, run=run))

    def tell_tenure(self, tell: Callable[[int], None]) -> None:
        self._here().lock.tell_tenure = tell

    async def ping(self) -> None:
        lock = self._here().lock
        answer = self._write(_prove, is_alive=False)
        await asyncio.wait([answer], timeout=max(self._settings.ping_s - lock.waited_s(), 0.0))
        if not answer.done():
            answer.cancel()
            raise StoreUnavailable(lock.complaint())
        answer.result()

    def listen(self, on_wake: Callable[[p.Wake], None], kinds: frozenset[p.Wake] = p.EVERY_WAKE) -> Listener:
        return Listener(
            self._here().folder, kinds, on_wake, lambda: self._read(lambda db: int(db.pragma("data_version")))
        )


def _prove(tx: Tx) -> None:
    """Ping's work: the lock is proof enough, but while the disk is full the store is not fit for work."""
    if tx.strained:
        raise StoreUnavailable("the disk is full: nothing new is begun until some space is free")
