"""What the writer does with the calls it has taken: one transaction for all of them, on its own connection.

The batch is optimistic. Each call only reads and writes through the transaction, so if one of them raises, the whole is
rolled back and every call is run again in a transaction of its own: the broken one fails alone. Savepoints would do the
same at three times the price of a commit, paid always instead of never.

When the store itself fails (disk full, I/O error) nobody knows what was written: all calls of the batch are told so,
and the connection is given up, so that the next batch begins with what is really in the file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import apsw

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.stores.clock import Clock
from pyrula_runtime.stores.protocol import Wake
from pyrula_runtime.stores.sqlite import connection, failures, pulse
from pyrula_runtime.stores.sqlite.answers import Call
from pyrula_runtime.stores.sqlite.ballast import Ballast
from pyrula_runtime.stores.sqlite.checkpoints import Checkpoints
from pyrula_runtime.stores.sqlite.connection import StoreFile
from pyrula_runtime.stores.sqlite.settings import Settings
from pyrula_runtime.stores.sqlite.transaction import Tx

_log = logging.getLogger(__name__)
# What one call can do wrong without the store being at fault.
_OWN_FAULTS = (apsw.ConstraintError, apsw.SQLError, apsw.MismatchError, apsw.BindingsError, apsw.TooBigError)
Failure = apsw.Error | OSError | StoreUnavailable


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


class Batches:
    """The writer's connection and what belongs to it. `wakes` collects what the committed calls want told."""

    def __init__(self, file: StoreFile, clock: Clock, settings: Settings) -> None:
        self.beat_every_ms = pulse.IDLE_MS
        self.wakes: set[Wake] = set()
        self._file, self._clock, self._settings = file, clock, settings
        self._ballast = Ballast(file.beside(".ballast"), settings.ballast_bytes)
        self._db: apsw.Connection | None = None
        self._checkpoints: Checkpoints | None = None
        self._beaten_ms: int | None = None
        self._damage: Failure | None = None
        self._companions: dict[str, tuple[int, int]] = {}

    def _connected(self) -> apsw.Connection:
        if self._damage is not None:
            raise self._damage
        if self._db is None:
            self._db = connection.bare(self._file.path)
            connection.tune(self._db)
            self._companions = self._file.companions()
            self._checkpoints = Checkpoints(self._db, self._settings.checkpoint_pages, self._settings.truncate_bytes)
        return self._db

    def pending(self, writes: list[Write]) -> list[Write]:
        """The calls that need the lock: all of them, unless every single one can look first."""
        self._file.check()
        db = self._connected()
        self._check_companions()
        if any(write.needed is None for write in writes):
            return writes
        pending = []
        for write in writes:
            if write.needed is None or write.needed(db):
                pending.append(write)
            else:
                write.outcome, write.is_done = write.otherwise, True
        return pending

    def _check_companions(self) -> None:
        """For good: a new connection of this process would be given the old index, and write over what others wrote."""
        try:
            self._file.check_companions(self._companions)
        except StoreUnavailable as error:
            self._damage = error
            raise

    def is_quiet(self) -> bool:
        """Whether it is this process's turn to give a sign of life, since nobody else did."""
        now_ms = self._clock.mono_ms()
        if self._beaten_ms is not None and now_ms - self._beaten_ms < self.beat_every_ms:
            return False
        self._beaten_ms = now_ms - pulse.quiet_ms(self._connected(), now_ms)
        return now_ms - self._beaten_ms >= self.beat_every_ms

    def perform(self, writes: list[Write]) -> None:
        """Run the calls and commit; the caller holds the write lock."""
        self._ballast.lay()
        try:
            self._together_or_alone(writes)
        except apsw.FullError:
            if not self._ballast.give_up():
                raise
            _log.error("the disk of store %s is full: no new runs until space is free", self._file.path)
            self._together_or_alone([write for write in writes if not write.is_done])

    def _together_or_alone(self, writes: list[Write]) -> None:
        try:
            self._attempt(writes)
        except Exception as error:
            # what a call raised is its caller's to hear; the thread goes on
            if isinstance(error, apsw.Error) and not isinstance(error, _OWN_FAULTS):
                raise
            if len(writes) == 1:
                writes[0].failure = failures.ours(error, self._file.path) if isinstance(error, apsw.Error) else error
                return
            for write in writes:
                self._together_or_alone([write])

    def _attempt(self, writes: list[Write]) -> None:
        """All of them, or none."""
        db = self._connected()
        db.execute("BEGIN IMMEDIATE")
        try:
            tx = Tx(db, self._clock.wall_ms(), self._clock.mono_ms(), self._ballast.is_given_up)
            for write in writes:
                write.outcome = write.work(tx)
            self._beat(tx, writes)
            db.execute("COMMIT")
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK")
        self.wakes |= tx.wakes
        for write in writes:
            write.is_done = True

    def _beat(self, tx: Tx, writes: list[Write]) -> None:
        if self._beaten_ms is not None:
            recent = tx.mono_ms - self._beaten_ms < self.beat_every_ms / pulse.BUSY
            if recent or (writes and not any(write.is_alive for write in writes)):
                return
        pulse.beat(tx)
        self._beaten_ms = tx.mono_ms

    def fail(self, writes: list[Write], error: Failure) -> None:
        """Tell the calls that are not done, and give the connection up."""
        for write in writes:
            if not write.is_done:
                write.failure = write.failure or failures.ours(error, self._file.path)
        if isinstance(error, apsw.Error) and failures.is_damage(error):
            self._damage = error
        self.close()

    @property
    def is_long(self) -> bool:
        """Whether the log should be folded back now."""
        return self._checkpoints is not None and self._checkpoints.is_due

    def fold(self) -> None:
        """Fold the log back; the caller holds the write lock."""
        if self._checkpoints is not None:
            self._checkpoints.fold(connection.BUSY_MS)

    def close(self) -> None:
        """Let go of the connection."""
        if self._db is not None:
            self._db.close(True)
        # the first commit of the next connection gives a sign of life, and so proves that a row can be written
        self._db, self._checkpoints, self._beaten_ms = None, None, None
