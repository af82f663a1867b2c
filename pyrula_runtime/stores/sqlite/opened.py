"""An open file with all that serves it in this process (lock, writer, reads, wakes): made and ended as a whole."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import apsw

from pyrula_runtime.core.errors import StoreRefused, StoreUnavailable, UsageError
from pyrula_runtime.stores.clock import Clock
from pyrula_runtime.stores.sqlite import checks, connection, failures, file_system, hosts, schema, write_lock
from pyrula_runtime.stores.sqlite.batches import Batches
from pyrula_runtime.stores.sqlite.connection import StoreFile, beside
from pyrula_runtime.stores.sqlite.reads import Reads
from pyrula_runtime.stores.sqlite.settings import Settings
from pyrula_runtime.stores.sqlite.wakes import Folder
from pyrula_runtime.stores.sqlite.write_lock import WriteLock
from pyrula_runtime.stores.sqlite.writer import Writer

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What `SqliteStore` works with while it is open, in the process that opened it."""

    path: Path
    pid: int
    lock: WriteLock
    writer: Writer
    reads: Reads
    folder: Folder

    def check_process(self) -> None:
        """Connections, threads and locks do not survive a fork: using them there would damage the file."""
        if os.getpid() != self.pid:
            raise UsageError(
                f"store {self.path} was opened before this process was forked; open a store of its own in each process"
            )

    def close(self, patience_s: float) -> None:
        """Finish what is queued, then let go of all; blocks, but for a foreign holder of the lock only `patience_s`."""
        ended = self.writer.stop(patience_s)
        self.reads.stop()
        self.folder.close()
        if ended:  # otherwise its thread still waits for the lock and may not lose it
            write_lock.give_up(self.lock)


def open_file(path: Path, clock: Clock, settings: Settings) -> Opened:
    """Open or create the store at `path`; blocks. Raises StoreRefused or StoreUnavailable."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _check_not_removed(path)
        warning = file_system.check(path if path.exists() else path.parent)
        lock = write_lock.obtain(beside(path, ".lock"))
    except OSError as error:
        raise StoreUnavailable(f"store {path} cannot be opened: {error.strerror} ({error.filename})") from error
    if warning:
        _log.warning(warning)
    with ExitStack() as undo:
        undo.callback(write_lock.give_up, lock)
        try:
            file = _prepare(path, lock, clock, settings)
        except apsw.Error as error:
            raise failures.ours(error, path) from error
        undo.pop_all()
    folder = Folder(beside(path, ".d"))
    writer, reads = Writer(Batches(file, clock, settings), lock, folder.ring), Reads(path, settings.read_s)
    writer.start()
    reads.start()
    return Opened(path=path, pid=os.getpid(), lock=lock, writer=writer, reads=reads, folder=folder)


def _check_not_removed(path: Path) -> None:
    """Make no store in the place of one that is in use: a run in it would wait for workers that never look there."""
    if path.exists():
        return
    folder = Folder(beside(path, ".d"))
    with closing(folder):
        # whoever listens may also have made it just now
        if folder.has_listeners() and not path.exists():
            raise StoreRefused(
                f"store {path} was removed while a process uses it; stop everything that uses it, put the file back "
                f"with its -wal, or restore a backup, and start again"
            )


def _prepare(path: Path, lock: WriteLock, clock: Clock, settings: Settings) -> StoreFile:
    """Bring the file into shape and sit down in it."""
    with closing(connection.bare(path, create=True)) as db:
        with lock.held_within(settings.open_patience_s):
            version = schema.version_of(db, path)
            connection.tune(db)
            schema.migrate(db, path, version)
            earlier = hosts.seat_of(db)
            if earlier is not None and earlier.host.boot_id != settings.host.boot_id:
                checks.glance(db, path, settings.glance_s)  # the power may have gone: better told now than met later
            stranger = hosts.sit_down(db, settings.host, clock.mono_ms())
        if stranger is not None:
            hosts.watch(db, stranger, settings.host_watch_s)
            with lock.held_within(settings.open_patience_s):
                hosts.inherit(db, stranger, settings.host, clock.mono_ms())
        return StoreFile.at(path)
