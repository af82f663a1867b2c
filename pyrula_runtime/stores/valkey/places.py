"""Where a run lives: the tags of a namespace's shards, and the shard's number in a run's id.

A store of several shards puts the number into the ids that it makes (`01J…-2a`, hexadecimal): so nothing has to be
looked up to find a run, and a changed number of shards moves none. Every other id, such as one that a caller chose or
one that was made when there was one shard, belongs to shard 0. A run with an idempotency key lives in the shard of its
key, since the key's record must stand beside it; any other goes where the bytes of its id lead.
"""

from __future__ import annotations

import hashlib
import re

from pyrula_runtime.core.ids import run_id

FIRST = 0
MOST = 4096
_NUMBERED = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}-([0-9a-f]{1,3})")


def tag_of(namespace: str, shard: int) -> str:
    """What every key of a shard begins with."""
    return f"py:{{{namespace}:{shard}}}:"


def shard_of_run(run: str) -> int:
    """The shard in which a run of this id lives."""
    numbered = _NUMBERED.fullmatch(run)
    return int(numbered[1], 16) if numbered else FIRST


def shard_of_key(key: str, count: int) -> int:
    """The shard of an idempotency key among so many."""
    return _spread(key.encode(), count)


def new_run_id(now_ms: int, entropy: bytes, key: str | None, count: int) -> str:
    """A run's id with its shard's number; without one where there is one shard."""
    made = run_id(now_ms, entropy)
    if count == 1:
        return made
    shard = _spread(entropy[:10], count) if key is None else shard_of_key(key, count)
    return f"{made}-{shard:x}"


def _spread(what: bytes, count: int) -> int:
    return int.from_bytes(hashlib.blake2b(what, digest_size=8).digest()) % count


class Places:
    """The tags of one namespace."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def tag(self, shard: int) -> str:
        """The tag of a shard."""
        return tag_of(self._namespace, shard)

    @property
    def first(self) -> str:
        """The tag of what there is once in a namespace: workers, leases, schedules, events."""
        return self.tag(FIRST)

    def tag_of_run(self, run: str) -> str:
        """The tag where a run lives."""
        return self.tag(shard_of_run(run))
