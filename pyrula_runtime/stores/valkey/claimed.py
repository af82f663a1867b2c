"""In which shards this handle's worker may hold runs, so that the others need not be asked.

A worker looks now and then whether the store holds runs in its name that it has never heard of. To a worker that
leases through this handle runs come by claims through it alone. So only shards count from which a claim has brought a
run, or has not been answered (nobody knows then), and those only until they are seen to be empty.
"""

from __future__ import annotations

import threading


class Claimed:
    """What is known of the claims of one handle; for any thread."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._open: dict[int, int] = {}  # claims that are under way
        self._brought: dict[int, int] = {}  # how often claims have brought something since it was last seen empty

    def begin(self, shard: int) -> None:
        """A claim is sent to a shard."""
        with self._mutex:
            self._open[shard] = self._open.get(shard, 0) + 1

    def answered(self, shard: int, runs: int) -> None:
        """It was answered, with so many runs, to somebody who still listens."""
        with self._mutex:
            self._open[shard] -= 1
            if runs:
                self._brought[shard] = self._brought.get(shard, 0) + 1

    def unanswered(self, shard: int) -> None:
        """Nobody will know by its answer what it has brought."""
        self.answered(shard, 1)

    def shards(self) -> dict[int, int]:
        """Where there may be something, with what `is_empty` wants to know."""
        with self._mutex:
            open_ = [shard for shard, count in self._open.items() if count]
            return {shard: self._brought.get(shard, 0) for shard in {*open_, *self._brought}}

    def is_empty(self, shard: int, brought: int) -> None:
        """Nothing is held there; claims that have brought something since it was asked count anew."""
        with self._mutex:
            if self._brought.get(shard) == brought:
                del self._brought[shard]
