"""How many shards a namespace has, and had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """New runs are placed among `count` shards; `most` is the highest number there ever was, and so many are served.

    `former` are other counts, with the wall time in milliseconds at which each was given up: keys were placed by them.
    `is_told` once every shard knows the count, so that no key is placed by another any more.
    """

    count: int
    most: int
    former: Mapping[int, int] = field(default_factory=dict)
    is_told: bool = True

    def former_for(self, now_ms: int, ttl_ms: int) -> tuple[int, ...]:
        """The counts by which a key that lives so long may have been placed; a day at least is looked back."""
        return tuple(count for count, since_ms in self.former.items() if now_ms - since_ms < max(ttl_ms, _DAY_MS))
