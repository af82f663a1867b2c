"""Telling other processes that something happened: a byte to a datagram socket in the folder beside the file.

Every listener binds a socket `<db>.d/<name>.<kinds>`; a writer, after its commit, sends the kinds that fit to each. It
is only a hint, and sending never waits: a full socket has its hint already, a dead one is removed. A listener
looks at SQLite's `data_version` as well, every second, so a lost hint costs a second at most; once it has heard nothing
for ten, every third second, so that an idle host sends few calls (hints are lost by deaths in the middle of work).
Where sockets do not work (the test is a hint to oneself) it looks every 50 ms.

Subscribe first, then look: a listener is bound when `listen` returns, and its first look at `data_version` counts as a
change, so nothing that happens in between is missed.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path

from pyrula_runtime.core.errors import StoreUnavailable, UsageError
from pyrula_runtime.stores.protocol import Wake

FALLBACK_S = 1.0
QUIET_S = 10.0  # after so long without a hint
QUIETER = 3  # the looks are so many times rarer
POLLING_S = 0.05
_LETTERS = {Wake.ready: "r", Wake.attention: "a", Wake.ended: "e", Wake.timer: "t", Wake.lease: "l"}
_KINDS = {letter: kind for kind, letter in _LETTERS.items()}
_LONGEST = 100  # a socket's path has 108 bytes at most
# A folder's time stamp is coarse: a listing younger than this may miss a socket that was bound in the same tick.
_TICK_NS = 50_000_000


class Folder:
    """The sockets of one store, and how this process reaches them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None
        self._mutex = threading.Lock()
        self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sender.setblocking(False)
        self._names: list[str] = []
        self._listed: tuple[int, bool] = (-1, False)

    def address(self, name: str) -> str:
        """The path of a socket, by way of an open descriptor if it is too long for one (Linux; elsewhere it fails)."""
        direct = str(self.path / name)
        if len(os.fsencode(direct)) <= _LONGEST:
            return direct
        with self._mutex:  # the writer and every listening loop come by here
            if self._fd is None:
                self._fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        return f"/proc/self/fd/{self._fd}/{name}"

    def ring(self, wakes: Iterable[Wake]) -> None:
        """Send a hint to everybody who listens for one of `wakes`."""
        letters = {_LETTERS[wake] for wake in wakes}
        for name in self._list():
            if fitting := letters.intersection(name.rpartition(".")[2]):
                self.send(name, "".join(sorted(fitting)))

    def _list(self) -> list[str]:
        try:
            changed_ns = os.stat(self.path).st_mtime_ns
            if self._listed != (changed_ns, True):
                self._listed = (changed_ns, time.time_ns() - changed_ns > _TICK_NS)
                self._names = os.listdir(self.path)
        except OSError:
            return []  # nobody has listened yet, or it is not for us to see
        return self._names

    def has_listeners(self) -> bool:
        """Whether a process listens here now."""
        return any(self.send(name, "") for name in self._list())

    def send(self, name: str, letters: str) -> bool:
        """Send a hint to one listener, if it takes it now; whether one is there."""
        try:
            self._sender.sendto(letters.encode(), self.address(name))
        except ConnectionRefusedError:  # its process is dead
            self._remove(name)
            return False
        except BlockingIOError:
            return True  # it is full, and so awake already
        except OSError:
            return False  # gone, or another user's: its own fallback looks after it
        return True

    def bind(self, kinds: frozenset[Wake]) -> tuple[socket.socket, str]:
        """A fresh listening socket and its name; OSError where that does not work."""
        self.path.mkdir(exist_ok=True)
        name = f"{os.getpid():x}{os.urandom(4).hex()}.{''.join(sorted(_LETTERS[kind] for kind in kinds))}"
        bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            bell.setblocking(False)
            bell.bind(self.address(name))
            self.send(name, "")
            bell.recv(1)  # the test: a hint to oneself has arrived at once
        except OSError:
            bell.close()
            self._remove(name)
            raise
        return bell, name

    def _remove(self, name: str) -> None:
        with suppress(OSError):  # gone already, or another user's to remove
            (self.path / name).unlink()

    def close(self) -> None:
        """Let go of what is open."""
        self._sender.close()
        if self._fd is not None:
            os.close(self._fd)


class Listener:
    """One subscription, on the loop that made it."""

    def __init__(
        self,
        folder: Folder,
        kinds: frozenset[Wake],
        on_wake: Callable[[Wake], None],
        version: Callable[[], Awaitable[int]],
    ) -> None:
        self._folder, self._kinds, self._on_wake, self._version = folder, kinds, on_wake, version
        self._loop = asyncio.get_running_loop()
        self._bell: socket.socket | None = None
        self._name = ""
        with suppress(
            OSError, NotImplementedError
        ):  # no sockets, or a loop that cannot watch them: only look, but often
            self._bell, self._name = folder.bind(kinds)
            self._loop.add_reader(self._bell, self._rung)
        self.every_s = FALLBACK_S if self._bell is not None else POLLING_S
        self._heard_s = self._loop.time()
        self._looking = self._loop.create_task(self._look(), name="pyrula-store-look")

    def _rung(self) -> None:
        assert self._bell is not None
        self._heard_s = self._loop.time()
        letters: set[str] = set()
        with suppress(BlockingIOError):
            while True:
                letters.update(self._bell.recv(16).decode())
        self._wake(kind for letter, kind in _KINDS.items() if letter in letters)

    def _wake(self, kinds: Iterable[Wake]) -> None:
        for kind in kinds:
            self._on_wake(kind)

    @property
    def pause_s(self) -> float:
        """How long until the next look."""
        is_quiet = self._bell is not None and self._loop.time() - self._heard_s >= QUIET_S
        return self.every_s * QUIETER if is_quiet else self.every_s

    async def _look(self) -> None:
        seen = -1
        while True:
            await asyncio.sleep(self.pause_s)
            try:
                found = await self._version()
            except StoreUnavailable:
                continue  # others say so; a look that failed is repeated
            except UsageError:
                return  # the store was closed
            if found != seen:
                seen = found
                self._wake(self._kinds)

    def close(self) -> None:
        """End it: no callback comes afterwards."""
        self._looking.cancel()
        if self._bell is not None:
            self._loop.remove_reader(self._bell)
            self._bell.close()
            self._bell = None
            (self._folder.path / self._name).unlink(missing_ok=True)
