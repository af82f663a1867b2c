"""Packets with descriptors over a socket, never waited for, whatever was set on the file behind it.

To be non-blocking is a property of the open file, and whoever has inherited or copied a descriptor can change it; so it
is said with every call instead. (`socket.recv_fds` of some Pythons drops the flags that it is given.)
"""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from pyrula_runtime.wire import MAX_PACKET

_AT_ONCE = socket.MSG_DONTWAIT | getattr(socket, "MSG_NOSIGNAL", 0)
_MAX_FDS = 4
_FD_SIZE = array.array("i").itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """What one call received; empty at the end of the line. The descriptors are the receiver's to close."""

    data: bytes
    fds: tuple[int, ...]
    is_whole: bool


def send(sock: socket.socket, data: bytes, fds: Sequence[int] = ()) -> None:
    """Send at once. Raises OSError: BlockingIOError if there is no room, others if nobody is there."""
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sock.sendmsg([data], ancillary, _AT_ONCE)


def receive(sock: socket.socket) -> Packet | None:
    """What has come, or None if nothing has. Raises OSError if the line is broken."""
    try:
        data, ancillary, flags, _ = sock.recvmsg(MAX_PACKET, socket.CMSG_SPACE(_MAX_FDS * _FD_SIZE), _AT_ONCE)
    except BlockingIOError:
        return None
    fds = array.array("i")
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(content[: len(content) - len(content) % _FD_SIZE])
    for fd in fds:
        os.set_inheritable(fd, False)
    is_whole = not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
    return Packet(data=data, fds=tuple(fds), is_whole=is_whole)


def drop(packet: Packet) -> None:
    """Nobody wants its descriptors."""
    for fd in packet.fds:
        os.close(fd)
