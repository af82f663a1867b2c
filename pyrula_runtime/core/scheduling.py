"""What a schedule does: which of its times begin a run, who may change what it says, what comes of an outage.

**Identity.** A firing is one nominal time of one schedule: the id of its run follows from the two, and a schedule moves
from one time to the next in the same write in which the run begins. So it fires once, whatever number of hosts try,
and whatever they believe of each other. `after_ms` is the time it has come to: everything up to it is decided.

**Late.** A time that could not be fired, because nobody was there, is made up for while it is no older than `catch_up`;
older ones are passed over. Every policy but `allow` makes one run of all the times that wait.

**Who declares it.** Code does: a worker that starts writes what its code says. During a deploy old and new code run
side by side, and an old worker that is started again must not undo what the new code says. So a declaration that was
replaced does not come back while whoever replaced it lives; when none of those are left, after a rollback, it does. A
schedule that code does not have any more is kept as one that declares nothing, so that this can be said of it, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import astuple, dataclass, replace
from enum import StrEnum

from pyrula_runtime.core.calendar import Timing

# times that one write decides; the rest follows at once
_MOST_AT_ONCE = 100
# replaced declarations that are remembered
_MEMORY = 8


class Overlap(StrEnum):
    """What becomes of a time that comes while the run of an earlier one has not ended."""

    skip = "skip"  # it is passed over
    buffer_one = "buffer_one"  # one waits for the end, further ones are passed over
    cancel_other = "cancel_other"  # the earlier run is asked to unwind
    allow = "allow"  # both run


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What code says of a schedule. With `takes_time` its runs are told their nominal time."""

    workflow: str
    version: str | None
    cron: str | None
    every_ms: int | None
    timezone: str
    overlap: Overlap
    catch_up_ms: int
    jitter_ms: int
    takes_time: bool

    @property
    def digest(self) -> str:
        """A short name for exactly this."""
        return hashlib.sha256(repr(astuple(self)).encode()).hexdigest()[:16]

    def has_times_of(self, other: Declaration | None) -> bool:
        """Whether both come at the same times."""
        return other is not None and self._times == other._times

    @property
    def _times(self) -> tuple[str | None, int | None, str, int]:
        return self.cron, self.every_ms, self.timezone, self.jitter_ms


