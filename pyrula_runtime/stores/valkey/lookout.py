"""Where a claim looks: first the shards that this worker leases, never one that is known to be empty.

A lease is a hint about where to look first, never a right: every shard may be claimed from, by anybody. While nobody
leases for a handle, it looks at all shards. A shard that was found to have work is looked at until it is empty, leased
or not; that is how the sweep helps a shard that has no lessee (see leases).

A shard counts as empty for a line once a claim came back short while its channel was heard: the same script has noted
that somebody waits, so the next run rings. A ring between the claim and its answer leaves the shard to be looked at
again. So claims of an idle worker send nothing, and a busy one asks only where there may be something.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

# so many turns in a row may take their successor from the shard of the run that ended; then the others have their turn
_STREAK = 8


class Lookout:
    """What one handle knows about its shards; for any thread."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._leased: tuple[int, ...] | None = None
        self._found: set[int] = set()  # not leased, but there may be work
        self._empty: dict[int, set[str]] = {}  # lines of which the next run will ring
        self._heard: set[int] = set()  # shards whose channel stands
        self._rings: dict[int, int] = {}
        self._streak: dict[int, int] = {}
        self._next = 0

    @property
    def leased(self) -> tuple[int, ...] | None:
        """The shards leased; None while nobody leases for this handle."""
        return self._leased

    def lease(self, shards: Iterable[int] | None) -> bool:
        """Look at these first from now on; whether that is a change."""
        with self._mutex:
            before, self._leased = self._leased, None if shards is None else tuple(sorted(set(shards)))
            return before != self._leased

    def find(self, shards: Iterable[int]) -> None:
        """There may be work in these, whoever leases them."""
        with self._mutex:
            self._found.update(shards)
            for shard in self._found:
                self._empty.pop(shard, None)

    def candidates(self, lines: frozenset[str], count: int, *, everywhere: bool = False) -> list[int]:
        """Where there may be a run in these lines, each time beginning with another shard."""
        with self._mutex:
            if everywhere or self._leased is None:
                among: Sequence[int] = range(count)
            else:
                among = sorted({*self._leased, *self._found})
            there = [shard for shard in among if not lines <= self._empty.get(shard, set())]
            if not there:
                return there
            self._next += 1
            at = self._next % len(there)
            return there[at:] + there[:at]

    def begin(self, shard: int) -> int:
        """A claim goes out to a shard; gives what `took` takes."""
        return self._rings.get(shard, 0)

    def took(self, shard: int, lines: frozenset[str], begun: int, *, all_asked: bool) -> None:
        """A claim came back, with all that it asked for or with less."""
        with self._mutex:
            if all_asked:
                if self._leased is not None and shard not in self._leased:
                    self._found.add(shard)
                return
            self._streak.pop(shard, None)
            self._found.discard(shard)
            if shard in self._heard and self._rings.get(shard, 0) == begun:
                self._empty.setdefault(shard, set()).update(lines)

    def may_follow(self, shard: int, lines: frozenset[str], count: int) -> bool:
        """Whether the successor of a turn may come out of its own shard, without a look at the others."""
        others = [each for each in self.candidates(lines, count) if each != shard]
        with self._mutex:
            if not others:
                return self._leased is None or shard in self._leased or shard in self._found
            self._streak[shard] = (self._streak.get(shard, 0) + 1) % _STREAK
            return self._streak[shard] != 0

    def rang(self, shard: int, line: str) -> None:
        """A run came to stand in a line of this shard."""
        with self._mutex:
            self._rings[shard] = self._rings.get(shard, 0) + 1
            self._empty.get(shard, set()).discard(line)

    def hears(self, shard: int) -> None:
        """The channel of a shard stands from now on; what came before was not heard."""
        with self._mutex:
            self._heard.add(shard)
            self._empty.pop(shard, None)

    def is_deaf(self, shards: Iterable[int]) -> None:
        """The channels of these shards do not stand any more."""
        with self._mutex:
            for shard in shards:
                self._heard.discard(shard)
                self._empty.pop(shard, None)
