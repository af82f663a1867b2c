"""Each verb led to the shards it is about, and what several shards answer put together.

What is more than a way and a sum stands in parts of its own: `claims`, `submitting` for keys, `leasing`, `timers` and
the `outbox`. With one shard every verb is passed on as it is. With more, order and limits hold within a shard: claims
take the oldest of each shard in turn, scans the longest lapsed of each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from itertools import chain
from typing import TypeVar

from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import Moves, RunStatus
from pyrula_runtime.stores import protocol as p
from pyrula_runtime.stores.clock import Clock, SystemClock
from pyrula_runtime.stores.valkey.answers import Ended
from pyrula_runtime.stores.valkey.asking import at_once, in_turn, whole
from pyrula_runtime.stores.valkey.claimed import Claimed
from pyrula_runtime.stores.valkey.claims import Claims
from pyrula_runtime.stores.valkey.dues import Dues
from pyrula_runtime.stores.valkey.leasing import Leasing
from pyrula_runtime.stores.valkey.lookout import Lookout
from pyrula_runtime.stores.valkey.outbox import Outbox
from pyrula_runtime.stores.valkey.places import FIRST, new_run_id, shard_of_run
from pyrula_runtime.stores.valkey.shard import Shard
from pyrula_runtime.stores.valkey.shards import Shards
from pyrula_runtime.stores.valkey.submitting import Submitting
from pyrula_runtime.stores.valkey.timers import Timers
from pyrula_runtime.stores.valkey.wakes import Listeners, Wanted

Answer = TypeVar("Answer")
Whole = TypeVar("Whole")
Key = TypeVar("Key", bound=Hashable)


class Front:
    """The verbs of a store of several shards; leases live for `lease_ttl_ms`, or as long as workers ask for."""

    def __init__(
        self, shards: Shards, outbox: Outbox, listeners: Listeners, clock: Clock | None, lease_ttl_ms: int | None
    ) -> None:
        self.wanted, self.lookout, self.dues = Wanted(), Lookout(), Dues(clock)
        self._shards, self._outbox, self._listeners = shards, outbox, listeners
        self._claimed = Claimed()
        self._claims = Claims(shards, self.wanted, self.lookout, self._claimed, listeners.ring)
        self._leasing = Leasing(shards, self.wanted, self.lookout, listeners, lease_ttl_ms)
        self._submitting = Submitting(shards, (clock or SystemClock()).wall_ms)
        self._timers = Timers(shards, self.dues)

    @property
    def shards(self) -> int:
        """How many shards there are to be looked at."""
        return self._shards.most

    def shard(self, number: int) -> Shard:
        """The shard of this number."""
        return self._shards.shard(number)

    def tag(self, shard: int) -> str:
        """What the keys and channels of a shard begin with."""
        return self._shards.tag(shard)

    def new_run_id(self, now_ms: int, entropy: bytes, key: str | None = None) -> str:
        """A run's id, with its shard's number if there are several."""
        return new_run_id(now_ms, entropy, key, self._shards.layout.count)

    def former_run_ids(self, now_ms: int, entropy: bytes) -> tuple[str, ...]:
        """The ids of the same run by former numbers of shards, and always by one: a former version gave that."""
        former = {new_run_id(now_ms, entropy, None, count) for count in (1, *self._shards.layout.former)}
        return tuple(sorted(former - {self.new_run_id(now_ms, entropy)}))

    # one run

    def submit(self, run: p.NewRun) -> Awaitable[p.Submitted]:
        return self._submitting.submit(run)

    def commit(self, commit: p.Commit) -> asyncio.Future[p.Committed]:
        committed = self._claims.commit(commit)
        if commit.effects:
            self._outbox.carry_after(shard_of_run(commit.token.run_id), commit.effects, committed)
        return committed

    def release(self, release: p.Release) -> Awaitable[bool]:
        released = self._shards.of(release.token.run_id).release(release)
        if release.effects:
            self._outbox.carry_after(shard_of_run(release.token.run_id), release.effects, released)
        return released

    def amend(self, amendment: p.Amendment) -> Awaitable[bool]:
        amended = self._shards.of(amendment.run_id).amend(amendment)
        if not amendment.effects:
            return amended
        written = asyncio.ensure_future(amended)
        self._outbox.carry_after(shard_of_run(amendment.run_id), amendment.effects, written)
        return written

    def deliver(self, message: p.Message, moves: Moves) -> Awaitable[p.Delivery]:
        return self._shards.of(message.run_id).deliver(message, moves)

    def read(self, run_id: str) -> Awaitable[p.RunRecord | None]:
        return self._shards.of(run_id).read(run_id)

    def read_journal(self, run_id: str, start: int, max_bytes: int = 1_000_000) -> Awaitable[tuple[bytes, ...]]:
        return self._shards.of(run_id).read_journal(run_id, start, max_bytes)

    def read_inbox(self, run_id: str, after_seq: int) -> Awaitable[tuple[p.Received, ...]]:
        return self._shards.of(run_id).read_inbox(run_id, after_seq)

    def read_facts(self, run_id: str, after: int, limit: int) -> Awaitable[tuple[p.Fact, ...]]:
        return self._shards.of(run_id).read_facts(run_id, after, limit)

    # many runs

    def claim(self, request: p.ClaimRequest) -> Awaitable[tuple[p.Claim, ...]]:
        return self._claims.claim(request)

    def wake_due(self, moves: Moves, limit: int) -> Awaitable[p.Woken]:
        return self._timers.wake_due(moves, limit)

    def carry(self, limit: int) -> Awaitable[int]:
        return self._outbox.carry(limit)

    def renew(self, tokens: Sequence[Token], lock_ttl_ms: int) -> Awaitable[p.Renewed]:
        groups: dict[int, list[Token]] = {}
        for token in tokens:
            groups.setdefault(shard_of_run(token.run_id), []).append(token)
        calls = {number: self.shard(number).renew(group, lock_ttl_ms) for number, group in groups.items()}
        return self._together(calls or {FIRST: self._shards.first.renew([], lock_ttl_ms)}, _renewed)

    def reclaim_lapsed(self, to_status: RunStatus, lock_ttl_ms: int, limit: int) -> Awaitable[p.Lapsed]:
        if self._shards.most == 1:
            return self._shards.first.reclaim_lapsed(to_status, lock_ttl_ms, limit)
        return self._reclaim_around(to_status, lock_ttl_ms, limit)

    async def _reclaim_around(self, to_status: RunStatus, lock_ttl_ms: int, limit: int) -> p.Lapsed:
        run_ids: list[str] = []
        grace, quiet_ms = False, lock_ttl_ms

        async def reclaim(numbers: Sequence[int]) -> bool:
            nonlocal grace, quiet_ms
            outage = ""
            for number in numbers:
                left, shard = limit - len(run_ids), self.shard(number)
                lapsed, outages, left_over = await shard.reclaim(to_status, lock_ttl_ms, left, outage)
                outage = outage or f"{number}:{outages}"
                if left_over:
                    self._outbox.has_left_over(number)
                run_ids.extend(lapsed.run_ids)
                grace |= lapsed.grace
                quiet_ms = min(quiet_ms, lapsed.quiet_ms)
                if len(run_ids) >= limit:
                    quiet_ms = 0
                    return True
            return False

        fault = await in_turn(self._shards.by_server(), reclaim)
        return whole(p.Lapsed(run_ids=tuple(run_ids), grace=grace, quiet_ms=quiet_ms), fault)

    def holdings(self, incarnation: str) -> Awaitable[tuple[p.Holding, ...]]:
        if self.lookout.leased is not None and self.wanted.belongs_here(incarnation):
            return self._held_here(incarnation)
        return self._shards.first.holdings(incarnation) if self._shards.most == 1 else self._held_by(incarnation)

    def _held_by(self, incarnation: str) -> Awaitable[tuple[p.Holding, ...]]:
        def held(told: Mapping[int, tuple[tuple[p.Holding, ...], int]]) -> tuple[p.Holding, ...]:
            for number, (_, left_over) in told.items():
                if left_over:  # whoever is asked about may have died before he carried what he wrote
                    self._outbox.has_left_over(number)
            return tuple(chain.from_iterable(holdings for holdings, _ in told.values()))

        return self._together(
            {shard.number: shard.holdings_and_left_over(incarnation) for shard in self._shards.all()}, held
        )

    async def _held_here(self, incarnation: str) -> tuple[p.Holding, ...]:
        asked = self._claimed.shards()

        def held(told: Mapping[int, tuple[p.Holding, ...]]) -> tuple[p.Holding, ...]:
            for number, holdings in told.items():
                if not holdings:
                    self._claimed.is_empty(number, asked[number])
            return tuple(chain.from_iterable(told.values()))

        return await self._together({number: self.shard(number).holdings(incarnation) for number in asked}, held)

    def find(self, query: p.RunQuery) -> Awaitable[tuple[p.RunRecord, ...]]:
        def newest(told: Mapping[int, tuple[p.RunRecord, ...]]) -> tuple[p.RunRecord, ...]:
            found = sorted(chain.from_iterable(told.values()), key=lambda record: record.run_id, reverse=True)
            return tuple(found[: query.limit])

        return self._together({shard.number: shard.find(query) for shard in self._shards.all()}, newest)

    def counts(self, statuses: frozenset[RunStatus] = p.EVERY_STATUS) -> Awaitable[Mapping[tuple[str, RunStatus], int]]:
        return self._together({shard.number: shard.counts(statuses) for shard in self._shards.all()}, _added)

    def census(self, statuses: frozenset[RunStatus]) -> Awaitable[p.Census]:
        return self._together({shard.number: shard.census(statuses) for shard in self._shards.all()}, _counted)

    def suspects(self) -> Awaitable[int]:
        return self._together(
            {shard.number: shard.suspects() for shard in self._shards.all()}, lambda told: sum(told.values())
        )

    def _together(
        self, calls: Mapping[int, Awaitable[Answer]], put_together: Callable[[Mapping[int, Answer]], Whole]
    ) -> Awaitable[Whole]:
        return at_once(calls, self._shards.patience_s, put_together)

    def purge(self, limit: int) -> Awaitable[int]:
        return self._shards.first.purge(limit) if self._shards.most == 1 else self._purge_around(limit)

    async def _purge_around(self, limit: int) -> int:
        gone = 0

        async def purge(numbers: Sequence[int]) -> bool:
            nonlocal gone
            for number in numbers:
                gone += await self.shard(number).purge(limit - gone)
                if gone >= limit:  # settled events come on top
                    return True
            return False

        fault = await in_turn(self._shards.by_server(), purge)
        return whole(gone, fault)

    async def drop_finished(self, statuses: frozenset[RunStatus], older_than_ms: int, limit: int) -> int:
        gone = 0

        async def drop(numbers: Sequence[int]) -> bool:
            nonlocal gone
            for shard in map(self.shard, numbers):
                looked_at: set[str] = set()  # who is kept may be old again before all have had their turn
                while gone < limit:
                    told = await shard.finished(statuses, older_than_ms, limit - gone)
                    found = [run for run in told if run.run_id not in looked_at]
                    if not found:
                        break
                    looked_at.update(run.run_id for run in found)
                    gone += await self._drop_from(shard, found)
            return gone >= limit

        fault = await in_turn(self._shards.by_server(), drop)
        return whole(gone, fault)

    async def _drop_from(self, shard: Shard, found: Sequence[Ended]) -> int:
        parents = {run.parent for run in found if run.parent}
        records = await asyncio.gather(*[self.read(parent) for parent in parents])
        alive = {record.run_id for record in records if record is not None and record.finished_ms is None}
        return await shard.drop([(run, run.parent in alive) for run in found])

    # workers

    async def beat(self, worker: p.WorkerRecord, forget_after_ms: int) -> None:
        if await self._shards.first.beat(worker, forget_after_ms) != self._shards.most:
            await self._shards.learn()

    async def retire(self, incarnation: str) -> None:
        await self.give_up_leases(incarnation)
        await self._shards.first.retire(incarnation)

    def workers(self) -> Awaitable[tuple[p.WorkerRecord, ...]]:
        return self._shards.first.workers()

    # leases

    def lease(self, request: p.LeaseRequest) -> Awaitable[p.Leased]:
        return self._leasing.lease(request)

    def give_up_leases(self, incarnation: str) -> Awaitable[None]:
        return self._leasing.give_up(incarnation)

    def leases(self) -> Awaitable[tuple[p.Lease, ...]]:
        return self._leasing.all()

    # schedules and events, of which there is one register in a namespace

    def put_schedule(self, schedule: p.ScheduleRecord) -> Awaitable[bool]:
        return self._shards.first.put_schedule(schedule)

    def schedules(self, *, due_only: bool = False) -> Awaitable[p.Schedules]:
        return self._shards.first.schedules(due_only=due_only)

    def fire(self, firing: p.Firing) -> Awaitable[bool]:
        return self._outbox.carry_with(FIRST, firing.effects, self._shards.first.fire(firing))

    def drop_schedule(self, schedule_id: str) -> Awaitable[bool]:
        return self._shards.first.drop_schedule(schedule_id)

    def subscribe(self, workflow: str, version: str | None, names: frozenset[str]) -> Awaitable[None]:
        return self._shards.first.subscribe(workflow, version, names)

    def emit(self, event: p.Event) -> Awaitable[p.Emission]:
        return self._shards.first.emit(event)

    def events_pending(
        self, workflows: frozenset[str] | None, limit: int, after: p.PendingEvent | None = None
    ) -> Awaitable[tuple[p.PendingEvent, ...]]:
        return self._shards.first.events_pending(workflows, limit, after)

    def settle_event(self, event_id: str, workflow: str, run: p.NewRun | None) -> Awaitable[bool]:
        comes = () if run is None else (p.SubmitRun(run=run),)
        return self._outbox.carry_with(FIRST, comes, self._shards.first.settle_event(event_id, workflow, run))


def _renewed(told: Mapping[int, p.Renewed]) -> p.Renewed:
    return p.Renewed(
        lost=frozenset(chain.from_iterable(each.lost for each in told.values())),
        cancelled=frozenset(chain.from_iterable(each.cancelled for each in told.values())),
        inbox={run_id: number for each in told.values() for run_id, number in each.inbox.items()},
    )


def _counted(told: Mapping[int, p.Census]) -> p.Census:
    return p.Census(
        counts=_added({number: each.counts for number, each in told.items()}),
        suspects=sum(each.suspects for each in told.values()),
        pins=_added({number: each.pins for number, each in told.items()}),
    )


def _added(told: Mapping[int, Mapping[Key, int]]) -> Mapping[Key, int]:
    total: dict[Key, int] = {}
    for each in told.values():
        for key, number in each.items():
            total[key] = total.get(key, 0) + number
    return total
