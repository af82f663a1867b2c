"""A place between the engine and any store where tests break things, at a chosen call and moment.

Every verb passes through `Seam._cross`, which asks the fault three times: before anything was sent, once the store has
done the work but the caller does not know, and after the caller has gone on with the answer. The fault may raise (an
error of ours), kill the process, lose the answer, or have the call sent twice, as a transport that retries would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from itertools import count
from typing import TypeVar

from pyrula_runtime.core.errors import PyrulaError, StoreUnavailable
from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import Moves, RunStatus
from pyrula_runtime.stores import protocol as p

Answer = TypeVar("Answer")


class Phase(StrEnum):
    """Where a call stands when the fault is asked."""

    before = "before"  # nothing was sent
    sent = "sent"  # the store has done it, the caller does not know
    answered = "answered"  # the caller has the answer and has gone on


class Deed(Enum):
    """What the fault wants. Raising an error, or ending the process, it does itself."""

    go_on = "go_on"
    twice = "twice"  # at `before`: send the call again; the second answer counts
    lose = "lose"  # at `sent`: the answer is lost, the caller hears StoreUnavailable
    vanish = "vanish"  # the caller never hears anything; at `before` nothing is sent either


@dataclass(frozen=True, slots=True)
class Crossing:
    """One look at one call: the calls of a process are numbered from 1 in the order in which they were made."""

    number: int
    verb: str
    phase: Phase


Fault = Callable[[Crossing], Deed]


def no_faults(crossing: Crossing) -> Deed:
    """Let everything pass."""
    return Deed.go_on


class Seam:
    """A store that passes everything on to another one, through the fault."""

    def __init__(self, store: p.Store, fault: Fault = no_faults) -> None:
        self._store = store
        self._fault = fault
        self._numbers = count(1)

    @property
    def url(self) -> str:
        return self._store.url

    @property
    def identity(self) -> str:
        return self._store.identity

    def _cross(self, verb: str, send: Callable[[], Awaitable[Answer]]) -> asyncio.Future[Answer]:
        number = next(self._numbers)
        outer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        try:
            deed = self._fault(Crossing(number, verb, Phase.before))
        except PyrulaError as error:
            outer.set_exception(error)
            return outer
        if deed is Deed.vanish:
            return outer
        inner = asyncio.ensure_future(send())
        if deed is Deed.twice:
            inner.add_done_callback(_heard)
            inner = asyncio.ensure_future(send())
        inner.add_done_callback(lambda done: self._answer(number, verb, done, outer))
        return outer

    def _answer(self, number: int, verb: str, inner: asyncio.Future[Answer], outer: asyncio.Future[Answer]) -> None:
        if inner.cancelled():
            outer.cancel()
            return
        error = inner.exception()
        try:
            deed = self._fault(Crossing(number, verb, Phase.sent))
            if deed is Deed.vanish:
                return
            if deed is Deed.lose:
                raise StoreUnavailable(f"the answer to call {number} ({verb}) was lost")
        except PyrulaError as fault:
            error = fault
        if not outer.done():
            if error is not None:
                outer.set_exception(error)
            else:
                outer.set_result(inner.result())
        # the caller was woken by the line above and runs first
        asyncio.get_running_loop().call_soon(self._fault, Crossing(number, verb, Phase.answered))

    @property
    def shards(self) -> int:
        return self._store.shards

    def new_run_id(self, now_ms: int, entropy: bytes, key: str | None = None) -> str:
        return self._store.new_run_id(now_ms, entropy, key)

    def former_run_ids(self, now_ms: int, entropy: bytes) -> tuple[str, ...]:
        return self._store.former_run_ids(now_ms, entropy)

    async def open(self) -> None:
        await self._cross("open", self._store.open)

    async def close(self) -> None:
        await self._cross("close", self._store.close)

    def submit(self, run: p.NewRun) -> asyncio.Future[p.Submitted]:
        return self._cross("submit", lambda: self._store.submit(run))

    def claim(self, request: p.ClaimRequest) -> asyncio.Future[tuple[p.Claim, ...]]:
        return self._cross("claim", lambda: self._store.claim(request))

    def renew(self, tokens: Sequence[Token], lock_ttl_ms: int) -> asyncio.Future[p.Renewed]:
        return self._cross("renew", lambda: self._store.renew(tokens, lock_ttl_ms))

    def commit(self, commit: p.Commit) -> asyncio.Future[p.Committed]:
        return self._cross("commit", lambda: self._store.commit(commit))

    def release(self, release: p.Release) -> asyncio.Future[bool]:
        return self._cross("release", lambda: self._store.release(release))

    def amend(self, amendment: p.Amendment) -> asyncio.Future[bool]:
        return self._cross("amend", lambda: self._store.amend(amendment))

    def deliver(self, message: p.Message, moves: Moves) -> asyncio.Future[p.Delivery]:
        return self._cross("deliver", lambda: self._store.deliver(message, moves))

    def read_inbox(self, run_id: str, after_seq: int) -> asyncio.Future[tuple[p.Received, ...]]:
        return self._cross("read_inbox", lambda: self._store.read_inbox(run_id, after_seq))

    def wake_due(self, moves: Moves, limit: int) -> asyncio.Future[p.Woken]:
        return self._cross("wake_due", lambda: self._store.wake_due(moves, limit))

    def reclaim_lapsed(self, to_status: RunStatus, lock_ttl_ms: int, limit: int) -> asyncio.Future[p.Lapsed]:
        return self._cross("reclaim_lapsed", lambda: self._store.reclaim_lapsed(to_status, lock_ttl_ms, limit))

    def holdings(self, incarnation: str) -> asyncio.Future[tuple[p.Holding, ...]]:
        return self._cross("holdings", lambda: self._store.holdings(incarnation))

    def read(self, run_id: str) -> asyncio.Future[p.RunRecord | None]:
        return self._cross("read", lambda: self._store.read(run_id))

    def read_journal(self, run_id: str, start: int, max_bytes: int = 1_000_000) -> asyncio.Future[tuple[bytes, ...]]:
        return self._cross("read_journal", lambda: self._store.read_journal(run_id, start, max_bytes))

    def find(self, query: p.RunQuery) -> asyncio.Future[tuple[p.RunRecord, ...]]:
        return self._cross("find", lambda: self._store.find(query))

    def read_facts(self, run_id: str, after: int, limit: int) -> asyncio.Future[tuple[p.Fact, ...]]:
        return self._cross("read_facts", lambda: self._store.read_facts(run_id, after, limit))

    def counts(
        self, statuses: frozenset[RunStatus] = p.EVERY_STATUS
    ) -> asyncio.Future[Mapping[tuple[str, RunStatus], int]]:
        return self._cross("counts", lambda: self._store.counts(statuses))

    def census(self, statuses: frozenset[RunStatus]) -> asyncio.Future[p.Census]:
        return self._cross("census", lambda: self._store.census(statuses))

    def suspects(self) -> asyncio.Future[int]:
        return self._cross("suspects", self._store.suspects)

    def beat(self, worker: p.WorkerRecord, forget_after_ms: int) -> asyncio.Future[None]:
        return self._cross("beat", lambda: self._store.beat(worker, forget_after_ms))

    def retire(self, incarnation: str) -> asyncio.Future[None]:
        return self._cross("retire", lambda: self._store.retire(incarnation))

    def workers(self) -> asyncio.Future[tuple[p.WorkerRecord, ...]]:
        return self._cross("workers", self._store.workers)

    def lease(self, request: p.LeaseRequest) -> asyncio.Future[p.Leased]:
        return self._cross("lease", lambda: self._store.lease(request))

    def give_up_leases(self, incarnation: str) -> asyncio.Future[None]:
        return self._cross("give_up_leases", lambda: self._store.give_up_leases(incarnation))

    def leases(self) -> asyncio.Future[tuple[p.Lease, ...]]:
        return self._cross("leases", self._store.leases)

    def carry(self, limit: int) -> asyncio.Future[int]:
        return self._cross("carry", lambda: self._store.carry(limit))

    def put_schedule(self, schedule: p.ScheduleRecord) -> asyncio.Future[bool]:
        return self._cross("put_schedule", lambda: self._store.put_schedule(schedule))

    def schedules(self, *, due_only: bool = False) -> asyncio.Future[p.Schedules]:
        return self._cross("schedules", lambda: self._store.schedules(due_only=due_only))

    def fire(self, firing: p.Firing) -> asyncio.Future[bool]:
        return self._cross("fire", lambda: self._store.fire(firing))

    def drop_schedule(self, schedule_id: str) -> asyncio.Future[bool]:
        return self._cross("drop_schedule", lambda: self._store.drop_schedule(schedule_id))

    def subscribe(self, workflow: str, version: str | None, names: frozenset[str]) -> asyncio.Future[None]:
        return self._cross("subscribe", lambda: self._store.subscribe(workflow, version, names))

    def emit(self, event: p.Event) -> asyncio.Future[p.Emission]:
        return self._cross("emit", lambda: self._store.emit(event))

    def events_pending(
        self, workflows: frozenset[str] | None, limit: int, after: p.PendingEvent | None = None
    ) -> asyncio.Future[tuple[p.PendingEvent, ...]]:
        return self._cross("events_pending", lambda: self._store.events_pending(workflows, limit, after))

    def settle_event(self, event_id: str, workflow: str, run: p.NewRun | None) -> asyncio.Future[bool]:
        return self._cross("settle_event", lambda: self._store.settle_event(event_id, workflow, run))

    def purge(self, limit: int) -> asyncio.Future[int]:
        return self._cross("purge", lambda: self._store.purge(limit))

    def drop_finished(self, statuses: frozenset[RunStatus], older_than_ms: int, limit: int) -> asyncio.Future[int]:
        return self._cross("drop_finished", lambda: self._store.drop_finished(statuses, older_than_ms, limit))

    async def ping(self) -> None:
        await self._cross("ping", self._store.ping)

    def tell_tenure(self, tell: Callable[[int], None]) -> None:
        self._store.tell_tenure(tell)

    def listen(self, on_wake: Callable[[p.Wake], None], kinds: frozenset[p.Wake] = p.EVERY_WAKE) -> p.Listening:
        return self._store.listen(on_wake, kinds)


def _heard(future: asyncio.Future[Answer]) -> None:
    """Take note of an answer nobody waits for, so that its error is not reported as forgotten."""
    if not future.cancelled():
        future.exception()
