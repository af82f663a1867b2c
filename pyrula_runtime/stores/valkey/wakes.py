"""Hearing from the servers that something happened: subscriptions of their own for each listener.

Published is only what somebody waits for (`z` in the essay of this package). A handle that claims says with each claim
that came back short which lines it waits for. One that does not claim after a wake asks again by itself, a moment
later, and counts the answer as one more wake, for what came in between was told to nobody.

Subscribe first, then look: a channel counts as a wake of its kind once the server has confirmed it, and while one does
not stand every second does, so nothing is missed for longer, however many connections die.

Which channels: those of all shards, but for claimable runs only those of the shards where this handle looks, so that a
run wakes its lessees and not a whole fleet. In a cluster each node publishes what is in its own slots, so there is one
subscription to each; who has which is found out anew whenever one is lost.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any, Protocol

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.stores.protocol import ClaimRequest, Wake
from pyrula_runtime.stores.valkey.dues import Dues
from pyrula_runtime.stores.valkey.lookout import Lookout
from pyrula_runtime.stores.valkey.route import Node, Route
from pyrula_runtime.stores.valkey.settings import Settings
from pyrula_runtime.stores.valkey.subscription import Subscription

FALLBACK_S = 1.0
# whom pings tell that they prove a server: by that a subscription knows that it stands, and does not have to ask
NOBODY = "-"
Place = tuple[int, Wake]  # the shard and the kind of a channel


class Wanted:
    """What this handle claims: the lines and incarnations that messages for it carry; nothing known means all."""

    def __init__(self) -> None:
        self._workflows: set[str] = set()
        self._incarnations: set[str] = set()
        self.claims: dict[int, int] = {}  # how many went to each shard

    def note(self, request: ClaimRequest, shard: int) -> None:
        """Remember what a claim asks for."""
        self.claims[shard] = self.claims.get(shard, 0) + 1
        self.is_for(request.incarnation)
        for serves in request.serves:
            self._workflows.add(serves.workflow)

    def is_for(self, incarnation: str) -> None:
        """Messages for this worker are for this handle."""
        if incarnation not in self._incarnations:
            self._incarnations.add(incarnation)

    def belongs_here(self, incarnation: str) -> bool:
        """Whether this worker uses this handle."""
        return incarnation in self._incarnations

    def concerns(self, wake: Wake, payload: str) -> bool:
        """Whether a message can matter to this handle."""
        if payload == NOBODY:
            return False
        if wake is Wake.ready:
            workflow = payload.partition(":")[2].partition("|")[0]
            return not self._workflows or workflow in self._workflows
        if wake not in (Wake.attention, Wake.lease):
            return True
        return not self._incarnations or not payload or payload in self._incarnations


class Exchange(Protocol):
    """The store, as its listeners know it."""

    @property
    def route(self) -> Route:
        """The way to its servers."""

    @property
    def settings(self) -> Settings:
        """Its measures."""

    @property
    def wanted(self) -> Wanted:
        """What is claimed through it."""

    @property
    def lookout(self) -> Lookout:
        """Where claims look."""

    @property
    def dues(self) -> Dues:
        """When runs are due."""

    @property
    def is_sharded(self) -> bool:
        """Whether each node publishes for its own slots."""

    def places(self, kinds: frozenset[Wake]) -> Mapping[bytes, Place]:
        """The channels to be heard for these kinds."""

    def tag(self, shard: int) -> str:
        """What the channels and keys of a shard begin with."""

    def arm(self, shard: int) -> asyncio.Future[Any]:
        """Have the next run that becomes claimable in a shard told."""

    def forget(self, listener: Listener) -> None:
        """It has been closed."""


class Listener:
    """Hears wakes, on the loop that made it."""

    def __init__(self, exchange: Exchange, on_wake: Callable[[Wake], None], kinds: frozenset[Wake]) -> None:
        self._exchange, self._on_wake, self._kinds = exchange, on_wake, kinds
        self._settings = exchange.settings
        self.loop = asyncio.get_running_loop()
        self._closed = False
        self._places: Mapping[bytes, Place] = {}
        self._subscriptions: dict[Node | None, Subscription] = {}
        self._armed: dict[bytes, int] = {}  # channels and shards of claimable runs whose server knows that we wait
        self._timed: dict[bytes, int] = {}  # channels and shards of times that are heard
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}
        self.is_heard = asyncio.Event()  # while all subscriptions stand
        self.regroup()

    def close(self) -> None:
        """End it: no callback comes afterwards."""
        if self._closed:
            return
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        for subscription in self._subscriptions.values():
            subscription.close()
        self._deafen(self._places)
        self._exchange.forget(self)

    def regroup(self) -> None:
        """Hear what is to be heard now, each channel at the node that has it."""
        if self._closed:
            return
        exchange = self._exchange
        self._places = exchange.places(self._kinds)
        groups: dict[Node | None, set[bytes]] = {}
        for channel, (shard, _) in self._places.items():
            node = exchange.route.node_of(exchange.tag(shard)) if exchange.is_sharded else None
            groups.setdefault(node, set()).add(channel)
        for node in self._subscriptions.keys() - groups.keys():
            self._subscriptions.pop(node).close()
        for node, channels in groups.items():
            if node not in self._subscriptions:
                self._subscriptions[node] = Subscription(
                    exchange.route, node, self, sharded=exchange.is_sharded, knock_s=self._settings.knock_s
                )
            subscription = self._subscriptions[node]
            self._deafen(subscription.channels - channels)
            subscription.hear(frozenset(channels))
        self._say_whether_heard()

    def _later(self, after_s: float, act: Callable[..., None], *args: Hashable) -> None:
        """Act once, later, unless that is due already."""
        what = (act, args[:1])

        def due() -> None:
            del self._timers[what]
            act(*args)

        if not self._closed and what not in self._timers:
            self._timers[what] = self.loop.call_later(after_s, due)

    # what the subscriptions tell

    def confirmed(self, of: Subscription, channels: frozenset[bytes]) -> None:
        """Some channels stand: what they are for may have happened before."""
        ready = [channel for channel in channels if self._kind(channel) is Wake.ready]
        self._deafen(ready)  # an answer to what was asked for an earlier subscription says nothing of this one
        for channel in ready:
            self._arm(channel)
        for channel in channels:
            if self._kind(channel) is Wake.timer:
                self._timed[channel] = self._places[channel][0]
                self._exchange.dues.hears(self._places[channel][0])
        self._wake({self._places[channel][1] for channel in channels if channel in self._places} - {Wake.ready})
        self._say_whether_heard()

    def lost(self, of: Subscription, *, stood: bool) -> None:
        """Connect anew; what happens meanwhile is made up for by the wake that follows."""
        if self._subscriptions.get(of.node) is of:
            del self._subscriptions[of.node]
        self._deafen(of.channels)
        self._say_whether_heard()
        if not stood:
            self._wake({self._places[channel][1] for channel in of.channels if channel in self._places})
        self._later(self._settings.again_s if stood else FALLBACK_S, self.regroup)

    def heard(self, messages: list[tuple[bytes, bytes]]) -> None:
        """Something was published."""
        told: set[Wake] = set()
        for channel, payload in messages:
            if channel not in self._places:
                continue  # not wanted any more
            (shard, wake), text = self._places[channel], payload.decode()
            if wake is Wake.ready:
                self._exchange.lookout.rang(shard, text)
            if wake is Wake.timer:
                self._exchange.dues.rang(shard)
            if wake is Wake.lease and not text:
                # somebody came: those who have more than their share hand on, once for all who come together
                self._later(self._settings.gather_s, self._wake, frozenset({wake}))
            elif self._exchange.wanted.concerns(wake, text):
                told.add(wake)
                if wake is Wake.ready:
                    self._wait_for_more(channel, shard)
        self._wake(told)

    def _wait_for_more(self, channel: bytes, shard: int) -> None:
        """What comes next is told only to those who have said again that they wait."""
        rest_s = self._settings.rearm_s * max(1, len(self._armed))
        self._later(rest_s, self._ask_again, channel, self._exchange.wanted.claims.get(shard, 0))

    # claimable runs

    def _kind(self, channel: bytes) -> Wake | None:
        place = self._places.get(channel)
        return None if place is None else place[1]

    def _arm(self, channel: bytes) -> None:
        """Tell the server that somebody waits; once it knows, whoever looks now misses nothing."""
        if channel not in self._places:
            return
        shard = self._places[channel][0]
        try:
            armed = self._exchange.arm(shard)
        except UsageError:
            return  # the store was closed
        armed.add_done_callback(lambda done: self._was_armed(channel, shard, done))

    def _was_armed(self, channel: bytes, shard: int, done: asyncio.Future[Any]) -> None:
        failed = done.cancelled() or done.exception() is not None
        if self._closed or channel not in self._places:
            return
        if failed:
            self._later(self._settings.again_s, self._arm, channel)
            return
        if channel not in self._armed:
            self._armed[channel] = shard
            self._exchange.lookout.hears(shard)
        self._wake({Wake.ready})
        self._say_whether_heard()

    def _ask_again(self, channel: bytes, claims: int) -> None:
        """Wait for more, if no claim has said so meanwhile."""
        shard = self._places[channel][0] if channel in self._places else -1
        if self._exchange.wanted.claims.get(shard, 0) == claims:
            self._arm(channel)

    def _deafen(self, channels: Collection[bytes]) -> None:
        """These are not heard any more."""
        self._exchange.dues.is_deaf([self._timed.pop(channel) for channel in channels if channel in self._timed])
        self._exchange.lookout.is_deaf([self._armed.pop(channel) for channel in channels if channel in self._armed])

    def _say_whether_heard(self) -> None:
        ready = {channel for channel, (_, kind) in self._places.items() if kind is Wake.ready}
        if ready <= self._armed.keys() and all(each.stands for each in self._subscriptions.values()):
            self.is_heard.set()
        else:
            self.is_heard.clear()

    def ring(self) -> None:
        """There is more to claim."""
        self._wake({Wake.ready} & self._kinds)

    def _wake(self, kinds: Iterable[Wake]) -> None:
        for kind in kinds:
            if not self._closed:
                self._on_wake(kind)


class Listeners:
    """All who listen through one handle; any thread may have something for them."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._all: tuple[Listener, ...] = ()

    def add(self, listener: Listener) -> None:
        """It hears from now on."""
        with self._mutex:
            self._all = (*self._all, listener)

    def forget(self, listener: Listener) -> None:
        """It has been closed."""
        with self._mutex:
            self._all = tuple(each for each in self._all if each is not listener)

    def regroup(self) -> None:
        """Other shards are to be heard; each listener on its loop."""
        for listener in self._all:
            listener.loop.call_soon_threadsafe(listener.regroup)

    def ring(self) -> None:
        """There is more to claim than a claim has brought."""
        for listener in self._all:
            listener.loop.call_soon_threadsafe(listener.ring)
