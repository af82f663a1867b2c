"""What the service manager hears: the protocol of sd_notify, spoken by the supervisor alone and never in its way.

Nothing here fails or waits. What the manager's socket does not take now (its queue is full, it is being made anew) is
kept and said again after the next pass, in the same order; of what only repeats itself, the last. A manager that never
listens costs a line in the log and one system call a pass.

**Watchdog.** A ping says that a pass over everything was completed, and nothing else may say so: one that comes from a
thread or a timer proves only that this thread or timer runs, while nobody is supervised any more. Pings come four times
as often as they must, at the first pass after each quarter of the limit, and passes at twice that rate (`longest_ms`).
"""

from __future__ import annotations

import logging
import socket
import time
from collections import deque
from collections.abc import Mapping

from pyrula_supervisor.actions import Notify

log = logging.getLogger("pyrula.supervisor")

# what may wait for a manager that does not listen: more than it is ever told within seconds
_MAX_WAITING = 32
_PINGS_A_LIMIT = 4
# how long there may be no pass as far as a manager without a watchdog is concerned: for ever (ms)
_UNWATCHED_MS = 1 << 62
# what replaces what was said before it
_REPEATED = (b"STATUS=", b"STOPPING=")


class ServiceSocket:
    """The way to the service manager; without an address nothing is said."""

    def __init__(self, address: str = "", watchdog_ms: int = 0) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._ping_every_ms = watchdog_ms // _PINGS_A_LIMIT if address else 0
        self._pinged_ms: int | None = None
        self._waiting: deque[bytes] = deque(maxlen=_MAX_WAITING)
        self._heard = True
        self._socket: socket.socket | None = None
        if address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)

    @classmethod
    def from_env(cls, environ: Mapping[str, str], pid: int) -> ServiceSocket:
        """The socket that the environment names, and the watchdog's limit if it is meant for this process."""
        address = environ.get("NOTIFY_SOCKET", "")
        if not address.startswith(("/", "@")):
            if address:
                log.warning("NOTIFY_SOCKET is %r, no Unix socket: the service manager is told nothing", address)
            return cls()
        limit_us = environ.get("WATCHDOG_USEC", "")
        is_ours = environ.get("WATCHDOG_PID", str(pid)) == str(pid) and limit_us.isdecimal()
        return cls(address, int(limit_us) // 1000 if is_ours else 0)

    @property
    def longest_ms(self) -> int:
        """How long there may be no pass, for the watchdog's sake."""
        return max(1, self._ping_every_ms // 2) if self._ping_every_ms else _UNWATCHED_MS

    def tell(self, action: Notify) -> None:
        """Say what the reducer wants told."""
        if self._socket is None:
            return
        lines = [action.state]
        if action.state == "RELOADING=1":
            # Read now, not taken from the pass: rounded down it could lie before the signal that asked for the reload.
            lines.append(f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
        if action.extend_ms:
            lines.append(f"EXTEND_TIMEOUT_USEC={action.extend_ms * 1000}")
        packet = "\n".join(lines).encode()
        for kind in _REPEATED:
            if packet.startswith(kind):
                self._waiting = deque((each for each in self._waiting if not each.startswith(kind)), _MAX_WAITING)
        self._waiting.append(packet)
        self._flush()

    def passed(self, now_ms: int) -> None:
        """A pass was completed: say what still waits, and that the supervisor supervises."""
        self._flush()
        is_due = self._pinged_ms is None or now_ms - self._pinged_ms >= self._ping_every_ms
        if self._ping_every_ms and is_due and not self._waiting and self._send(b"WATCHDOG=1"):
            self._pinged_ms = now_ms

    def close(self) -> None:
        """Say nothing more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _flush(self) -> None:
        while self._waiting and self._send(self._waiting[0]):
            self._waiting.popleft()

    def _send(self, packet: bytes) -> bool:
        if self._socket is None:
            return False
        try:
            self._socket.sendto(packet, self._address)
        except BlockingIOError:
            return False
        except OSError as error:
            if self._heard:
                self._heard = False
                log.warning("the service manager does not listen on NOTIFY_SOCKET: %s", error.strerror or error)
            return False
        self._heard = True
        return True
