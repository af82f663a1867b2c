"""Each verb led to the shards it is about, and what several shards answer put together.

With one shard every verb is passed on as it is. With more, order and limits hold within a shard: claims take the oldest
of each shard in turn, scans the longest lapsed of each.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores import protocol as p
from pyrula_runtime.stores.valkey import requests
from pyrula_runtime.stores.valkey.answers import Ended
from pyrula_runtime.stores.valkey.claimed import Claimed
from pyrula_runtime.stores.valkey.front_waiting import FrontWaiting
from pyrula_runtime.stores.valkey.layout import Layout
from pyrula_runtime.stores.valkey.leasing import Leasing
from pyrula_runtime.stores.valkey.lookout import Lookout
from pyrula_runtime.stores.valkey.outbox import Outbox
from pyrula_runtime.stores.valkey.places import FIRST, new_run_id, shard_of_run
from pyrula_runtime.stores.valkey.shard import Shard
from pyrula_runtime.stores.valkey.submitting import Submitting

if TYPE_CHECKING:
    from pyrula_runtime.stores.valkey.wakes import Wanted

log = logging.getLogger(__name__)
Answer = TypeVar("Answer")
Element = TypeVar("Element")
Key = TypeVar("Key", bound=Hashable)


class Front(Submitting, Leasing, Outbox, FrontWaiting):
    """The verbs of a store of several shards."""

    lookout: Lookout
    claimed: Claimed
    wanted: Wanted
    _layout: Layout

    def shard(self, number: int) -> Shard:
        """The shard of this number."""
        raise NotImplementedError

    def _ring(self) -> None:
        """There is more to claim than a claim has brought."""
        raise NotImplementedError

    def _by_server(self) -> list[list[int]]:
        """The shards of each server, in their order; silence is measured in the first of each."""
        raise NotImplementedError

    def _of(self, run_id: str) -> Shard:
        return self.shard(shard_of_run(run_id))

    def _all(self) -> list[Shard]:
        return [self.shard(number) for number in range(self._layout.most)]

    @property
    def shards(self) -> int:
        """How many shards there are to be looked at."""
        return self._layout.most

    def new_run_id(self, now_ms: int, entropy: bytes, key: str | None = None) -> str:
        """A run's id, with its shard's number if there are several."""
        return new_run_id(now_ms, entropy, key, self._layout.count)

    # claims

    def claim(self, request: p.ClaimRequest) -> Awaitable[tuple[p.Claim, ...]]:
        if self._layout.most > 1:
            return self._claim_around(request)
        self.wanted.note(request, FIRST)
        return self.shard(FIRST).claim(request)

    async def _claim_around(self, request: p.ClaimRequest) -> tuple[p.Claim, ...]:
        lines = frozenset(requests.lines(request))
        taken: list[p.Claim] = []
        fault: StoreUnavailable | None = None
        where = self.lookout.candidates(lines, self._layout.most, everywhere=request.suspects)
        while where and len(taken) < request.limit:
            asked = _shared(request.limit - len(taken), where)
            answers = await asyncio.gather(*[self._claim(request, lines, *each) for each in asked])
            where = where[len(asked) :]
            for (number, limit), answer in zip(asked, answers, strict=True):
                if isinstance(answer, StoreUnavailable):
                    fault = answer
                    continue
                taken += answer
                if len(answer) == limit:
                    where.append(number)
        if fault is not None:
            if not taken:
                raise fault
            # what the others gave must not be lost; what this one may have given is found among what is held here
            log.debug("a shard did not answer a claim: %s", fault)
        return tuple(taken)

    async def _claim(
        self, request: p.ClaimRequest, lines: frozenset[str], number: int, limit: int
    ) -> tuple[p.Claim, ...] | StoreUnavailable:
        self.wanted.note(request, number)
        begun = self.lookout.begin(number)
        self.claimed.begin(number)
        try:
            taken = await self.shard(number).claim(replace(request, limit=limit))
        except StoreUnavailable as error:
            return error
        self.claimed.answered(number, len(taken))
        self.lookout.took(number, lines, begun, all_asked=len(taken) == limit)
        return taken

    def commit(self, commit: p.Commit) -> asyncio.Future[p.Committed]:
        committed = self._commit(commit)
        if commit.effects:
            self._carry_after(shard_of_run(commit.token.run_id), commit.effects, committed)
        return committed

    def _commit(self, commit: p.Commit) -> asyncio.Future[p.Committed]:
        number = shard_of_run(commit.token.run_id)
        shard, request = self.shard(number), commit.claim
        if request is None:
            return shard.commit(commit)
        if self._layout.most == 1:
            self.wanted.note(request, FIRST)
            return shard.commit(commit)
        lines = frozenset(requests.lines(request))
        if not self.lookout.may_follow(number, lines, self._layout.most):
            # the claim loop looks at the other shards, and has the slot that comes free
            self._ring()
            return shard.commit(replace(commit, claim=None))
        self.wanted.note(request, number)
        begun, limit = self.lookout.begin(number), request.limit
        self.claimed.begin(number)
        committed = shard.commit(commit)

        def look(done: asyncio.Future[p.Committed]) -> None:
            if done.cancelled() or done.exception() is not None:
                return
            self.claimed.answered(number, len(done.result().claims))
            if done.result().append is not p.Append.done:
                return
            is_full = len(done.result().claims) == limit
            self.lookout.took(number, lines, begun, all_asked=is_full)
            if not is_full and self.lookout.candidates(lines, self._layout.most):
                self._ring()

        committed.add_done_callback(look)
        return committed

    # one run

    def release(self, release: p.Release) -> Awaitable[bool]:
        released = self._of(release.token.run_id).release(release)
        if release.effects:
            self._carry_after(shard_of_run(release.token.run_id), release.effects, released)
        return released

    def amend(self, amendment: p.Amendment) -> Awaitable[bool]:
        amended = self._of(amendment.run_id).amend(amendment)
        if not amendment.effects:
            return amended
        written = asyncio.ensure_future(amended)
        self._carry_after(shard_of_run(amendment.run_id), amendment.effects, written)
        return written

    def read(self, run_id: str) -> Awaitable[p.RunRecord | None]:
        return self._of(run_id).read(run_id)

    def read_journal(self, run_id: str, start: int, max_bytes: int = 1_000_000) -> Awaitable[tuple[bytes, ...]]:
        return self._of(run_id).read_journal(run_id, start, max_bytes)

    # many runs

    def renew(self, tokens: Sequence[Token], lock_ttl_ms: int) -> Awaitable[p.Renewed]:
        groups: dict[int, list[Token]] = {}
        for token in tokens:
            groups.setdefault(shard_of_run(token.run_id), []).append(token)
        return _merged(
            [self.shard(number).renew(group, lock_ttl_ms) for number, group in (groups or {FIRST: []}).items()],
            _renewed,
        )

    def reclaim_lapsed(self, to_status: RunStatus, lock_ttl_ms: int, limit: int) -> Awaitable[p.Lapsed]:
        if self._layout.most == 1:
            return self.shard(FIRST).reclaim_lapsed(to_status, lock_ttl_ms, limit)
        return self._reclaim_around(to_status, lock_ttl_ms, limit)

    async def _reclaim_around(self, to_status: RunStatus, lock_ttl_ms: int, limit: int) -> p.Lapsed:
        run_ids: list[str] = []
        grace = False
        for numbers in self._by_server():
            outage = ""
            for number in numbers:
                left = limit - len(run_ids)
                lapsed, outages, left_over = await self.shard(number).reclaim(to_status, lock_ttl_ms, left, outage)
                outage = outage or f"{number}:{outages}"
                if left_over:
                    self._left_over.add(number)
                run_ids += lapsed.run_ids
                grace |= lapsed.grace
                if len(run_ids) >= limit:
                    return p.Lapsed(run_ids=tuple(run_ids), grace=grace)
        return p.Lapsed(run_ids=tuple(run_ids), grace=grace)

    def holdings(self, incarnation: str) -> Awaitable[tuple[p.Holding, ...]]:
        if self.lookout.leased is not None and self.wanted.belongs_here(incarnation):
            return self._held_here(incarnation)
        return self.shard(FIRST).holdings(incarnation) if self._layout.most == 1 else self._held_by(incarnation)

    async def _held_by(self, incarnation: str) -> tuple[p.Holding, ...]:
        told = await asyncio.gather(*[shard.holdings_and_left_over(incarnation) for shard in self._all()])
        # whoever is asked about may have died before he carried what he wrote
        self._left_over.update(number for number, (_, left_over) in enumerate(told) if left_over)
        return _chained([held for held, _ in told])

    async def _held_here(self, incarnation: str) -> tuple[p.Holding, ...]:
        asked = self.claimed.shards()
        told = await asyncio.gather(*[self.shard(number).holdings(incarnation) for number in asked])
        for (number, brought), held in zip(asked.items(), told, strict=True):
            if not held:
                self.claimed.is_empty(number, brought)
        return _chained(told)

    def find(self, query: p.RunQuery) -> Awaitable[tuple[p.RunRecord, ...]]:
        def newest(told: list[tuple[p.RunRecord, ...]]) -> tuple[p.RunRecord, ...]:
            found = sorted(chain.from_iterable(told), key=lambda record: record.run_id, reverse=True)
            return tuple(found[: query.limit])

        return _merged([shard.find(query) for shard in self._all()], newest)

    def counts(self, statuses: frozenset[RunStatus] = p.EVERY_STATUS) -> Awaitable[Mapping[tuple[str, RunStatus], int]]:
        return _merged([shard.counts(statuses) for shard in self._all()], _added)

    def pins(self) -> Awaitable[Mapping[tuple[str, str], int]]:
        return _merged([shard.pins() for shard in self._all()], _added)

    def suspects(self) -> Awaitable[int]:
        return _merged([shard.suspects() for shard in self._all()], sum)

    def purge(self, limit: int) -> Awaitable[int]:
        return self.shard(FIRST).purge(limit) if self._layout.most == 1 else self._purge_around(limit)

    async def _purge_around(self, limit: int) -> int:
        gone = 0
        for shard in self._all():
            gone += await shard.purge(limit - gone)
            if gone >= limit:  # settled events come on top
                break
        return gone

    async def drop_finished(self, statuses: frozenset[RunStatus], older_than_ms: int, limit: int) -> int:
        gone = 0
        for shard in self._all():
            looked_at: set[str] = set()  # who is kept may be old again before all have had their turn
            while gone < limit:
                told = await shard.finished(statuses, older_than_ms, limit - gone)
                found = [run for run in told if run.run_id not in looked_at]
                if not found:
                    break
                looked_at.update(run.run_id for run in found)
                gone += await self._drop_from(shard, found)
        return gone

    async def _drop_from(self, shard: Shard, found: Sequence[Ended]) -> int:
        parents = {run.parent for run in found if run.parent}
        records = await asyncio.gather(*[self.read(parent) for parent in parents])
        alive = {record.run_id for record in records if record is not None and record.finished_ms is None}
        return await shard.drop([(run, run.parent in alive) for run in found])

    # workers

    async def beat(self, worker: p.WorkerRecord, forget_after_ms: int) -> None:
        others = [self.shard(first).pulse() for first, *_ in self._by_server() if first != FIRST]
        if others:
            await asyncio.gather(*others)
        if await self.shard(FIRST).beat(worker, forget_after_ms) != self._layout.most:
            await self._learn()

    async def retire(self, incarnation: str) -> None:
        await self.give_up_leases(incarnation)
        await self.shard(FIRST).retire(incarnation)

    def workers(self) -> Awaitable[tuple[p.WorkerRecord, ...]]:
        return self.shard(FIRST).workers()


def _shared(limit: int, where: Sequence[int]) -> list[tuple[int, int]]:
    """How many runs to ask of each shard, so that together it is the limit."""
    each, more = divmod(limit, len(where))
    return [(number, each + (at < more)) for at, number in enumerate(where) if each + (at < more)]


def _merged(calls: Sequence[Awaitable[Answer]], put_together: Callable[[list[Answer]], Answer]) -> Awaitable[Answer]:
    """The answer of one shard, or what those of several make together."""
    return calls[0] if len(calls) == 1 else _gathered(calls, put_together)


async def _gathered(calls: Sequence[Awaitable[Answer]], put_together: Callable[[list[Answer]], Answer]) -> Answer:
    return put_together(await asyncio.gather(*calls))


def _renewed(told: list[p.Renewed]) -> p.Renewed:
    return p.Renewed(
        lost=frozenset(chain.from_iterable(each.lost for each in told)),
        cancelled=frozenset(chain.from_iterable(each.cancelled for each in told)),
        inbox={run_id: number for each in told for run_id, number in each.inbox.items()},
    )


def _chained(told: list[tuple[Element, ...]]) -> tuple[Element, ...]:
    return tuple(chain.from_iterable(told))


def _added(told: list[Mapping[Key, int]]) -> Mapping[Key, int]:
    total: dict[Key, int] = {}
    for each in told:
        for key, number in each.items():
            total[key] = total.get(key, 0) + number
    return total
