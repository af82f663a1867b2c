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

from pyrula_runtime.core.errors import PyrulaError, StoreUnavailable
from pyrula_runtime.stores.protocol import ClaimRequest, Wake
from pyrula_runtime.stores.valkey import failures
from pyrula_runtime.stores.valkey.address import Address
from pyrula_runtime.stores.valkey.connection import NOT_NOW, NOTHING, Connection, connect, pack, reach
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
        address: Address,
        settings: Settings,
        wanted: Wanted,
        arm: Callable[[], asyncio.Future[Any]],
        *hears: Any,
    ) -> None:
        self._address, self._settings, self._wanted, self._arm = address, settings, wanted, arm
        self._on_wake, self._kinds = hears
        self._channels = {f"{address.tag}{kind.value}".encode(): kind for kind in self._kinds}
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._rearm: asyncio.TimerHandle | None = None
        self._heard_s = 0.0
        self.is_heard = asyncio.Event()  # while the subscription stands
        self._keeping = self._loop.create_task(self._keep(), name="pyrula-store-listen")

    def close(self) -> None:
        """End it: no callback comes afterwards."""
        self._closed = True
        self._keeping.cancel()
        if self._rearm is not None:
            self._rearm.cancel()

    async def _keep(self) -> None:
        while True:
            try:
                connection = await reach(self._subscribe)
            except PyrulaError as error:
                log.debug("no wakes from the store at %s for now: %s", self._address.place, error)
                await asyncio.sleep(FALLBACK_S)
            else:
                await self._hear(connection)
            self._wake(self._kinds)

    def _subscribe(self) -> Connection:
        connection = connect(self._address, self._settings.connect_s, "pyrula-listen")
        try:
            (reply, *_) = connection.ask([("SUBSCRIBE", *self._channels)])
            for _ in range(len(self._channels) - 1):
                connection.ask([])
        except OSError as error:
            connection.socket.close()
            raise StoreUnavailable(f"the store at {self._address.place} does not answer a subscription") from error
        if isinstance(reply, hiredis.ReplyError):
            connection.socket.close()
            raise failures.ours(reply, self._address.place)
        return connection

    async def _hear(self, connection: Connection) -> None:
        """Hear messages until the connection breaks."""
        broken: asyncio.Future[None] = self._loop.create_future()
        connection.socket.setblocking(False)
        self._loop.add_reader(connection.socket, self._readable, connection, broken)
        self._heard_s = self._loop.time()
        try:
            if Wake.ready in self._kinds:
                await self._arm()
            self.is_heard.set()
            self._wake(self._kinds)
            await self._knock(connection, broken)
        except StoreUnavailable:
            await asyncio.sleep(self._settings.again_s)
        finally:
            self.is_heard.clear()
            self._loop.remove_reader(connection.socket)
            connection.socket.close()

    async def _knock(self, connection: Connection, broken: asyncio.Future[None]) -> None:
        """Ask now and then whether the server is there; a dead connection looks like a quiet one."""
        while True:
            await asyncio.wait([broken], timeout=self._settings.knock_s)
            silent_s = self._loop.time() - self._heard_s
            if broken.done() or silent_s > 2 * self._settings.knock_s:
                return
            if silent_s >= self._settings.knock_s:
                with suppress(*NOT_NOW):
                    connection.socket.send(_PING)

    def _readable(self, connection: Connection, broken: asyncio.Future[None]) -> None:
        try:
            some = connection.socket.recv(_READ_BYTES)
        except NOT_NOW:
            return
        except OSError:
            some = b""
        if not some:
            if not broken.done():
                broken.set_result(None)
            return
        self._heard_s = self._loop.time()
        connection.replies.feed(some)
        told: dict[Wake, None] = {}
        while (message := connection.replies.gets()) is not NOTHING:
            if message[0] in (b"message", b"smessage"):
                wake = self._channels[message[1]]
                if self._wanted.concerns(wake, message[2].decode()):
                    told[wake] = None
        self._wake(told)
        if Wake.ready in told and self._rearm is None and not self._closed:
            self._rearm = self._loop.call_later(self._settings.rearm_s, self._ask_again, self._wanted.claims)

    def _ask_again(self, claims: int) -> None:
        """Wait for more, if no claim has said so meanwhile."""
        self._rearm = None
        if self._wanted.claims == claims:
            self._arm().add_done_callback(self._asked)

    def _asked(self, armed: asyncio.Future[Any]) -> None:
        if not armed.cancelled() and armed.exception() is None:  # otherwise the connections are made anew
            self._wake((Wake.ready,))

    def _wake(self, kinds: Any) -> None:
        for kind in kinds:
            if not self._closed:
                self._on_wake(kind)
