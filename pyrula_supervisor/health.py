"""The parent's HTTP port: who may connect, how long they may take, and who has to go when there are too many.

An answer only reads what the parent knows already, so it takes as long whether children are well or stuck. What could
stall it are clients: hence every connection has a deadline from its first moment on, a client that does not take its
answer is not read from, and when a connection too many comes, the one that has been silent longest is cut. A prober
that asks at once always finds a place, whoever holds the others.

A connection that ends by our wish is closed in the order that lets the client read the last answer: we end our
direction, ignore what still comes, and wait a moment for the client to end its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import Callable
from typing import cast

from pyrula_runtime.listening import BACKLOG, listening_on, url_of
from pyrula_runtime.probe import Page, ProbeConnection

MAX_CONNECTIONS = 512
# how long a client may take to say what it wants, and how long it may then keep quiet before the next question
_REQUEST_S = 5.0
_IDLE_S = 75.0
# how long a client may take to end a connection that we have ended
_GOODBYE_S = 1.0
# connections taken per pass of the loop, so that a crowd at the door delays nobody inside for long
_AT_ONCE = 32


class HealthPort:
    """The port, and the connections that are open. All on the loop's thread."""

    def __init__(self, limit: int = MAX_CONNECTIONS) -> None:
        # descriptors are for children first; the limit of the process leaves most of them to those
        self.limit = max(1, min(limit, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4))
        self._open: dict[_Client, None] = {}  # who has been silent longest stands first
        self._listening: socket.socket | None = None
        self._server: asyncio.Server | None = None

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._open)

    def bind(self, host: str, port: int) -> str:
        """Take the port: its URL. ConfigurationError if it cannot be had."""
        self._listening = listening_on(host, port)
        return url_of(self._listening)

    async def serve(self, pages: Callable[[str], Page | None]) -> None:
        """Begin to answer with these pages, if a port was taken."""
        if self._listening is None:
            return
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Client(pages, self), sock=self._listening, backlog=_AT_ONCE)
        self._listening.listen(BACKLOG)  # asyncio takes one number for what it takes at once and what the kernel keeps

    def close(self) -> None:
        """End everything at once."""
        if self._server is not None:
            self._server.close()
        elif self._listening is not None:
            self._listening.close()
        for client in list(self._open):
            client.cut()

    # what a client tells of itself

    def came(self, client: _Client) -> None:
        """A client has connected: whoever has been silent longest goes if there are too many."""
        self._open[client] = None
        if len(self._open) > self.limit:
            next(iter(self._open)).cut()

    def spoke(self, client: _Client) -> None:
        """A client had an answer, so it is the last to go."""
        if client in self._open:
            del self._open[client]
            self._open[client] = None

    def left(self, client: _Client) -> None:
        """A client is gone."""
        self._open.pop(client, None)


class _Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, pages: Callable[[str], Page | None], port: HealthPort) -> None:
        self._connection = ProbeConnection(pages)
        self._port = port
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # one answer may wait for its client, no second one
        self._transport.set_write_buffer_limits(high=0)
        self._allow(_REQUEST_S)
        self._port.came(self)

    def data_received(self, data: bytes) -> None:
        answer = self._connection.receive(data)
        if not answer:
            return
        self._port.spoke(self)
        self._transport.write(answer)
        if self._connection.is_over:
            with contextlib.suppress(OSError):  # the client was faster
                self._transport.write_eof()
        self._allow(_GOODBYE_S if self._connection.is_over else _IDLE_S)

    def pause_writing(self) -> None:
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._drop_deadline()
        self._port.left(self)

    def cut(self) -> None:
        """End it, whatever is under way."""
        self._port.left(self)
        self._transport.abort()

    def _allow(self, seconds: float) -> None:
        self._drop_deadline()
        self._deadline = asyncio.get_running_loop().call_later(seconds, self.cut)

    def _drop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
