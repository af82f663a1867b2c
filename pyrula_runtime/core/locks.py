"""Lock arithmetic: who may write to a run, until when, and how the renewals are spaced.

A lock is a right to write, not a right to run: user code may be paused past it and wake up later. So safety is in the
token, checked inside every write: `fence` counts the claims of a run and only grows; `nonce` is random, because after
a restored backup or a failover a counter may repeat. The time limit only decides when others may claim.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """Proof of one claim of one run; it goes with every write and is dead once another claim or release came."""

    run_id: str
    fence: int
    nonce: str


def renew_every_s(lock_ttl_s: float) -> float:
    """A third of the lock's life: two renewals may be lost before it lapses."""
    return lock_ttl_s / 3


def block_limit_s(lock_ttl_s: float, timeout_s: float | None) -> float:
    """How long a turn's code may keep its loop, seconds: three lives of a lock, or the timeout of its workflow.

    Its lock is renewed no longer, so a turn that hangs does not live for ever.
    """
    return max(3 * lock_ttl_s, timeout_s or 0.0)


def outage_grace(now_ms: int, last_alive_ms: int, lock_ttl_ms: int) -> bool:
    """Whether lapsed locks are the store's doing and not their holders'.

    Locks are renewed each third of their life (`renew_every_s`), and so often whoever works gives a sign of life. When
    nobody could reach the store for longer than the other two thirds, those that were due have lapsed, and nobody is at
    fault: all of them are pushed out once by a full life instead of being reclaimed.
    """
    return 3 * (now_ms - last_alive_ms) > 2 * lock_ttl_ms
