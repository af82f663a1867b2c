"""Room kept for the day the disk is full: a file beside the store, emptied so that what is running can still finish.

The file is the state itself, seen by all processes alike. While it is empty the store is *strained*: new runs are
refused, nothing is claimed, the store is not ready; journals and endings are written into the room it left. Once the
disk has twice its size free, whoever writes next fills it again. On a disk too small for one there is no ballast, and a
full disk stops everything at once.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_TRY_S = 1.0


class Ballast:
    """The file, of `size` bytes; with size 0 there is none and the store is never strained."""

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._size = size
        self._tried = -_TRY_S

    def _length(self) -> int:
        """How much there is, -1 for no file."""
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return -1

    @property
    def is_given_up(self) -> bool:
        """Whether the store is strained."""
        return self._size > 0 and self._length() == 0

    def lay(self) -> None:
        """Make or fill the file if it is not whole and there is room; looks at most once a second.

        The caller holds the write lock.
        """
        now = time.monotonic()
        if self._size == 0 or now - self._tried < _TRY_S or self._length() >= self._size:
            return
        self._tried = now
        disk = os.statvfs(self._path.parent)
        if disk.f_bavail * disk.f_frsize < 2 * self._size:
            return
        draft = self._path.with_name(self._path.name + ".new")
        try:
            with open(draft, "wb") as file:
                os.posix_fallocate(file.fileno(), 0, self._size)
            os.replace(draft, self._path)
        except OSError:  # no room after all: the store stays as it is
            draft.unlink(missing_ok=True)

    def give_up(self) -> bool:
        """Empty the file; whether that made room."""
        if self._length() <= 0:
            return False
        os.truncate(self._path, 0)
        return True
