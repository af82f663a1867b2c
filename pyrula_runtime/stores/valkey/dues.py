"""When the next run of each shard is due, as far as one handle knows: so a look at the times asks only who has one.

A shard's answer holds until its time comes or its channel rings, which it does whenever an earlier time is written
there. It counts only while that channel is heard; without a listener every look asks every shard.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from pyrula_runtime.stores.clock import Clock, SystemClock


class Dues:
    """What one handle knows about the times of its shards; for any thread. `clock` is that of tests, if any."""

    def __init__(self, clock: Clock | None) -> None:
        self._mutex = threading.Lock()
        self._clock = clock or SystemClock()
        self._ahead_ms = 0  # the store's wall clock is so much ahead of our monotonic one
        self._next: dict[int, int | None] = {}  # of shards whose answer holds
        self._heard: set[int] = set()
        self._rings: dict[int, int] = {}
        self._begun = 0

    def now_ms(self) -> int:
        """The store's wall time, as it was told last and has gone on since."""
        return self._clock.mono_ms() + self._ahead_ms

    def to_ask(self, shards: int) -> list[int]:
        """The shards that may have something due now, each time beginning with another, so that none waits for long."""
        with self._mutex:
            now_ms = self.now_ms()
            there = [shard for shard in range(shards) if not self._holds(shard, now_ms)]
            self._begun += 1
            at = self._begun % max(1, len(there))
            return there[at:] + there[:at]

    def _holds(self, shard: int, now_ms: int) -> bool:
        if shard not in self._next:
            return False
        due_ms = self._next[shard]
        return due_ms is None or due_ms > now_ms

    def begin(self, shard: int) -> int:
        """A shard is asked; gives what `told` takes."""
        return self._rings.get(shard, 0)

    def told(self, shard: int, begun: int, next_due_ms: int | None, now_ms: int) -> None:
        """What it answered."""
        with self._mutex:
            self._ahead_ms = now_ms - self._clock.mono_ms()
            if shard in self._heard and self._rings.get(shard, 0) == begun:
                self._next[shard] = next_due_ms

    def earliest_ms(self) -> int | None:
        """The next time of all shards whose answers hold."""
        with self._mutex:
            return min((due_ms for due_ms in self._next.values() if due_ms is not None), default=None)

    def rang(self, shard: int) -> None:
        """An earlier time was written there."""
        with self._mutex:
            self._rings[shard] = self._rings.get(shard, 0) + 1
            self._next.pop(shard, None)

    def hears(self, shard: int) -> None:
        """Its channel stands from now on."""
        with self._mutex:
            self._heard.add(shard)
            self._next.pop(shard, None)

    def is_deaf(self, shards: Iterable[int]) -> None:
        """The channels of these do not stand any more."""
        with self._mutex:
            for shard in shards:
                self._heard.discard(shard)
                self._next.pop(shard, None)
