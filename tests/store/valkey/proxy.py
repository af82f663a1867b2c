"""The road between a store and its server, where tests break it: at a chosen call, at a chosen byte, or as a whole.

Clients connect to the proxy's port; it reads their calls, knows them by the names of their scripts, and matches the
replies. Everything that passes is an event, `append` when the n-th call of that script has gone to the server,
`append answered` when its reply has come back, and a test waits for events or plans a fault for one of them:

    cut     the connection ends after so many bytes of the call have reached the server
    lose    the server has done it; the connection ends after so many bytes of its reply
    twice   the call is executed twice, as after a retry of some middleman; the second reply counts
    hold    the reply, and all behind it, waits until `let_go`
    vanish  from this call on nothing passes in either direction, and nobody is told

The road as a whole may be `blocked` (packets wait, as in a network that is away, and arrive when it is back), its
connections `cut`, or made `half_open`: the server has forgotten them, and the client is not told.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache
from itertools import product
from pathlib import Path

import hiredis

from pyrula_runtime.stores.valkey.address import Address, parse
from pyrula_runtime.stores.valkey.connection import pack
from pyrula_runtime.stores.valkey.scripts import scripts

LIMIT_S = 60.0  # only a failing test waits so long
_SOME = 65_536
_SUBSCRIBES = ("SUBSCRIBE", "SSUBSCRIBE")


class Deed(Enum):
    """What is done to a call."""

    cut = auto()
    lose = auto()
    twice = auto()
    hold = auto()
    vanish = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A deed for the n-th call of a name from now on; `after` counts the bytes that still pass."""

    call: str
    deed: Deed
    nth: int = 1
    after: int = 0


@cache
def _names() -> dict[bytes, str]:
    """The digest and the text of every script, in every form that a server may be given -> its name."""
    named: dict[bytes, str] = {}
    for guarded, publish in product((False, True), ("PUBLISH", "SPUBLISH")):
        for script in scripts(guarded=guarded, publish=publish).values():
            named[script.sha] = named[script.text] = script.name
    return named


def name_of(command: Sequence[bytes]) -> str:
    """What a command is called in events: its script's name, else its own."""
    if len(command) > 1 and command[0] in (b"EVALSHA", b"EVAL"):
        return _names().get(command[1], "another script")
    return command[0].decode()


def end_of_reply(raw: bytes | bytearray, start: int = 0) -> int | None:
    """Where the reply that begins at `start` ends; None if it is not whole."""
    line = raw.find(b"\r\n", start)
    if line < 0:
        return None
    kind, told, end = raw[start], raw[start + 1 : line], line + 2
    if kind == ord("$") and int(told) >= 0:
        end += int(told) + 2
        return end if len(raw) >= end else None
    if kind == ord("*"):
        for _ in range(int(told)):
            inner = end_of_reply(raw, end)
            if inner is None:
                return None
            end = inner
    return end


@dataclass(slots=True)
class _Owed:
    """A reply that the server owes: of which call, and what is to become of it."""

    name: str
    deed: Deed | None = None
    after: int = 0
    swallowed: bool = False