_NOTHING = "nothing"  # the digest of no declaration


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleState:
    """A schedule as the store keeps it. `by` is the incarnation of a worker whose code says so; times are nominal.

    `passed_over` counts times that began no run because of the policy.
    """

    schedule_id: str
    declared: Declaration | None
    by: str
    after_ms: int
    replaced: tuple[str, ...] = ()
    paused: bool = False
    buffered_ms: int | None = None
    fired_ms: int | None = None
    passed_over: int = 0

    @property
    def is_live(self) -> bool:
        """Whether it can fire."""
        return self.declared is not None and not self.paused

    def next_due_ms(self, timing: Timing) -> int | None:
        """When it fires next; None if it does not."""
        return self.due_ms(timing.next_ms(self.after_ms)) if self.is_live else None

    def due_ms(self, nominal_ms: int) -> int:
        """When a nominal time is fired: a little later, by a chance that is the same for everybody."""
        limit_ms = self.declared.jitter_ms if self.declared is not None else 0
        return nominal_ms + int.from_bytes(self._chance(nominal_ms)[:6], "big") % (limit_ms + 1)

    def entropy(self, nominal_ms: int) -> bytes:
        """What the id of a nominal time's run is made of, beside the time: so everybody makes the same."""
        return self._chance(nominal_ms)[6:16]

    def _chance(self, nominal_ms: int) -> bytes:
        return hashlib.sha256(f"{self.schedule_id}\0{nominal_ms}".encode()).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is to be written: the state, when it fires next, the nominal times that begin a run, whom they cancel."""

    state: ScheduleState
    next_ms: int | None
    begins: tuple[int, ...] = ()
    cancels_others: bool = False
    missed: bool = False  # times are passed over that came longer ago than `catch_up`


def decide(state: ScheduleState, timing: Timing, now_ms: int, *, is_busy: bool) -> Decision:
    """What to do at this time. `is_busy`: a run of the schedule has not ended."""
    if not state.is_live or state.declared is None:
        return Decision(state=state, next_ms=None)
    oldest_ms = now_ms - state.declared.catch_up_ms
    missed = False
    after_ms, times = state.after_ms, list[int]()
    long_ago_ms = oldest_ms - state.declared.jitter_ms - 1
    nominal_ms = timing.next_ms(after_ms)
    if nominal_ms <= long_ago_ms:
        missed, after_ms = True, long_ago_ms
        nominal_ms = timing.next_ms(after_ms)
    while (due_ms := state.due_ms(nominal_ms)) <= now_ms and len(times) < _MOST_AT_ONCE:
        after_ms = nominal_ms
        if due_ms < oldest_ms:
            missed = True
        else:
            times.append(nominal_ms)
        nominal_ms = timing.next_ms(after_ms)
    waiting = times if state.buffered_ms is None else [state.buffered_ms, *times]
    begins, buffered_ms = _POLICIES[state.declared.overlap](waiting, is_busy)
    moved = replace(
        state,
        after_ms=after_ms,
        buffered_ms=buffered_ms,
        fired_ms=begins[-1] if begins else state.fired_ms,
        passed_over=state.passed_over + len(waiting) - len(begins) - (buffered_ms is not None),
    )
    cancels = bool(begins) and is_busy and state.declared.overlap is Overlap.cancel_other
    return Decision(state=moved, next_ms=due_ms, begins=tuple(begins), cancels_others=cancels, missed=missed)


def _allow(waiting: list[int], is_busy: object) -> tuple[list[int], int | None]:
    return waiting, None


def _newest(waiting: list[int], is_busy: object) -> tuple[list[int], int | None]:
    return waiting[-1:], None


def _newest_if_idle(waiting: list[int], is_busy: object) -> tuple[list[int], int | None]:
    return ([] if is_busy else waiting[-1:]), None


def _one_after_another(waiting: list[int], is_busy: object) -> tuple[list[int], int | None]:
    begins, rest = ([], waiting) if is_busy else (waiting[:1], waiting[1:])
    return begins, rest[0] if rest else None


# From the times that wait to those that begin a run, and the one that waits on.
_POLICIES = {
    Overlap.skip: _newest_if_idle,
    Overlap.buffer_one: _one_after_another,
    Overlap.cancel_other: _newest,
    Overlap.allow: _allow,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """A worker that compares its code with the store. `live` are the incarnations known to live, itself among them.

    `is_abandoned`: nobody who declares the schedule as it is has been alive for several looks.
    """

    me: str
    live: Collection[str]
    now_ms: int
    is_abandoned: bool = False


def declare(
    state: ScheduleState | None, schedule_id: str, mine: Declaration | None, witness: Witness
) -> ScheduleState | None:
    """The schedule as this worker's code has it (`mine` None: not at all); None if it is to stay as it is."""
    if state is None:
        return None if mine is None else _made(schedule_id, mine, witness)
    if state.declared == mine:
        return None if state.by in witness.live else replace(state, by=witness.me)
    digest = _NOTHING if mine is None else mine.digest
    if digest in state.replaced and not witness.is_abandoned:
        return None
    theirs = _NOTHING if state.declared is None else state.declared.digest
    has_same_times = mine is not None and mine.has_times_of(state.declared)
    return replace(
        state,
        declared=mine,
        by=witness.me,
        replaced=(*(each for each in state.replaced if each != digest), theirs)[-_MEMORY:],
        after_ms=state.after_ms if has_same_times else max(state.after_ms, witness.now_ms),
        buffered_ms=state.buffered_ms if has_same_times else None,
    )


def _made(schedule_id: str, declared: Declaration, witness: Witness) -> ScheduleState:
    return ScheduleState(schedule_id=schedule_id, declared=declared, by=witness.me, after_ms=witness.now_ms)


def pause(state: ScheduleState) -> ScheduleState | None:
    """The schedule at rest; None if it is."""
    return None if state.paused else replace(state, paused=True, buffered_ms=None)


def resume(state: ScheduleState, now_ms: int) -> ScheduleState | None:
    """The schedule going on from now; None if it is not paused. What came meanwhile is passed over."""
    return replace(state, paused=False, after_ms=max(state.after_ms, now_ms)) if state.paused else None


def times_between(timing: Timing, start_ms: int, end_ms: int, most: int) -> tuple[int, ...]:
    """The nominal times from `start_ms` up to `end_ms`, which is not among them; the first `most` of them."""
    found: list[int] = []
    nominal_ms = timing.next_ms(start_ms - 1)
    while nominal_ms < end_ms and len(found) < most:
        found.append(nominal_ms)
        nominal_ms = timing.next_ms(nominal_ms)
    return tuple(found)
