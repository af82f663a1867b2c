"""The places where a simulated worker can end: around every attempt of a step and every call to its store.

A worker asks its fuse at each of them, in the order in which it comes there. One fuse keeps a list, another burns at
the place of a number, so that a test can be played once undisturbed and then once for each place.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence


class Fuse:
    """Burns at the place of this number, from 1; 0: never. Thread-safe, for plain steps come here on their threads."""

    def __init__(self, burns_at: int = 0) -> None:
        self._burns_at = burns_at
        self._places: list[str] = []
        self._mutex = threading.Lock()

    @property
    def places(self) -> Sequence[str]:
        """Where the worker came by, in order."""
        return self._places

    @property
    def has_burnt(self) -> bool:
        """Whether it has burnt, which it does once."""
        return 0 < self._burns_at <= len(self._places)

    def burns(self, place: str) -> bool:
        """Whether the worker ends here."""
        with self._mutex:
            self._places.append(place)
            return len(self._places) == self._burns_at


class WorkerCrashed(BaseException):
    """Ends the code of a step in a worker that has just crashed; nobody hears of it."""
