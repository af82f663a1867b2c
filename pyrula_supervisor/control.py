"""The control socket: whoever may signal this process may also ask it, and nobody else.

The socket belongs to its user alone (0600), and the peer's uid is checked once more, because permissions of a path can
be changed behind our back. Root is let in: it could do all of it without us.

A peer has a deadline for its request and for taking its answer. Who waits for something that takes long hears every now
and then how far it is, so silence means that the supervisor itself is stopped. A peer that goes away while it waits
changes nothing: what it asked for is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import sys
from pathlib import Path
from typing import Any, Protocol, cast

from pyrula_runtime.core.errors import ConfigurationError, UsageError
from pyrula_supervisor.actions import Answer
from pyrula_supervisor.events import DumpAsked, Event, ReloadAsked, RestartAsked, ScaleAsked, StopAsked
from pyrula_supervisor.naming import address_of
from pyrula_supervisor.requests import MAX_REQUEST, Lines, Reply, Request, encoded, progress, request_of

MAX_PEERS = 64
_REQUEST_S = 5.0
_TAKING_S = 10.0
# who waits hears something at least so often (ms)
PROGRESS_EVERY_MS = 2_000
_BACKLOG = 16


class Controlled(Protocol):
    """What the commands act on."""

    def post(self, event: Event) -> None:
        """Have the reducer take an event."""

    def document(self) -> dict[str, Any]:
        """The status document, now."""

    def progress(self) -> str:
        """How far whatever is under way is, in a line."""

    def now_ms(self) -> int:
        """The monotonic clock of this pass."""

    @property
    def version(self) -> str:
        """The version of this program."""

    @property
    def stopping(self) -> bool:
        """Whether the end has begun."""


class ControlSocket:
    """The socket and its peers. All on the loop's thread."""

    def __init__(self, controlled: Controlled) -> None:
        self._controlled = controlled
        self._peers: dict[_Peer, None] = {}  # oldest first
        self._waiting: dict[int, _Peer] = {}  # by asker
        self._last_asker = 0
        self._last_progress = ("", 0)
        self._server: asyncio.Server | None = None
        self._path: Path | None = None

    async def open(self, path: Path) -> None:
        """Listen at this path, in the place of whatever a crash has left there. The name must be taken before."""
        listening = _listening(path)
        loop = asyncio.get_running_loop()
        self._path = path
        self._server = await loop.create_unix_server(lambda: _Peer(self), sock=listening, backlog=_BACKLOG)

    def answer(self, answer: Answer) -> None:
        """Answer whoever asked, if it still waits."""
        peer = self._waiting.pop(answer.asker, None)
        if peer is not None:
            peer.end(Reply(ok=answer.ok, text=answer.text))

    def tell_progress(self) -> None:
        """Tell those who wait how far it is: when that changes, and every now and then."""
        if not self._waiting:
            return
        text, now_ms = self._controlled.progress(), self._controlled.now_ms()
        if text != self._last_progress[0] or now_ms - self._last_progress[1] >= PROGRESS_EVERY_MS:
            self._last_progress = (text, now_ms)
            for peer in self._waiting.values():
                peer.tell(text)

    def close(self, text: str = "the supervisor has ended") -> None:
        """The end: those who wait for it hear so, and no one else can come."""
        if self._path is not None:
            with contextlib.suppress(OSError):  # that it is there says nothing, and the next one replaces it
                self._path.unlink()
        if self._server is not None:
            self._server.close()
        for peer in self._waiting.values():
            peer.end(Reply(ok=peer.is_waiting_for_end, text=text))
        self._waiting.clear()

    # what a peer tells of itself

    def came(self, peer: _Peer) -> bool:
        """A peer has connected: whether there is a place for it."""
        if len(self._peers) >= MAX_PEERS:
            for oldest in self._peers:
                if not oldest.is_waiting:
                    oldest.cut()
                    break
            else:
                return False
        self._peers[peer] = None
        return True

    def left(self, peer: _Peer) -> None:
        """A peer is gone."""
        self._peers.pop(peer, None)
        for asker in [asker for asker, each in self._waiting.items() if each is peer]:
            del self._waiting[asker]

    def asked(self, peer: _Peer, request: Request) -> Reply | None:
        """A peer asks for something: the answer, or None if it comes later."""
        match request.command:
            case "status":
                return Reply(ok=True, document=self._controlled.document())
            case "version":
                return Reply(ok=True, text=self._controlled.version)
            case "stop":
                self._controlled.post(StopAsked(now_ms=self._controlled.now_ms(), is_signal=False))
                if not request.wait:
                    return Reply(ok=True, text="the supervisor drains and then ends")
                self._wait(peer, for_end=True)
                return None
            case "reload" if not request.wait:
                if self._controlled.stopping:
                    return Reply(ok=False, text="the supervisor is stopping, so nothing is reloaded")
                self._controlled.post(ReloadAsked(now_ms=self._controlled.now_ms()))
                return Reply(ok=True, text="the reload has begun; status and log tell what becomes of it")
        self._wait(peer)
        self._controlled.post(_event(request, self._last_asker, self._controlled.now_ms()))
        return None

    def _wait(self, peer: _Peer, *, for_end: bool = False) -> None:
        self._last_asker += 1
        self._waiting[self._last_asker] = peer
        self._last_progress = ("", 0)
        peer.waits(for_end=for_end)


