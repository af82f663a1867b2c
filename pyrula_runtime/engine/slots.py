"""How many more turns a worker may start: the one number that its threads share."""

from __future__ import annotations

import threading


class Slots:
    """Free places for turns. Thread-safe."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._free = capacity
        self._mutex = threading.Lock()

    def take_all(self) -> int:
        """Reserve every free place; how many there were."""
        with self._mutex:
            taken = max(self._free, 0)
            self._free -= taken
            return taken

    def overfill(self, count: int) -> None:
        """Count turns in that nobody kept a place for; until as many have ended, less than nothing is free."""
        with self._mutex:
            self._free -= count

    def give(self, count: int) -> None:
        """Give places back."""
        with self._mutex:
            self._free += count

    @property
    def in_use(self) -> int:
        """Places taken, by turns and by claims under way."""
        return self.capacity - self._free