@dataclass(slots=True, eq=False)
class _Link:
    """One client's connection and ours to the server in its place."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    server_reader: asyncio.StreamReader
    server_writer: asyncio.StreamWriter
    name: str = ""
    owed: deque[_Owed] = field(default_factory=deque)
    listens: bool = False
    vanished: bool = False

    def cut(self) -> None:
        """End it at once, on both sides."""
        for each in (self.writer, self.server_writer):
            each.transport.abort()

    def half_open(self) -> None:
        """Let the server forget it; the client hears nothing more, nor that."""
        self.vanished = True
        self.server_writer.transport.abort()


class Proxy:
    """The road to one server; lives on the loop of the test."""

    def __init__(self, server: Path) -> None:
        """`server` is the server's Unix socket."""
        self.events: Counter[str] = Counter()
        self._server = server
        self._faults: list[tuple[Fault, int]] = []
        self._news = asyncio.Condition()
        self._links: list[_Link] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._clear = asyncio.Event()
        self._released = asyncio.Event()
        self._clear.set()
        self.port = 0

    async def open(self) -> None:
        """Begin to listen; after a `refuse` on the same port."""
        self._door = await asyncio.start_server(self._came, "127.0.0.1", self.port)
        self.port = self._door.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """End everything."""
        self.refuse()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def url(self, namespace: str = "default") -> str:
        """Where stores find the server by way of this road."""
        return f"valkey://127.0.0.1:{self.port}?namespace={namespace}"

    def address(self, namespace: str = "default") -> Address:
        return parse(self.url(namespace))

    # events

    async def event(self, what: str, nth: int = 1) -> None:
        """Wait until something has happened so often."""
        async with asyncio.timeout(LIMIT_S), self._news:
            await self._news.wait_for(lambda: self.events[what] >= nth)

    async def next(self, what: str) -> None:
        """Wait until it happens once more."""
        await self.event(what, self.events[what] + 1)

    async def _tell(self, what: str) -> None:
        self.events[what] += 1
        async with self._news:
            self._news.notify_all()

    # faults

    def plan(self, fault: Fault) -> None:
        """Have something go wrong."""
        self._faults.append((fault, self.events[fault.call] + fault.nth))

    @property
    def planned(self) -> int:
        """How many faults have not come yet."""
        return len(self._faults)

    def let_go(self) -> None:
        """Let the replies go that are held now."""
        self._released.set()
        self._released = asyncio.Event()

    def block(self) -> None:
        """Let nothing pass, and keep it: also a new connection hears nothing."""
        self._clear.clear()

    def clear(self) -> None:
        """Let pass what waits, and all that comes."""
        self._clear.set()

    def lead_to(self, server: Path) -> None:
        """Lead to another server from now on, as an address does after a failover."""
        self._server = server
        self.cut()

    def refuse(self) -> None:
        """End all connections, and accept none."""
        self._door.close()
        self.cut()

    def cut(self, name: str = "") -> None:
        """End the connections of clients of this name, or all."""
        for link in self._of(name):
            link.cut()

    def half_open(self, name: str = "") -> None:
        """Let the server forget the connections of clients of this name, or all, without a word to the clients."""
        for link in self._of(name):
            link.half_open()

    def count(self, name: str = "") -> int:
        """How many connections of clients of this name there are."""
        return len(list(self._of(name)))

    def _of(self, name: str) -> Iterator[_Link]:
        return (link for link in list(self._links) if name in ("", link.name))

    # the road

    async def _came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            # cancelled by `close` alone, and asyncio reports a cancelled connection as a fault
            with suppress(OSError, asyncio.CancelledError):
                await self._clear.wait()
                await self._join(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(reader, writer, *await asyncio.open_unix_connection(self._server))
        self._links.append(link)
        try:
            await self._tell("connected")
            await asyncio.gather(self._up(link), self._down(link))
        finally:
            self._links.remove(link)
            link.server_writer.transport.abort()

    async def _up(self, link: _Link) -> None:
        """Carry calls to the server, each as a whole."""
        commands = hiredis.Reader()
        with suppress(OSError):
            while some := await link.reader.read(_SOME):
                commands.feed(some)
                while (command := commands.gets()) is not False:
                    await self._clear.wait()
                    if not link.vanished:
                        await self._pass_on(link, command)
        if not link.vanished:
            link.server_writer.close()

    async def _pass_on(self, link: _Link, command: Sequence[bytes]) -> None:
        name, raw = name_of(command), pack(tuple(command))
        if name == "CLIENT" and command[1] == b"SETNAME":
            link.name = command[2].decode()
        link.listens = link.listens or name in _SUBSCRIBES
        fault = self._fault_for(name)
        deed = None if fault is None else fault.deed
        after = 0 if fault is None else fault.after
        if deed is Deed.vanish:
            link.vanished = True
        elif deed is Deed.cut:
            link.server_writer.write(raw[:after])
            await link.server_writer.drain()
            link.server_writer.close()  # in order: what it was given, it reads
            link.writer.transport.abort()
        else:
            if deed is Deed.twice:
                link.owed.append(_Owed(name, swallowed=True))
                link.server_writer.write(raw)
            link.owed.append(_Owed(name, deed, after))
            link.server_writer.write(raw)
            await link.server_writer.drain()
        await self._tell(name)

    def _fault_for(self, name: str) -> Fault | None:
        coming = self.events[name] + 1
        for planned in self._faults:
            if planned[0].call == name and planned[1] == coming:
                self._faults.remove(planned)
                return planned[0]
        return None

    async def _down(self, link: _Link) -> None:
        """Carry replies to the client, each as a whole."""
        raw = bytearray()
        with suppress(OSError):
            while some := await link.server_reader.read(_SOME):
                raw += some
                while raw and (end := end_of_reply(raw)) is not None:
                    await self._clear.wait()
                    reply = bytes(raw[:end])
                    del raw[:end]
                    await self._bring_back(link, reply)
        if not link.vanished:
            await self._clear.wait()
            link.writer.close()

    async def _bring_back(self, link: _Link, reply: bytes) -> None:
        owed = link.owed.popleft() if link.owed and not link.listens else _Owed("told")
        if owed.deed is Deed.hold:
            await self._tell(f"{owed.name} held")
            await self._released.wait()
        if owed.swallowed or link.vanished:
            pass
        elif owed.deed is Deed.lose:
            link.writer.write(reply[: owed.after])
            await link.writer.drain()
            link.writer.close()
            link.server_writer.transport.abort()
        else:
            link.writer.write(reply)
            await link.writer.drain()
        await self._tell(f"{owed.name} answered")
