"""The Valkey store: it opens the servers of a namespace, runs scripts there, and hears what they publish.

Its verbs are those of the front. A verb about one run goes to the run's shard and costs what it costs there; what is
asked of all runs is asked of all shards at once, in one write to each server.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from pyrula_runtime.core.errors import ConfigurationError, StoreUnavailable, UsageError
from pyrula_runtime.stores import protocol as p
from pyrula_runtime.stores.clock import Clock
from pyrula_runtime.stores.valkey import server
from pyrula_runtime.stores.valkey.address import Address, parse
from pyrula_runtime.stores.valkey.asking import at_once
from pyrula_runtime.stores.valkey.connection import Argument
from pyrula_runtime.stores.valkey.front import Front
from pyrula_runtime.stores.valkey.lane import Call, Lane
from pyrula_runtime.stores.valkey.lanes import Lanes
from pyrula_runtime.stores.valkey.outbox import Outbox
from pyrula_runtime.stores.valkey.places import FIRST, MOST
from pyrula_runtime.stores.valkey.route import Route
from pyrula_runtime.stores.valkey.scripts import Script, scripts
from pyrula_runtime.stores.valkey.settings import Settings
from pyrula_runtime.stores.valkey.shards import Shards
from pyrula_runtime.stores.valkey.wakes import Listener, Listeners, Place


class ValkeyStore(Front):
    """One namespace of one server or cluster as a store.

    `shard_count` is the number of slices in which runs are kept; without it, it is what the namespace has, and for a
    new one 1 on a server and 64 in a cluster. Another number than before moves nothing: what is there is served where
    it is. A worker that is gone keeps its shards for `shard_lease_ttl` seconds, its own option if that is unset here.
    Whether there is a cluster is asked of the server, unless `cluster` says it. True is for a proxy that hides one: its
    nodes are asked who has what, and must be reached from here at the addresses that they tell. False is for a proxy
    that passes each call on to the right node by itself: it is used as one server. `clock` is for tests; without one,
    time is the server's.
    Raises ConfigurationError for a URL or number that cannot be.
    """

    def __init__(
        self,
        url: str | Address,
        clock: Clock | None = None,
        settings: Settings | None = None,
        *,
        shard_count: int | None = None,
        shard_lease_ttl: float | None = None,
        cluster: bool | None = None,
    ) -> None:
        self._address = parse(url) if isinstance(url, str) else url
        self._clock, self.settings = clock, settings or Settings()
        if shard_count is not None and not 1 <= shard_count <= MOST:
            raise ConfigurationError([f"shard_count is {shard_count!r}, but must be a whole number from 1 to {MOST}"])
        self._shard_count = shard_count
        self.route = Route(self._address, self.settings.connect_s, in_cluster=cluster)
        self.is_sharded = False
        self._lanes = Lanes(self.route, self.settings)
        self._publish = "PUBLISH"
        self._scripts: dict[str, Script] = {}
        self._opened_by: int | None = None
        self._mutex = threading.Lock()
        listeners = Listeners()
        shards = Shards(self.route, self.settings, self._run, shard_count, listeners.regroup)
        outbox = Outbox(shards, self._run, self.settings.carry_s)
        lease_ttl_ms = None if shard_lease_ttl is None else round(shard_lease_ttl * 1000)
        super().__init__(shards, outbox, listeners, clock, lease_ttl_ms)

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
        made, self._publish = await asyncio.to_thread(server.examine, self.route, self.settings)
        self._scripts = scripts(guarded=self.settings.guarded, publish=self._publish)
        self.is_sharded = self._publish == "SPUBLISH"
        with self._mutex:
            self._lanes.open()
            self._opened_by = os.getpid()
        self._lanes.to(self._shards.first.tag).adopt(made)
        try:
            await self._shards.learn(self._shard_count)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Wait for the answers to what was asked, then hang up."""
        await self._outbox.finish(self.settings.close_s)
        with self._mutex:
            opened_by, self._opened_by = self._opened_by, None
        if opened_by is not None:
            await self._lanes.close()

    # the way to a shard

    def _lane(self, tag: str) -> Lane:
        if self._opened_by != os.getpid():
            raise UsageError(
                f"store {self._address.place} is not open in this process; await its open() here, after any fork"
            )
        return self._lanes.to(tag)

    def _run(
        self, tag: str, name: str, args: tuple[Argument, ...], told: Callable[[Any], Any] = bool
    ) -> asyncio.Future[Any]:
        lane = self._lane(tag)
        future: asyncio.Future[Any] = lane.loop.create_future()
        now = "" if self._clock is None else f"{self._clock.wall_ms()} {self._clock.mono_ms()}"
        lane.call(Call(self._scripts[name], tag, (now, *args), future, told))
        return future

    # being there, and hearing

    async def ping(self) -> None:
        pings = {first: self.shard(first).ping() for first, *_ in self._shards.by_server()}
        try:
            async with asyncio.timeout(self.settings.ping_s):
                await at_once(pings, self.settings.ping_s / 2, lambda told: None)
        except TimeoutError:
            raise StoreUnavailable(
                f"the store at {self._address.place} gave no answer in {self.settings.ping_s:g} s"
            ) from None

    def tell_tenure(self, tell: Callable[[int], None]) -> None:
        """Nobody keeps others from writing here: a script ends before the next begins."""
        self._lane(self._shards.first.tag)

    def listen(self, on_wake: Callable[[p.Wake], None], kinds: frozenset[p.Wake] = p.EVERY_WAKE) -> Listener:
        self._lane(self._shards.first.tag)
        listener = Listener(self, on_wake, kinds)
        self._listeners.add(listener)
        return listener

    def forget(self, listener: Listener) -> None:
        """It has been closed."""
        self._listeners.forget(listener)

    def places(self, kinds: frozenset[p.Wake]) -> Mapping[bytes, Place]:
        """The channels to be heard: of claimable runs where claims look, of anything else everywhere."""
        everywhere = range(self.shards)
        leased = self.lookout.leased
        where = {p.Wake.ready: everywhere if leased is None else leased, p.Wake.lease: (FIRST,)}
        return {
            f"{self.tag(shard)}{kind.value}".encode(): (shard, kind)
            for kind in kinds
            for shard in where.get(kind, everywhere)
        }

    def arm(self, shard: int) -> asyncio.Future[bool]:
        """Have the next run that becomes claimable in a shard told."""
        return self.shard(shard).arm()
