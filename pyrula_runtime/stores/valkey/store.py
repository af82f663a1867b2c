"""The verbs of the Valkey store: each is a script, called on the lane of the loop that asks."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from heapq import merge
from itertools import islice
from typing import Any

from pyrula_runtime.core.errors import StoreUnavailable, UsageError
from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import Moves, RunStatus
from pyrula_runtime.stores import protocol as p
from pyrula_runtime.stores.clock import Clock
from pyrula_runtime.stores.valkey import answers, requests, server
from pyrula_runtime.stores.valkey.address import Address, parse
from pyrula_runtime.stores.valkey.connection import Argument
from pyrula_runtime.stores.valkey.lane import Call, Lane
from pyrula_runtime.stores.valkey.lanes import Lanes
from pyrula_runtime.stores.valkey.route import Route
from pyrula_runtime.stores.valkey.scripts import Script, scripts
from pyrula_runtime.stores.valkey.settings import Settings
from pyrula_runtime.stores.valkey.unbuilt import WithoutWaiting, refuse_beyond
from pyrula_runtime.stores.valkey.wakes import Listener, Wanted


class ValkeyStore(WithoutWaiting):
    """One namespace of one server as a store. `clock` is for tests; without one, time is the server's."""

    def __init__(self, url: str | Address, clock: Clock | None = None, settings: Settings | None = None) -> None:
        self._address = parse(url) if isinstance(url, str) else url
        self._clock, self._settings = clock, settings or Settings()
        self._route = Route(self._address, self._settings.connect_s)
        self._lanes = Lanes(self._route, self._settings)
        self._publish = "PUBLISH"
        self._scripts: dict[str, Script] = {}
        self._wanted = Wanted()
        self._opened_by: int | None = None
        self._mutex = threading.Lock()

    @property
    def url(self) -> str:
        """The address without user and password."""
        return self._address.url

    @property
    def identity(self) -> str:
        """The same for every handle with this server, database and namespace."""
        return f"valkey:{self._address.place}/{self._address.db}/{self._address.namespace}"

    async def open(self) -> None:
        """Connect, and see that the server is fit to keep runs."""
        if self._opened_by is not None:
            return
        made, self._publish = await asyncio.to_thread(server.examine, self._route, self._settings)
        self._scripts = scripts(guarded=self._settings.guarded, publish=self._publish)
        with self._mutex:
            self._lanes.open()
            self._opened_by = os.getpid()
        self._lanes.here().adopt(made)
        try:
            await self._run("begin", server.SCHEMA, told=server.check_schema(self._address))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Wait for the answers to what was asked, then hang up."""
        with self._mutex:
            opened_by, self._opened_by = self._opened_by, None
        if opened_by is not None:
            await self._lanes.close()

    def _lane(self) -> Lane:
        if self._opened_by != os.getpid():
            raise UsageError(
                f"store {self._address.place} is not open in this process; await its open() here, after any fork"
            )
        return self._lanes.here()

    def _run(self, name: str, *args: Argument, told: Callable[[Any], Any] = bool) -> asyncio.Future[Any]:
        lane = self._lane()
        future: asyncio.Future[Any] = lane.loop.create_future()
        now = "" if self._clock is None else f"{self._clock.wall_ms()} {self._clock.mono_ms()}"
        lane.call(Call(self._scripts[name], self._address.tag, (now, *args), future, told))
        return future

    def submit(self, run: p.NewRun) -> asyncio.Future[p.Submitted]:
        refuse_beyond(run)
        return self._run("submit", *requests.submit(run), told=answers.submitted)

    def claim(self, request: p.ClaimRequest) -> asyncio.Future[tuple[p.Claim, ...]]:
        self._wanted.note(request)
        return self._run("claim", *requests.claim(request), told=answers.claims)

    def renew(self, tokens: Sequence[Token], lock_ttl_ms: int) -> asyncio.Future[p.Renewed]:
        tokens = tuple(tokens)
        return self._run("renew", *requests.renew(tokens, lock_ttl_ms), told=partial(answers.renewed, tokens))

    def commit(self, commit: p.Commit) -> asyncio.Future[p.Committed]:
        refuse_beyond(commit)
        if commit.ending is not None:
            refuse_beyond(commit.ending)
        if commit.claim is not None:
            self._wanted.note(commit.claim)
        if requests.is_plain(commit):
            return self._run("append", *requests.append(commit), told=answers.committed)
        return self._run("commit", *requests.commit(commit), told=answers.committed)

    def release(self, release: p.Release) -> asyncio.Future[bool]:
        refuse_beyond(release)
        return self._run("release", *requests.release(release))

    async def amend(self, amendment: p.Amendment) -> bool:
        refuse_beyond(amendment)
        done = await self._run("amend", *requests.amend(amendment), told=int)
        if done < 0:
            raise UsageError(
                f"run {amendment.run_id} is held by a worker; to make it claimable, give its new status too"
            )
        return bool(done)

    def deliver(self, message: p.Message, moves: Moves) -> asyncio.Future[p.Delivery]:
        return self._run("deliver", *requests.deliver(message, moves), told=lambda said: p.Delivery(said.decode()))

    def reclaim_lapsed(self, to_status: RunStatus, lock_ttl_ms: int, limit: int) -> asyncio.Future[p.Lapsed]:
        return self._run("reclaim", to_status, lock_ttl_ms, limit, told=answers.lapsed)

    def holdings(self, incarnation: str) -> asyncio.Future[tuple[p.Holding, ...]]:
        return self._run("holdings", incarnation, told=answers.holdings)

    def read(self, run_id: str) -> asyncio.Future[p.RunRecord | None]:
        return self._run("read", run_id, told=partial(answers.record, run_id))

    def read_journal(self, run_id: str, start: int, max_bytes: int = 1_000_000) -> asyncio.Future[tuple[bytes, ...]]:
        return self._run("read_journal", run_id, start, max_bytes, told=tuple)

    async def find(self, query: p.RunQuery) -> tuple[p.RunRecord, ...]:
        refuse_beyond(query)
        lists = await self._run("find", *requests.find(query), told=list)
        newest = islice(merge(*lists, reverse=True), query.limit)
        found = await asyncio.gather(*[self.read(run_id.decode()) for run_id in newest])
        return tuple(record for record in found if record is not None)

    def counts(
        self, statuses: frozenset[RunStatus] = p.EVERY_STATUS
    ) -> asyncio.Future[Mapping[tuple[str, RunStatus], int]]:
        return self._run("counts", *sorted(statuses), told=answers.counts)

    def suspects(self) -> asyncio.Future[int]:
        return self._run("suspects", told=int)

    def beat(self, worker: p.WorkerRecord, forget_after_ms: int) -> asyncio.Future[None]:
        return self._run("beat", worker.incarnation, requests.worker(worker), forget_after_ms, told=_nothing)

    def retire(self, incarnation: str) -> asyncio.Future[None]:
        return self._run("retire", incarnation, told=_nothing)

    def workers(self) -> asyncio.Future[tuple[p.WorkerRecord, ...]]:
        return self._run("workers", told=answers.workers)

    def purge(self, limit: int) -> asyncio.Future[int]:
        return self._run("purge", limit, told=int)

    async def ping(self) -> None:
        answer = self._run("ping", told=_nothing)
        await asyncio.wait([answer], timeout=self._settings.ping_s)
        if not answer.done():
            answer.cancel()
            raise StoreUnavailable(f"the store at {self._address.place} gave no answer in {self._settings.ping_s:g} s")
        answer.result()

    def tell_tenure(self, tell: Callable[[int], None]) -> None:
        """Nobody keeps others from writing here: a script ends before the next begins."""
        self._lane()

    def listen(self, on_wake: Callable[[p.Wake], None], kinds: frozenset[p.Wake] = p.EVERY_WAKE) -> Listener:
        self._lane()
        return Listener(
            self._route,
            self._settings,
            self._wanted,
            partial(self._run, "arm"),
            on_wake,
            kinds,
            self._publish == "SPUBLISH",
        )


def _nothing(reply: object) -> None:
    return None