def _event(request: Request, asker: int, now_ms: int) -> Event:
    match request.command:
        case "scale":
            return ScaleAsked(now_ms=now_ms, procs=request.number, asker=asker)
        case "restart":
            return RestartAsked(now_ms=now_ms, slot=request.number, asker=asker)
        case "dump":
            return DumpAsked(now_ms=now_ms, slot=request.number, asker=asker)
    return ReloadAsked(now_ms=now_ms, asker=asker)


class _Peer(asyncio.Protocol):
    """One connection."""

    def __init__(self, control: ControlSocket) -> None:
        self._control = control
        self._lines = Lines(MAX_REQUEST)
        self._deadline: asyncio.TimerHandle | None = None
        self._has_asked = False
        self.is_waiting = False
        self.is_waiting_for_end = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._allow(_REQUEST_S)
        uid = peer_uid(transport.get_extra_info("socket"))
        if uid not in (os.geteuid(), 0):
            self._refuse(f"uid {uid} may not control a supervisor of uid {os.geteuid()}: ask as that user, or as root")
        elif not self._control.came(self):
            self._refuse(f"{MAX_PEERS} others wait for this supervisor already: try again later")

    def data_received(self, data: bytes) -> None:
        if self._has_asked:
            return
        try:
            lines = self._lines.receive(data)
            if not lines:
                return
            self._has_asked = True
            reply = self._control.asked(self, request_of(lines[0]))
        except UsageError as error:
            reply = Reply(ok=False, text=str(error))
        if reply is not None:
            self.end(reply)

    def eof_received(self) -> bool:
        """Keep our direction open for one that has ended its own after asking."""
        return self._has_asked

    def connection_lost(self, exc: Exception | None) -> None:
        self._drop_deadline()
        self._control.left(self)

    def waits(self, *, for_end: bool) -> None:
        """Its answer comes later."""
        self._drop_deadline()
        self.is_waiting, self.is_waiting_for_end = True, for_end

    def tell(self, text: str) -> None:
        """A line of progress, unless it has not even taken the last ones."""
        if not self._transport.get_write_buffer_size():
            self._transport.write(progress(text))

    def end(self, reply: Reply) -> None:
        """The last line."""
        self._has_asked, self.is_waiting = True, False
        self._allow(_TAKING_S)
        self._transport.write(encoded(reply))
        self._transport.close()

    def cut(self) -> None:
        """End it, whatever is under way."""
        self._control.left(self)
        self._transport.abort()

    def _refuse(self, text: str) -> None:
        self.end(Reply(ok=False, text=text))

    def _allow(self, seconds: float) -> None:
        self._drop_deadline()
        self._deadline = asyncio.get_running_loop().call_later(seconds, self.cut)

    def _drop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()


def peer_uid(sock: socket.socket) -> int:
    """The uid of whoever has connected; -1 where the system does not tell."""
    if hasattr(socket, "SO_PEERCRED"):
        found: int = struct.unpack("iii", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
        return found
    if sys.platform == "darwin":  # LOCAL_PEERCRED of level 0: struct xucred begins with a version and the uid
        return struct.unpack("=II", sock.getsockopt(0, 1, 76)[:8])[1]
    return -1


def _listening(path: Path) -> socket.socket:
    """A socket at this path: made aside and closed to others before anybody can connect, then put in its place."""
    made = path.with_name(f"{path.name}.new")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.unlink(missing_ok=True)
        with address_of(made) as address:
            listening.bind(address)
        made.chmod(0o600)
        listening.listen(_BACKLOG)
        made.rename(path)
    except OSError as error:
        listening.close()
        raise ConfigurationError([f"the control socket {path} cannot be made: {error.strerror}"]) from error
    return listening
