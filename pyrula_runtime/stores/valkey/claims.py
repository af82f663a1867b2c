"""Claims around the shards: where the lookout says there may be work, and what a turn that ends takes along.

A claim asks all these shards at once, each for its part of the limit, and again those that gave all they were asked
for. A commit that ends a turn may bring its successor out of the same shard, in the same write; now and then, and
whenever that shard has none, the claim loop is rung instead, which looks at the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.stores import protocol as p
from pyrula_runtime.stores.valkey import requests
from pyrula_runtime.stores.valkey.claimed import Claimed
from pyrula_runtime.stores.valkey.lookout import Lookout
from pyrula_runtime.stores.valkey.places import FIRST, shard_of_run
from pyrula_runtime.stores.valkey.shards import Shards
from pyrula_runtime.stores.valkey.wakes import Wanted

log = logging.getLogger(__name__)


class Claims:
    """The verb `claim`, and `commit`, which may claim; `ring` says that there is more than a claim has brought."""

    def __init__(
        self, shards: Shards, wanted: Wanted, lookout: Lookout, claimed: Claimed, ring: Callable[[], None]
    ) -> None:
        self._shards, self._wanted, self._lookout, self._claimed = shards, wanted, lookout, claimed
        self._ring = ring

    def claim(self, request: p.ClaimRequest) -> Awaitable[tuple[p.Claim, ...]]:
        """Take claimable runs, wherever there may be some."""
        if self._shards.most > 1:
            return self._claim_around(request)
        self._wanted.note(request, FIRST)
        return self._shards.first.claim(request)

    async def _claim_around(self, request: p.ClaimRequest) -> tuple[p.Claim, ...]:
        lines = frozenset(requests.lines(request))
        taken: list[p.Claim] = []
        fault: StoreUnavailable | None = None
        where = self._lookout.candidates(lines, self._shards.most, everywhere=request.suspects)
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
        self._wanted.note(request, number)
        begun = self._lookout.begin(number)
        self._claimed.begin(number)
        try:
            taken = await self._shards.shard(number).claim(replace(request, limit=limit))
        except StoreUnavailable as error:
            self._claimed.unanswered(number)
            return error
        self._claimed.answered(number, len(taken))
        self._lookout.took(number, lines, begun, all_asked=len(taken) == limit)
        return taken

    def commit(self, commit: p.Commit) -> asyncio.Future[p.Committed]:
        """Write a commit, and take what it asks for out of its own shard, if it may."""
        number = shard_of_run(commit.token.run_id)
        shard, request = self._shards.shard(number), commit.claim
        if request is None:
            return shard.commit(commit)
        if self._shards.most == 1:
            self._wanted.note(request, FIRST)
            return shard.commit(commit)
        lines = frozenset(requests.lines(request))
        if not self._lookout.may_follow(number, lines, self._shards.most):
            # the claim loop looks at the other shards, and has the slot that comes free
            self._ring()
            return shard.commit(replace(commit, claim=None))
        self._wanted.note(request, number)
        begun, limit = self._lookout.begin(number), request.limit
        self._claimed.begin(number)
        committed = shard.commit(commit)

        def look(done: asyncio.Future[p.Committed]) -> None:
            if done.cancelled() or done.exception() is not None:
                self._claimed.unanswered(number)
                return
            self._claimed.answered(number, len(done.result().claims))
            if done.result().append is not p.Append.done:
                return
            is_full = len(done.result().claims) == limit
            self._lookout.took(number, lines, begun, all_asked=is_full)
            if not is_full and self._lookout.candidates(lines, self._shards.most):
                self._ring()

        committed.add_done_callback(look)
        return committed


def _shared(limit: int, where: Sequence[int]) -> list[tuple[int, int]]:
    """How many runs to ask of each shard, so that together it is the limit."""
    each, more = divmod(limit, len(where))
    return [(number, each + (at < more)) for at, number in enumerate(where) if each + (at < more)]
