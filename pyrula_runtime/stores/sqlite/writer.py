"""The one thread that writes: everything that waits goes into one transaction, one fsync, one round of answers.

While this thread holds the write lock the host cannot write, so nothing but the transaction happens under it: answers
and wakes are sent when it is free again.

Nor does it take the lock before its callers' loops have gone round a few times. What a loop does next is often begun by
an answer that has just gone home, and it may keep the GIL for seconds; had this thread the lock by then, it could not
let go. The calls that the loops make meanwhile come into the same transaction, so the wait costs no throughput.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import apsw

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.stores.protocol import Wake
from pyrula_runtime.stores.sqlite.answers import Intake, give_way, send_home
from pyrula_runtime.stores.sqlite.batches import Batches, Write
from pyrula_runtime.stores.sqlite.write_lock import WriteLock

_log = logging.getLogger(__name__)
BATCH = 64  # calls in a transaction: keeps the lock's tenure in milliseconds
WAKES_S = 0.002  # a busy writer sends its wakes at most so often; an idle one at once
_JOIN_S = 0.1


class Writer:
    """Runs write calls in order of arrival, many at a time."""

    def __init__(self, batches: Batches, lock: WriteLock, ring: Callable[[set[Wake]], None]) -> None:
        self._batches, self._lock, self._ring = batches, lock, ring
        self._intake: Intake[Write] = Intake()
        self._in_hand: list[Write] = []
        self._rung = 0.0
        self._abandoned = False
        self._thread = threading.Thread(target=self._run, name="pyrula-store-writer", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def put(self, write: Write) -> None:
        """Queue a call."""
        self._intake.put(write)

    def locks_live(self, lock_ttl_ms: int) -> None:
        """Hear how short a lock's life is in this process: it decides how often the store gives a sign of life."""
        self._batches.beat_every_ms = min(self._batches.beat_every_ms, max(lock_ttl_ms // 3, 1))

    def stop(self, patience_s: float) -> bool:
        """Do what is queued, then end. Waits for that, not for a foreign holder of the lock; whether it has ended."""
        self._intake.end()
        while self._thread.is_alive():
            self._thread.join(_JOIN_S)
            if self._thread.is_alive() and self._lock.waited_s() > patience_s:
                # the thread hangs in the kernel; when it gets the lock after all, it will not write any more
                self._abandoned = True
                self._refuse(self._lock.complaint())
                return False
        return True

    def _refuse(self, reason: str) -> None:
        """Answer whatever is left with an error: no call is forgotten."""
        self._intake.end()
        left, last = list(self._in_hand), False
        while not last:
            more, last = self._intake.take(BATCH, 0)
            left += more
        for write in left:
            if not write.is_done:
                write.failure = write.failure or StoreUnavailable(reason)
        send_home(left)

    def _run(self) -> None:
        try:
            self._serve()
            self._batches.close()
        finally:
            if not self._abandoned:
                self._refuse("the store's writer thread has ended")

    def _serve(self) -> None:
        last = False
        while not (last or self._abandoned):
            self._in_hand, last = self._take()
            self._do(self._in_hand)
            self._wake(idle=len(self._in_hand) < BATCH)
            send_home(self._in_hand)
            self._fold()
        self._in_hand = []

    def _take(self) -> tuple[list[Write], bool]:
        taken, last = self._intake.take(BATCH, self._batches.beat_every_ms / 1000)
        if last or not taken:
            return taken, last
        give_way(taken)
        if len(taken) == BATCH:
            return taken, last
        more, last = self._intake.take(BATCH - len(taken), 0)
        return taken + more, last

    def _do(self, writes: list[Write]) -> None:
        try:
            pending = self._batches.pending(writes)
            if pending or self._batches.is_quiet():
                with self._lock.held():
                    if not self._abandoned:
                        self._batches.perform(pending)
        except (apsw.Error, OSError, StoreUnavailable) as error:
            self._batches.fail(writes, error)

    def _fold(self) -> None:
        if not self._batches.is_long or self._abandoned:
            return
        try:
            with self._lock.held():
                self._batches.fold()
        except (apsw.Error, OSError) as error:
            _log.warning("checkpoint failed: %s", error)
            self._batches.fail([], error)

    def _wake(self, *, idle: bool) -> None:
        wakes, now = self._batches.wakes, time.monotonic()
        if wakes and (idle or now - self._rung > WAKES_S):
            self._batches.wakes, self._rung = set(), now
            self._ring(wakes)
