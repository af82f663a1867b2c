"""The one thread that writes: everything that waits goes into one transaction, one fsync, one round of answers.

The batch is optimistic. Each call only reads and writes through the transaction, so if one of them raises, the whole is
rolled back and every call is run again in a transaction of its own: the broken one fails alone. Savepoints would do the
same at three times the price of a commit, paid always instead of never.

While this thread holds the write lock the host cannot write, so nothing but the transaction happens under it: answers
and wakes are sent when it is free again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import apsw

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.stores.clock import Clock
from pyrula_runtime.stores.protocol import Wake
from pyrula_runtime.stores.sqlite import connection, failures, pulse
from pyrula_runtime.stores.sqlite.answers import Call, Intake, send_home
from pyrula_runtime.stores.sqlite.checkpoints import Checkpoints
from pyrula_runtime.stores.sqlite.connection import StoreFile
from pyrula_runtime.stores.sqlite.settings import Settings
from pyrula_runtime.stores.sqlite.transaction import Tx
from pyrula_runtime.stores.sqlite.write_lock import WriteLock

_log = logging.getLogger(__name__)
_JOIN_S = 0.1
BATCH = 64  # calls in a transaction: keeps the lock's tenure in milliseconds
WAKES_S = 0.002  # a busy writer sends its wakes at most so often; an idle one at once


@dataclass(slots=True, eq=False)
class Write(Call[Tx, Any]):
    """A call for the writer.

    `needed` looks, without the lock, whether the work would change anything; `otherwise` is the answer if not.
    `is_alive`: whether this call should count as the store's sign of life. `is_done`: it is committed.
    """

    needed: Callable[[apsw.Connection], bool] | None = None
    otherwise: Any = None
    is_alive: bool = True
    is_done: bool = False


# What one call can do wrong without the store being at fault.
_OWN_FAULTS = (apsw.ConstraintError, apsw.SQLError, apsw.MismatchError, apsw.BindingsError, apsw.TooBigError)


class Writer:
    """Runs write calls in order of arrival, many at a time."""

    def __init__(
        self,
        file: StoreFile,
        clock: Clock,
        lock: WriteLock,
        ring: Callable[[set[Wake]], None],
        settings: Settings,
    ) -> None:
        self.beat_every_ms = pulse.IDLE_MS
        self._file, self._clock, self._lock, self._ring, self._settings = file, clock, lock, ring, settings
        self._intake: Intake[Write] = Intake()
        self._db: apsw.Connection | None = None
        self._wakes: set[Wake] = set()
        self._rung = 0.0
        self._beaten_ms: int | None = None
        self._checkpoints: Checkpoints | None = None
        self._damage: apsw.Error | None = None
        self._in_hand: list[Write] = []
        self._abandoned = False
        self._thread = threading.Thread(target=self._run, name="pyrula-store-writer", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def put(self, write: Write) -> None:
        """Queue a call."""
        self._intake.put(write)

    def stop(self) -> bool:
        """Do what is queued, then end; waits for it, but not for a foreign holder of the lock. Whether it has ended."""
        self._intake.end()
        while self._thread.is_alive():
            self._thread.join(_JOIN_S)
            if self._thread.is_alive() and self._lock.waited_s() > self._settings.ping_s:
                self._abandon()
                return False
        return True

    def _abandon(self) -> None:
        """Leave the thread where it hangs, waiting for the lock; when it gets it, it will not write any more."""
        self._abandoned = True
        complaint = self._lock.complaint()
        last = False
        left = self._in_hand
        while not last:
            more, last = self._intake.take(BATCH, 0)
            left = left + more
        for write in left:
            write.failure = StoreUnavailable(complaint)
        send_home(left)

    def _run(self) -> None:
        last = False
        while not (last or self._abandoned):
            self._in_hand, last = self._intake.take(BATCH, self.beat_every_ms / 1000)
            self._do(self._in_hand)
            send_home(self._in_hand)
            self._wake(idle=len(self._in_hand) < BATCH)
            self._fold()
        if self._db is not None:
            self._db.close()

    def _do(self, writes: list[Write]) -> None:
        try:
            if self._damage is not None:
                raise self._damage
            self._db = db = self._db or self._connect()
            pending = self._pending(db, writes)
            if pending or self._is_quiet(db):
                self._file.check()
                with self._lock.held():
                    self._transact(db, pending)
        except (apsw.Error, StoreUnavailable) as error:
            self._fail(writes, error)

    def _connect(self) -> apsw.Connection:
        db = connection.bare(self._file.path)
        connection.tune(db)
        self._checkpoints = Checkpoints(db, self._settings.checkpoint_pages, self._settings.truncate_bytes)
        return db

    def _fold(self) -> None:
        if self._checkpoints is None or not self._checkpoints.is_due:
            return
        try:
            with self._lock.held():
                self._checkpoints.fold(connection.BUSY_MS)
        except apsw.Error as error:
            _log.warning("%s", failures.ours(error, self._file.path))
            self._fail([], error)

    def _pending(self, db: apsw.Connection, writes: list[Write]) -> list[Write]:
        """The calls that need the lock: all of them, unless every single one can look first."""
        if any(write.needed is None for write in writes):
            return writes
        pending = []
        for write in writes:
            if write.needed is None or write.needed(db):
                pending.append(write)
            else:
                write.outcome, write.is_done = write.otherwise, True
        return pending

    def _is_quiet(self, db: apsw.Connection) -> bool:
        """Whether it is this process's turn to give a sign of life, since nobody else did."""
        now_ms = self._clock.mono_ms()
        if self._beaten_ms is not None and now_ms - self._beaten_ms < self.beat_every_ms:
            return False
        self._beaten_ms = now_ms - pulse.quiet_ms(db, now_ms)
        return now_ms - self._beaten_ms >= self.beat_every_ms

    def _transact(self, db: apsw.Connection, writes: list[Write]) -> None:
        """All together; if one of them spoils it, each alone."""
        try:
            self._attempt(db, writes)
        except Exception as error:
            # what a call raised is its caller's to hear; the thread goes on
            if isinstance(error, apsw.Error) and not isinstance(error, _OWN_FAULTS):
                raise
            if len(writes) == 1:
                writes[0].failure = failures.ours(error, self._file.path) if isinstance(error, apsw.Error) else error
                return
            for write in writes:
                self._transact(db, [write])

    def _attempt(self, db: apsw.Connection, writes: list[Write]) -> None:
        """All of them, or none."""
        if self._abandoned:
            return
        db.execute("BEGIN IMMEDIATE")
        try:
            tx = Tx(db, self._clock.wall_ms(), self._clock.mono_ms())
            for write in writes:
                write.outcome = write.work(tx)
            self._beat(tx, writes)
            db.execute("COMMIT")
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK")
        self._wakes |= tx.wakes
        for write in writes:
            write.is_done = True

    def _beat(self, tx: Tx, writes: list[Write]) -> None:
        if self._beaten_ms is not None and tx.mono_ms - self._beaten_ms < pulse.EVERY_MS:
            return
        if not writes or any(write.is_alive for write in writes):
            pulse.beat(tx)
            self._beaten_ms = tx.mono_ms

    def _fail(self, writes: list[Write], error: apsw.Error | StoreUnavailable) -> None:
        """The store itself failed and nobody knows what was written, so the connection is given up with the batch."""
        for write in writes:
            if not write.is_done:
                write.failure = write.failure or failures.ours(error, self._file.path)
        if isinstance(error, apsw.Error) and failures.is_damage(error):
            self._damage = error
        if self._db is not None:
            self._db.close(True)
        self._db, self._beaten_ms, self._checkpoints = None, None, None

    def _wake(self, *, idle: bool) -> None:
        now = time.monotonic()
        if self._wakes and (idle or now - self._rung > WAKES_S):
            self._ring(self._wakes)
            self._wakes, self._rung = set(), now
