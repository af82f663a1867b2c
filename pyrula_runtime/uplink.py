"""A process's line to its supervisor: one packet socket, which nobody waits for once the process has read its start.

What the supervisor does not read is lost: a worker must never stand still because its parent does. Any thread may
speak, for a packet goes out whole. The end of the line is the end of the parent.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from pyrula_runtime import packets
from pyrula_runtime.wire import MAX_PACKET, Message, Start, WireError, decode, encode

# how long a new process waits for its first packet, which was sent before the process was made (seconds)
_START_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A message of the supervisor, and the descriptors that came with it; they are the receiver's to close."""

    message: Message
    fds: tuple[int, ...] = ()


class Uplink:
    """The child's end of the pair."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.lost = 0  # messages that found no room
        self.unheard = 0  # packets that were no message

    @classmethod
    def from_fd(cls, fd: int) -> Uplink:
        """The line on an inherited descriptor; it is not passed on to programs that this process starts."""
        os.set_inheritable(fd, False)
        return cls(socket.socket(fileno=fd))

    def fileno(self) -> int:
        """The descriptor, for a loop to watch."""
        return self._sock.fileno()

    def close(self) -> None:
        """Hang up."""
        self._sock.close()

    def read_start(self, patience_s: float = _START_S) -> Start:
        """The first packet, waited for. Raises WireError for anything else, TimeoutError, or EOFError."""
        self._sock.settimeout(patience_s)
        packet = self._sock.recv(MAX_PACKET)
        self._sock.setblocking(False)
        if not packet:
            raise EOFError("the supervisor is gone")
        start = decode(packet)
        if not isinstance(start, Start):
            raise WireError(f"the first message of a supervisor must be Start, but was {type(start).__name__}")
        return start

    def say(self, message: Message) -> bool:
        """Send a message at once; False if it did not fit, there was no room, or nobody is there. Thread-safe."""
        try:
            packets.send(self._sock, encode(message))
        except (OSError, WireError):
            self.lost += 1
            return False
        return True

    def hear(self) -> Heard | None:
        """The next message, if one has come. Raises EOFError at the end of the line."""
        while True:
            try:
                packet = packets.receive(self._sock)
            except OSError as error:
                raise EOFError("the supervisor is gone") from error
            if packet is None:
                return None
            if not packet.data:
                raise EOFError("the supervisor is gone")
            try:
                if not packet.is_whole:
                    raise WireError("a packet was cut off")
                return Heard(message=decode(packet.data), fds=packet.fds)
            except WireError:
                self.unheard += 1
                packets.drop(packet)
