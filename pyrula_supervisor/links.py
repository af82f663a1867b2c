"""The lines to the processes: one packet socket each, bounded, and never waited for in either direction.

Who speaks is known by the socket, never by the text. What a process does not read fills the kernel's buffer, which is
the bound; what finds no room is lost and counted, and the reducer's deadlines see to a process that does not listen.
What a process sends is read a few packets at a time, so that a flood delays nobody; a packet that is half, too large
or no message is counted and forgotten.
"""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Iterator, Sequence

from pyrula_runtime import packets
from pyrula_runtime.packets import Packet
from pyrula_runtime.wire import Message, WireError, decode, encode

# packets read from one process before the others have their turn
_AT_ONCE = 32


class Link:
    """The supervisor's end of one pair; `far_end` is the process's, ours only until it has been handed over."""

    def __init__(self) -> None:
        self._sock, self.far_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._sock.setblocking(False)
        self.lost = 0  # messages that found no room, or nobody
        self.unheard = 0  # packets that were no message
        self.is_over = False  # the process has hung up

    def fileno(self) -> int:
        """The descriptor, for the loop to watch."""
        return self._sock.fileno()

    def hand_over(self) -> None:
        """The process has its end now, so ours of it goes: otherwise we would never hear that it hangs up."""
        self.far_end.close()

    def close(self) -> None:
        """Hang up."""
        self._sock.close()
        self.far_end.close()

    def send(self, message: Message, fds: Sequence[int] = ()) -> bool:
        """Send a message at once; False if it does not fit, there is no room, or nobody is there."""
        try:
            packets.send(self._sock, encode(message), fds)
        except (OSError, WireError):
            self.lost += 1
            return False
        return True

    def receive(self, limit: int = _AT_ONCE) -> Iterator[Message]:
        """What has come, up to a limit; whatever is not taken comes the next time."""
        for _ in range(limit):
            try:
                packet = packets.receive(self._sock)
            except OSError:
                self.is_over = True
                return
            if packet is None:
                return
            packets.drop(packet)  # nobody sends us any descriptors, and they would be ours to close
            if not packet.data and self._has_hung_up():
                self.is_over = True
                return
            with contextlib.suppress(WireError):
                yield self._message(packet)

    def _message(self, packet: Packet) -> Message:
        try:
            if not packet.is_whole:
                raise WireError("a packet was cut off")
            return decode(packet.data)
        except WireError:
            self.unheard += 1
            raise

    def _has_hung_up(self) -> bool:
        """An empty packet reads like the end of the line; the kernel tells them apart."""
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return any(seen & (select.POLLHUP | select.POLLERR) for _, seen in poll.poll(0))
