"""A log that never waits for its reader: what cannot be written now is kept, and at last dropped.

Standard error may be a pipe that nobody empties, and whoever writes to it stands still. A parent that does supervises
nobody; a control thread that does renews no lock; a lane that does looks like user code that blocks, and an innocent
run is charged for a reader that sleeps. So our processes log through here.

To be non-blocking is a property of the open file, which is shared with everybody who has inherited it: set on our
descriptor, it would make the writes of user code fail. So a pipe or terminal is opened once more, through /proc, and
only that file does not block. A socket, as service managers give one, is told with every packet. A plain file never
blocks for its reader and stays as it is. What cannot be opened again (another user's pipe) is asked for room first, and
gets lines no longer than the room that is certain.

What is kept must be pushed on when there is room again. The parent does that with every pass. Elsewhere a thread does,
which lives only while something is kept. The template alone logs as usual: it may have neither thread nor pipe.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import stat
import threading
import time
from collections import deque
from collections.abc import Callable

# lines kept while nobody reads, in bytes
_KEPT = 256 * 1024
# what a pipe that is ready takes without blocking
_CERTAIN = 512
# how often there is looked for room, and how long the end of a process waits for it (seconds)
_LOOK_S, _LAST_S = 0.05, 0.5


class PatientStream:
    """A text stream over a descriptor that others share; writes at most what fits now."""

    def __init__(self, fd: int, kept: int = _KEPT) -> None:
        self._write, self.close = _writer(fd)
        self._kept: deque[bytes] = deque()
        self._size = 0
        self._limit = kept
        self.lost = 0  # lines

    def write(self, text: str) -> int:
        """Take a line or more."""
        self.push()
        data = text.encode(errors="backslashreplace")
        if self._size + len(data) > self._limit:
            self.lost += 1
        else:
            self._kept.append(data)
            self._size += len(data)
            self.push()
        return len(text)

    @property
    def is_behind(self) -> bool:
        """Whether something is kept."""
        return bool(self._kept)

    def flush(self) -> None:
        """What can be written is written already."""

    def push(self) -> None:
        """Write what fits now; to be called now and then, since nobody else will."""
        while self._kept:
            data = self._kept[0]
            written = self._write(data)
            self._size -= written
            if written < len(data):
                self._kept[0] = data[written:]
                return
            self._kept.popleft()
            if not self._kept and self.lost:
                self._own_up()

    def _own_up(self) -> None:
        lost, self.lost = self.lost, 0
        data = f"({lost} lines of this log were lost, because nobody read them)\n".encode()
        self._kept.append(data)
        self._size += len(data)


class PatientLog(logging.StreamHandler[PatientStream]):
    """Logs to a descriptor without waiting; a thread pushes on what is kept."""

    def __init__(self, fd: int = 2) -> None:
        super().__init__(PatientStream(fd))
        self._pusher: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write it, or keep it. Called with the handler's lock held."""
        super().emit(record)
        if self.stream.is_behind and not (self._pusher and self._pusher.is_alive()):
            self._pusher = threading.Thread(target=self._push_on, name="pyrula log", daemon=True)
            self._pusher.start()

    def close(self) -> None:
        """The last lines get a moment; a reader that sleeps holds up no end."""
        deadline = time.monotonic() + _LAST_S
        while self._is_behind() and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        super().close()

    def _push_on(self) -> None:
        while self._is_behind():
            time.sleep(_LOOK_S)

    def _is_behind(self) -> bool:
        with self.lock or contextlib.nullcontext():
            self.stream.push()
            return self.stream.is_behind


def _writer(fd: int) -> tuple[Callable[[bytes], int], Callable[[], None]]:
    """What writes to this descriptor without blocking, and says how many bytes it has taken; and what ends it."""
    kind = os.fstat(fd).st_mode
    if stat.S_ISSOCK(kind):
        own = socket.socket(fileno=os.dup(fd))
        return _patient(lambda data: own.send(data, socket.MSG_DONTWAIT)), own.close
    if stat.S_ISREG(kind):
        return _patient(lambda data: os.write(fd, data)), lambda: None
    with contextlib.suppress(OSError):
        again = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        return _patient(lambda data: os.write(again, data)), lambda: os.close(again)
    return _patient(lambda data: os.write(fd, data[:_CERTAIN]) if _has_room(fd) else 0), lambda: None


def _patient(write: Callable[[bytes], int]) -> Callable[[bytes], int]:
    """A full pipe takes nothing; a reader that went away, or a full disk, takes all: to keep it would help nobody."""

    def written(data: bytes) -> int:
        try:
            return write(data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)

    return written


def _has_room(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return any(seen & select.POLLOUT for _, seen in poll.poll(0))
