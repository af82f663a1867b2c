"""Holding a box: how it is born locked, how others see whether its holder lives, and who may open it.

A box is made under another name (`.new`), locked and filled there, and only then renamed to `.box`. So a `.box` is
always whole and was locked from its first moment on, and a probe can never get between its birth and its lock. What a
killed process left under `.new` is swept by whoever looks for the dead.

Probing takes a *shared* lock for a moment: two probes do not disturb each other, and the one exclusive lock ever taken
on a `.box` was taken before it had that name. What cannot be probed counts as held: only certainty buries.

Within one process record locks protect nothing, and closing a descriptor drops the locks of all others on the file.
Hence `_own`, the boxes of this process by inode, which are never opened; it is keyed by pid as well, because a forked
child inherits the table but not the locks. And hence `_turnstile`: births and sweeps of one process take turns.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import stat
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

_own: dict[tuple[int, int, int], mmap.mmap] = {}
_turnstile = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Glimpse:
    """The content of a box and whether it was held just before it was read."""

    data: bytes
    held: bool


def born(path: Path, image: bytes) -> tuple[int, mmap.mmap]:
    """Make the file of a box with this content, locked by this process; FileExistsError if there is one."""
    unborn = path.with_suffix(".new")
    with _turnstile, ExitStack() as undo:
        fd = _create_locked(unborn)
        undo.callback(os.close, fd)
        undo.callback(unborn.unlink, missing_ok=True)
        # Two processes of one incarnation cannot both get here: they would need the same `.new` at a time.
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        # Really written, not just sized: a full memory file system must say so here, not by SIGBUS later on.
        _write(fd, image)
        mapping = mmap.mmap(fd, len(image))
        _own[_identity(os.fstat(fd))] = mapping
        undo.callback(_own.pop, _identity(os.fstat(fd)))
        unborn.rename(path)
        undo.pop_all()
    return fd, mapping


def released(fd: int) -> None:
    """Give up a box: its lock is free from here on, and it may be opened again like anybody's."""
    identity = _identity(os.fstat(fd))
    os.close(fd)
    _own.pop(identity, None)


def glimpse(path: Path, size: int) -> Glimpse | None:
    """Look at the first `size` bytes of a box; None if it cannot be opened or is no plain file."""
    try:
        found = path.lstat()
        if (mine := _own.get(_identity(found))) is not None:
            return Glimpse(data=mine[:size], held=True)
        if not stat.S_ISREG(found.st_mode):
            return None
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None  # gone meanwhile, or not for us: what cannot be opened is not judged
    try:
        held = not _locked(fd, fcntl.LOCK_SH)  # before reading: what a dead holder left does not change any more
        return Glimpse(data=os.pread(fd, size, 0), held=held)
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """A box in memory, to be read; `is_own` is this process's own mapping, which is not the reader's to close."""

    mapping: mmap.mmap
    is_own: bool


def mapped(path: Path, size: int) -> Mapped | None:
    """Map a box to look at it often; None if it cannot be opened, is no plain file, or is shorter than that."""
    try:
        found = path.lstat()
        if (mine := _own.get(_identity(found))) is not None:
            return Mapped(mapping=mine, is_own=True)
        if not stat.S_ISREG(found.st_mode):
            return None
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        return Mapped(mapping=mmap.mmap(fd, size, prot=mmap.PROT_READ), is_own=False)
    except (OSError, ValueError):  # it is shorter
        return None
    finally:
        os.close(fd)


def sweep(folder: Path) -> None:
    """Remove what processes left that died while they made their box."""
    with _turnstile:
        for unborn in folder.glob("*.new"):
            try:
                fd = os.open(unborn, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            except OSError:
                continue  # born, swept by another, or not for us
            try:
                if _locked(fd, fcntl.LOCK_EX) and _is_at(fd, unborn):
                    unborn.unlink(missing_ok=True)
            finally:
                os.close(fd)


def _create_locked(path: Path) -> int:
    """Create the file and lock it; a sweep may take it for a leftover in between, then it is made again."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with ExitStack() as undo:
            undo.callback(os.close, fd)
            fcntl.lockf(fd, fcntl.LOCK_EX)  # waits for a sweep at most, which is over in microseconds
            if _is_at(fd, path):
                undo.pop_all()
                return fd


def _locked(fd: int, kind: int) -> bool:
    """Whether the lock was free and is ours now; no, too, where the file system cannot tell."""
    try:
        fcntl.lockf(fd, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_at(fd: int, path: Path) -> bool:
    """Whether this descriptor is still what the path names."""
    try:
        return os.path.samestat(os.fstat(fd), path.lstat())
    except FileNotFoundError:
        return False


def _identity(found: os.stat_result) -> tuple[int, int, int]:
    return os.getpid(), found.st_dev, found.st_ino


def _write(fd: int, image: bytes) -> None:
    written = 0
    while written < len(image):
        written += os.write(fd, image[written:])
