"""Hearing from the server that something happened: a subscription of its own for each listener.

Published is only what somebody waits for (`z` in the essay of this package). A handle that claims says with each claim
that came back short which lines it waits for. One that does not claim after a wake asks again by itself, a moment
later, and counts the answer as one more wake, for what came in between was told to nobody.

Subscribe first, then look: a connection counts as a wake of every kind once the server has confirmed it, and while
there is none every second does, so nothing is missed for longer, however many connections die.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import hiredis

from pyrula_runtime.core.errors import PyrulaError, StoreUnavailable, UsageError
from pyrula_runtime.stores.protocol import ClaimRequest, Wake
from pyrula_runtime.stores.valkey import failures
from pyrula_runtime.stores.valkey.connection import NOT_NOW, NOTHING, Connection, Outcome, pack, reach
from pyrula_runtime.stores.valkey.route import Route
from pyrula_runtime.stores.valkey.settings import Settings

log = logging.getLogger(__name__)
FALLBACK_S = 1.0
_READ_BYTES = 65_536
_PING = pack(("PING",))


class Wanted:
    """What this handle claims: the lines and incarnations that messages for it carry; nothing known means all."""

    def __init__(self) -> None:
        self._workflows: set[str] = set()
        self._incarnations: set[str] = set()
        self.claims = 0

    def note(self, request: ClaimRequest) -> None:
        """Remember what a claim asks for."""
        self.claims += 1
        if request.incarnation not in self._incarnations:
            self._incarnations.add(request.incarnation)
        for serves in request.serves:
            self._workflows.add(serves.workflow)

    def concerns(self, wake: Wake, payload: str) -> bool:
        """Whether a message can matter to this handle."""
        if wake is Wake.ready:
            workflow = payload.partition(":")[2].partition("|")[0]
            return not self._workflows or workflow in self._workflows
        return wake is not Wake.attention or not self._incarnations or payload in self._incarnations


class Listener:
    """One subscription, on the loop that made it."""

    def __init__(
        self,
        route: Route,
        settings: Settings,
        wanted: Wanted,
        arm: Callable[[], asyncio.Future[Any]],
        *hears: Any,
    ) -> None:
        self._route, self._settings, self._wanted, self._arm = route, settings, wanted, arm
        self._on_wake, self._kinds, self._sharded = hears
        self._channels = {f"{route.address.tag}{kind.value}".encode(): kind for kind in self._kinds}
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._connection: Connection | None = None
        self._heard_s = 0.0
        self.is_heard = asyncio.Event()  # while the subscription stands
        self._timers: dict[Callable[..., None], asyncio.TimerHandle] = {}
        self._reach()

    def close(self) -> None:
        """End it: no callback comes afterwards."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._hang_up()

    def _later(self, after_s: float, act: Callable[..., None], *args: object) -> None:
        """Act once, later, unless that is due already."""

        def due() -> None:
            del self._timers[act]
            act(*args)

        if not self._closed and act not in self._timers:
            self._timers[act] = self._loop.call_later(after_s, due)

    # connecting

    def _reach(self) -> None:
        reach(self._loop, self._subscribe, self._reached)

    def _subscribe(self) -> Connection:
        connection = self._route.connect("pyrula-listen")
        try:
            (reply, *_) = connection.ask([("SSUBSCRIBE" if self._sharded else "SUBSCRIBE", *self._channels)])
            for _ in range(len(self._channels) - 1):
                connection.ask([])
        except OSError as error:
            connection.socket.close()
            raise StoreUnavailable(f"the store at {self._route.place} does not answer a subscription") from error
        if isinstance(reply, hiredis.ReplyError):
            connection.socket.close()
            raise failures.ours(reply, self._route.place)
        return connection

    def _reached(self, outcome: Outcome) -> None:
        if self._closed:
            if isinstance(outcome, Connection):
                outcome.socket.close()
            return
        if isinstance(outcome, PyrulaError):
            log.debug("no wakes from the store at %s for now: %s", self._route.place, outcome)
            self._wake(self._kinds)
            self._later(FALLBACK_S, self._reach)
            return
        self._connection = outcome
        outcome.socket.setblocking(False)
        self._loop.add_reader(outcome.socket, self._readable, outcome)
        self._heard_s = self._loop.time()
        if Wake.ready in self._kinds:
            self._ask(self._stands)
        else:
            self._stands()

    def _ask(self, then: Callable[[], None]) -> None:
        """Tell the server that somebody waits; once it knows, go on."""
        try:
            armed = self._arm()
        except UsageError:
            return  # the store was closed
        armed.add_done_callback(lambda done: self._lost() if done.cancelled() or done.exception() else then())

    def _stands(self) -> None:
        """Every kind may have happened before the subscription stood."""
        if self._connection is not None:
            self.is_heard.set()
            self._wake(self._kinds)
            self._later(self._settings.knock_s, self._knock)

    def _knock(self) -> None:
        """Ask now and then whether the server is there; a dead connection looks like a quiet one."""
        if self._connection is None:
            return
        silent_s = self._loop.time() - self._heard_s
        if silent_s > 2 * self._settings.knock_s:
            self._lost()
            return
        if silent_s >= self._settings.knock_s:
            with suppress(OSError):  # if it is broken, the reader hears of it
                self._connection.socket.send(_PING)
        self._later(self._settings.knock_s, self._knock)

    def _lost(self) -> None:
        """Connect anew; what happens meanwhile is made up for by the wake that follows."""
        self._hang_up()
        self._later(self._settings.again_s, self._reach)

    def _hang_up(self) -> None:
        self.is_heard.clear()
        connection, self._connection = self._connection, None
        if connection is not None:
            self._loop.remove_reader(connection.socket)
            connection.socket.close()

    # hearing

    def _readable(self, connection: Connection) -> None:
        try:
            some = connection.socket.recv(_READ_BYTES)
        except NOT_NOW:
            return
        except OSError:
            some = b""
        if not some:
            self._lost()
            return
        self._heard_s = self._loop.time()
        connection.replies.feed(some)
        told: dict[Wake, None] = {}
        while (message := connection.replies.gets()) is not NOTHING:
            if message[0] in (b"message", b"smessage"):
                wake = self._channels[message[1]]
                if self._wanted.concerns(wake, message[2].decode()):
                    told[wake] = None
            elif message[0] == b"sunsubscribe":  # the slot has gone to another node
                self._lost()
                return
        self._wake(told)
        if Wake.ready in told:
            self._later(self._settings.rearm_s, self._ask_again, self._wanted.claims)

    def _ask_again(self, claims: int) -> None:
        """Wait for more, if no claim has said so meanwhile."""
        if self._wanted.claims == claims:
            self._ask(lambda: self._wake((Wake.ready,)))

    def _wake(self, kinds: Any) -> None:
        for kind in kinds:
            if not self._closed:
                self._on_wake(kind)
