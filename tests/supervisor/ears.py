"""The service manager's end of a notify socket: what comes, and by the word of the kernel from whom."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from dataclasses import dataclass

from tests.cli.sites import PATIENCE_S

CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """One datagram, who sent it, and when it was read."""

    pid: int
    fields: dict[str, str]
    at_s: float


class Ear:
    """The manager's end."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind(address.replace("@", "\0"))

    def next(self, within_s: float = PATIENCE_S) -> Heard:
        """The next datagram. Raises TimeoutError."""
        self._socket.settimeout(within_s)
        packet, extra, *_ = self._socket.recvmsg(4096, socket.CMSG_SPACE(CREDENTIALS.size))
        pid, _, _ = CREDENTIALS.unpack(extra[0][2])
        fields = dict(line.split("=", 1) for line in packet.decode().split("\n"))
        return Heard(pid=pid, fields=fields, at_s=time.monotonic())

    def until(self, name: str, value: str) -> list[Heard]:
        """All that comes, to the first that says this."""
        heard = [self.next()]
        while not heard[-1].fields.get(name, "").startswith(value):
            heard.append(self.next())
        return heard

    def silence(self, within_s: float = 0.0) -> list[Heard]:
        """What has come, once nothing has for this long."""
        heard = []
        with contextlib.suppress(TimeoutError, BlockingIOError):
            while True:
                heard.append(self.next(within_s))
        return heard

    def close(self) -> None:
        """Be gone."""
        self._socket.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.address)
