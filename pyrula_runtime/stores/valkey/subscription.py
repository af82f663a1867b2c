"""One connection that hears what a server publishes, for a set of channels that may change.

It asks whether the server is there once it has heard nothing for a period, and is taken for dead if it hears nothing
for half of one more: a dead connection looks like a quiet one. Whoever owns it decides what follows; it does not
connect again by itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Protocol

import hiredis

from pyrula_runtime.core.errors import PyrulaError
from pyrula_runtime.stores.valkey import failures
from pyrula_runtime.stores.valkey.connection import NOT_NOW, NOTHING, Connection, Outcome, pack, reach
from pyrula_runtime.stores.valkey.route import Node, Route

log = logging.getLogger(__name__)
_READ_BYTES = 65_536
_PING = pack(("PING",))
# how long a server has to answer, in periods
_PATIENCE = 0.5
_MESSAGES = (b"message", b"smessage")
_CONFIRMED = (b"subscribe", b"ssubscribe")


class Owner(Protocol):
    """Who listens."""

    def confirmed(self, of: Subscription, channels: frozenset[bytes]) -> None:
        """All channels asked for stand; these are new. What was published before was not heard."""

    def heard(self, messages: list[tuple[bytes, bytes]]) -> None:
        """Channel and payload of each message."""

    def lost(self, of: Subscription, *, stood: bool) -> None:
        """There is no connection any more; if it never stood, nothing is heard for as long as that goes on."""


class Subscription:
    """A subscription at one node, on the loop that made it."""

    def __init__(self, route: Route, node: Node | None, owner: Owner, *, sharded: bool, knock_s: float) -> None:
        self.node = node
        self.channels: frozenset[bytes] = frozenset()
        self.stands = False
        self._route, self._owner, self._knock_s = route, owner, knock_s
        self._verb = "SUBSCRIBE" if not sharded else "SSUBSCRIBE"
        self._one_by_one = sharded  # a command's channels must be in one slot
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._closed = False
        self._stood = False  # at any time
        self._asked: set[bytes] = set()  # and not confirmed
        self._heard_s = self._knocked_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        reach(self._loop, lambda: route.connect("pyrula-listen", node), self._reached)

    def close(self) -> None:
        """End it: nobody is told anything afterwards."""
        self._closed = True
        self._hang_up()

    def hear(self, channels: frozenset[bytes]) -> None:
        """Hear these channels from now on, and no others."""
        more, less = channels - self.channels, self.channels - channels
        self.channels = channels
        if self._connection is not None and more | less:
            self._ask(more, self._verb)
            self._ask(less, f"{self._verb[: -len('SUBSCRIBE')]}UNSUBSCRIBE")

    def _reached(self, outcome: Outcome) -> None:
        if self._closed:
            if isinstance(outcome, Connection):
                outcome.socket.close()
        elif isinstance(outcome, PyrulaError):
            log.debug("no wakes from the store at %s for now: %s", self._route.place, outcome)
            self._owner.lost(self, stood=False)
        else:
            self._connection = outcome
            outcome.socket.setblocking(False)
            self._loop.add_reader(outcome.socket, self._readable, outcome)
            self._heard_s = self._loop.time()
            self._timer = self._loop.call_later(self._knock_s, self._knock)
            self._ask(self.channels, self._verb)

    def _ask(self, channels: Iterable[bytes], verb: str) -> None:
        asked = sorted(channels)
        if not asked:
            return
        if verb == self._verb:
            self._asked.update(asked)
            self.stands = False
        groups = [[channel] for channel in asked] if self._one_by_one else [asked]
        self._send(b"".join(pack((verb, *group)) for group in groups))

    def _send(self, some: bytes) -> None:
        # a few kilobytes at most, which a socket always takes; one that does not is of no use
        if self._connection is not None:
            try:
                sent = self._connection.socket.send(some)
            except OSError:
                sent = 0
            if sent < len(some):
                self._fail()

    def _knock(self) -> None:
        if self._connection is None:
            return
        now_s = self._loop.time()
        if self._knocked_s > self._heard_s:
            self._fail()
            return
        left_s = self._heard_s + self._knock_s - now_s
        if left_s <= 0:
            self._knocked_s, left_s = now_s, _PATIENCE * self._knock_s
            with suppress(OSError):  # if it is broken, the reader hears of it
                self._connection.socket.send(_PING)
        self._timer = self._loop.call_later(left_s, self._knock)

    def _fail(self) -> None:
        if self._connection is not None:
            self._hang_up()
            self._owner.lost(self, stood=self._stood)

    def _hang_up(self) -> None:
        self.stands = False
        self._asked.clear()
        connection, self._connection = self._connection, None
        if self._timer is not None:
            self._timer.cancel()
        if connection is not None:
            self._loop.remove_reader(connection.socket)
            connection.socket.close()

    def _readable(self, connection: Connection) -> None:
        try:
            some = connection.socket.recv(_READ_BYTES)
        except NOT_NOW:
            return
        except OSError:
            some = b""
        if not some:
            self._fail()
            return
        self._heard_s = self._loop.time()
        connection.replies.feed(some)
        messages: list[tuple[bytes, bytes]] = []
        confirmed: set[bytes] = set()
        while (reply := connection.replies.gets()) is not NOTHING:
            if isinstance(reply, hiredis.ReplyError):
                self._refused(reply)
                return
            if reply[0] in _MESSAGES:
                messages.append((reply[1], reply[2]))
            elif reply[0] in _CONFIRMED:
                confirmed.add(reply[1])
            elif reply[0] == b"sunsubscribe" and reply[1] in self.channels:  # the slot has gone to another node
                self._fail()
                return
        self._tell(messages, frozenset(confirmed))

    def _tell(self, messages: list[tuple[bytes, bytes]], confirmed: frozenset[bytes]) -> None:
        if messages:
            self._owner.heard(messages)
        if confirmed and not self._closed:
            self._asked -= confirmed
            self.stands = not self._asked
            self._stood = self._stood or self.stands
            self._owner.confirmed(self, confirmed & self.channels)

    def _refused(self, error: Any) -> None:
        if failures.code_of(error) == failures.MOVED:
            self._route.moved(str(error))
            self._stood = True  # elsewhere: there it is asked at once
        else:
            log.warning("the store at %s refuses a subscription: %s", self._route.place, error)
        self._fail()
