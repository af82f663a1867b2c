"""The ladder: what follows when a worker's lane stands still, and after how long. Rules alone; `blocks` acts on them.

    stuck for               rung        what happens
    block_warn              warned      it is blocked, and asked for its stack; if mute, it is looked at from outside
      + LISTEN_MS           told        people are told, with the line if that is known by now, else without
    replace_after           replaced    a surge child is started beside it; it leaves when its lane goes round
    evacuate_after          evacuated   its innocent turns are handed back, by itself, or by the clerk if it is mute
    max(3 x lock_ttl,       ended       a last look at its stack, then it is killed, and its blocking run charged
        workflow's timeout)

Being stuck counts only while the worker could run (core.standstill), so whoever is stopped, frozen or starved climbs
nothing; nor does it fall. Only the lane going round leads back to the ground, and at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum

from pyrula_runtime.core.standstill import MOVING, MUTE, Verdict
from pyrula_supervisor.options import Policy

# So long it is waited for the line that keeps the lane (ms).
LISTEN_MS = 250
# A worker that stands still so long with the store's write lock stops the host; it is killed at once (ms).
LOCK_MS = 2_000
# But one that is starved as well would let go of it sooner if it could, so it has at most so many times as long.
STARVED_FACTOR = 4


class Rung(IntEnum):
    """How far a block has led, from the ground up."""

    ground = 0
    warned = 1
    told = 2
    replaced = 3
    evacuated = 4
    ended = 5


def heights(policy: Policy, limit_ms: int) -> Mapping[Rung, int]:
    """From how long a standstill on each rung is reached (ms)."""
    return {
        Rung.warned: policy.block_warn_ms,
        Rung.told: policy.block_warn_ms + LISTEN_MS,
        Rung.replaced: policy.replace_after_ms,
        Rung.evacuated: policy.evacuate_after_ms,
        Rung.ended: limit_ms,
    }


def limit_of(workflow: str, limits_ms: Mapping[str, int], policy: Policy) -> int:
    """How long code of this workflow may block; empty: code of no run."""
    return max(policy.block_limit_ms, limits_ms.get(workflow, 0))


def rung_at(stuck_ms: int, policy: Policy, limit_ms: int) -> Rung:
    """The rung that a standstill of this length has reached."""
    reached = (rung for rung, height_ms in heights(policy, limit_ms).items() if stuck_ms >= height_ms)
    return max(reached, default=Rung.ground)


def climb(before: Rung, after: Rung) -> Iterator[Rung]:
    """The rungs that are new, each once and in order, however many were passed between two looks."""
    return (rung for rung in Rung if before < rung <= after)


def next_ms(stuck_ms: int, policy: Policy) -> int | None:
    """In how long the next rung may be reached of those that people wait for; None if they all are."""
    ahead = (height_ms for height_ms in heights(policy, policy.block_limit_ms).values() if height_ms > stuck_ms)
    return min((height_ms - stuck_ms for height_ms in ahead), default=None)


# verdicts that say that the worker can speak, or that nobody is to speak for it; the others say nothing of that
_SAYS = MOVING | {Verdict.blocked, Verdict.stopped, Verdict.frozen}


def is_mute(verdict: Verdict, *, before: bool) -> bool:
    """Whether somebody has to stand in for the worker: not for one that is stopped, its locks may lapse."""
    return verdict in MUTE or (before and not says(verdict))


def says(verdict: Verdict) -> bool:
    """Whether a verdict that is not one of the mute says that the worker is not mute."""
    return verdict in _SAYS
