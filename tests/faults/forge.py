"""A process that has imported everything and forks a new one for each order: a worker to kill costs 20 ms, not 300.

Each order is a connection to a Unix socket. The first line in is the order, the first line out the pid; then come the
lines that the new process itself writes, and when it is dead, how it ended. Whoever closes the connection ends the
process. When standard input closes, all of them are ended, and the forge as well: nothing outlives the tests.

Forked processes share no locks (record locks are not inherited), no random state and no open store: there is none here.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import sys
from dataclasses import dataclass

from tests.faults.actor import play


@dataclass(slots=True, eq=False)
class Forged:
    """A process that was forked and not reaped yet."""

    pid: int
    pidfd: int
    line: socket.socket


class Forge:
    """Forks, reaps and ends processes; has a single thread and no loop of asyncio, so that it may fork."""

    def __init__(self, path: str) -> None:
        self._forged: set[Forged] = set()
        self._selector = selectors.DefaultSelector()
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(path)
        self._listening.listen(64)
        self._selector.register(self._listening, selectors.EVENT_READ, self._order)
        self._selector.register(sys.stdin, selectors.EVENT_READ, None)

    def work(self) -> None:
        """Take orders until nobody wants any more."""
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    for forged in list(self._forged):
                        self._end(forged)
                    return
                key.data()

    def _order(self) -> None:
        line, _ = self._listening.accept()
        order = json.loads(line.makefile().readline())
        pid = os.fork()
        if pid == 0:
            self._become(order, line)
        forged = Forged(pid, os.pidfd_open(pid), line)
        self._forged.add(forged)
        self._selector.register(forged.pidfd, selectors.EVENT_READ, lambda: self._reap(forged))
        self._selector.register(line, selectors.EVENT_READ, lambda: self._end(forged))

    def _become(self, order: dict[str, object], line: socket.socket) -> None:
        self._selector.close()
        self._listening.close()
        for other in self._forged:
            os.close(other.pidfd)
            other.line.close()
        os.close(0)
        line.sendall(json.dumps({"pid": os.getpid()}).encode() + b"\n")
        play(order, line)

    def _end(self, forged: Forged) -> None:
        if forged in self._forged:
            os.kill(forged.pid, signal.SIGKILL)
            self._reap(forged)

    def _reap(self, forged: Forged) -> None:
        if forged not in self._forged:
            return
        _, status = os.waitpid(forged.pid, 0)
        self._forged.discard(forged)
        self._selector.unregister(forged.pidfd)
        self._selector.unregister(forged.line)
        os.close(forged.pidfd)
        told = {"exit": os.waitstatus_to_exitcode(status)}
        with contextlib.suppress(BrokenPipeError), forged.line:
            forged.line.sendall(json.dumps(told).encode() + b"\n")


if __name__ == "__main__":
    gc.freeze()
    forge = Forge(sys.argv[1])
    print("open", flush=True)
    forge.work()
