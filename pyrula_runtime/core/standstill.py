"""Why something stands still: one judgement for the watchdog inside a worker and for the supervisor outside.

Whoever looks takes a sample of the worker every now and then: what its black box says, and what the kernel says of its
threads. Two samples in a row make a verdict about the time between them, by one table (`classify`); verdicts in a row
make the time for which the same piece of code has kept the lane, or the GIL (`Stuck`), and in it only such time counts
as the worker had the chance to run.

**Signs.** A thread that computes has CPU time. One that wants a CPU and gets none has time in the run queue. One that
wants the GIL and does not get it wakes up every few milliseconds to ask for it, so the kernel gives it hundreds of
slices a second, each next to nothing; nothing else in a worker looks like that. So a watchdog that has not been there
for a while *and* wakes up all the time proves that some thread keeps the GIL; a watchdog that is merely late proves
nothing. Where the kernel says nothing of threads (not Linux) nobody is found to keep the GIL.

**Whose fault.** Code that has the lane all the time blocks it, whatever for, unless its thread waits for the GIL like
the watchdog: then another thread has it. Which one, only CPU time tells (`gil_holder`): a thread that sleeps may do so
by right. If it cannot be told, nobody is accused. Then two pieces of code keep the worker, each with a time of its own:
that of the lane's stands still meanwhile and goes on afterwards, so that nobody is let off for what others do.

**What may go wrong.** Collections and waits in the run queue are known as sums, so they are subtracted from the span in
which they end or go on; a span in which the worker was stopped at either end is struck out as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

# an observer that comes so much later than planned does not know what it has missed
LATE_MS = 300
# without a beat for so long, four times its usual period, a watchdog does not get the GIL, or does not want it
MUTE_MS = 1_000
# the share of the time between two samples from which on it was spent in the garbage collection
COLLECTING_SHARE = 0.5
# a starved thread spent at least this share waiting for a CPU, and at most that share with one
STARVED_WAIT_SHARE = 0.5
STARVED_CPU_SHARE = 0.1
# of the time in which it had a CPU or did not want one, a computing thread computed at least this share
COMPUTING_SHARE = 0.5
# and of all the time that one: with less it computes, but so little that it had better not be held to anything
COMPUTING_LEAST = 0.02
# who waits for the GIL wakes up every switch interval (1 ms here, 5 ms in Python): slices per ms in which it did not
# wait for a CPU as well, with ample reserve
WAITING_SLICES_PER_MS = 1 / 25
# one slice may be the wake-up of a thread that is merely late, and the next the rest of its work
WAITING_SLICES_LEAST = 3
# and only looks whether it is free, for some hundredths of a ms: computing on a busy host gives as many slices, longer
WAITING_SLICE_MS = 0.2
# when a thread that nobody can name has had the GIL for so long in a row, it is taken for what keeps the worker
OTHERS_MS = 1_500
# when it cannot be told for so long in a row, and for as long as it could before, whether a thread that was known to
# keep the GIL has it still, that is known no more: its time would stand still, and the worker with it for ever; and
# for the same reason when the lane has not turned for so much longer than anybody can be shown to have kept it
NAMELESS_MS = 10_000
# where a thread has just had the GIL for MUTE_MS or longer, others may have it for less, unseen: then code that asks
# for it in vain looks like code that keeps the lane, until there was no such thread for so long
UNSEEN_MS = 5_000
_STOPPED = frozenset("Tt")


class Verdict(StrEnum):
    """What a worker did between two samples."""

    healthy = "healthy"  # the lane turns, or has nothing to do
    busy = "busy"  # the lane computes, but goes from one piece of code to the next
    blocked = "blocked"  # the same code all the time, others could have the GIL
    held_on_cpu = "held_on_cpu"  # the same code all the time, with the GIL, computing
    held_waiting = "held_waiting"  # the same code all the time, with the GIL, waiting for something
    held_elsewhere = "held_elsewhere"  # a thread other than the lane's keeps the GIL
    stopped = "stopped"  # by a signal, or a debugger
    frozen = "frozen"  # by a cgroup
    starved = "starved"  # it wanted a CPU and got none
    collecting = "collecting"  # Python's garbage collection
    observer_late = "observer_late"  # whoever looks was itself away


# those in which no thread of the worker can speak for it
MUTE = frozenset({Verdict.held_on_cpu, Verdict.held_waiting, Verdict.held_elsewhere})
# verdicts whose time counts against the code that keeps the lane, or the GIL
COUNTING = MUTE | {Verdict.blocked}
# verdicts after which nothing is stuck any more
MOVING = frozenset({Verdict.healthy, Verdict.busy})


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadSample:
    """What the kernel says of one thread; `state` as in /proc (R, S, D, T, t, Z), empty if unknown. Times add up."""

    state: str = ""
    cpu_ms: float = 0.0
    wait_ms: float = 0.0  # in the run queue
    slices: int = 0  # how often it was given a CPU


UNKNOWN = ThreadSample()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One look at a worker. Times are monotonic ms; `None` is unknown."""

    at_ms: int
    late_ms: int = 0  # how much later than planned the observer looked
    watch_beat_ms: int | None = None  # when its watchdog thread last ran
    run_id: str = ""  # whose code has the lane; empty: no run's
    entries: int | None = None  # number of the code that has the lane (0: nobody has it)
    since_ms: int = 0  # since when it has it
    gc_since_ms: int = 0  # a collection is under way since then; 0: none
    gc_total_ms: int = 0  # time spent in collections before that one
    lane: ThreadSample = UNKNOWN
    watch: ThreadSample = UNKNOWN  # the watchdog's thread
    frozen: bool = False

    @property
    def collected_ms(self) -> int:
        """Time spent in collections until now."""
        return self.gc_total_ms + (self.at_ms - self.gc_since_ms if self.gc_since_ms else 0)


class _Use:
    """What one thread did with the time between two samples of it."""

    def __init__(self, span_ms: float, before: ThreadSample, after: ThreadSample) -> None:
        known = bool(before.state and after.state)
        self.wait_ms = min(max(after.wait_ms - before.wait_ms, 0.0), span_ms) if known else 0.0
        cpu_ms = after.cpu_ms - before.cpu_ms
        self.stopped = bool(_STOPPED & {before.state, after.state})
        slices, awake_ms = after.slices - before.slices, span_ms - self.wait_ms
        self.only_looks = only_looks = cpu_ms <= WAITING_SLICE_MS * slices
        least_ms = max(COMPUTING_SHARE * awake_ms, COMPUTING_LEAST * span_ms)
        self.computes = known and not only_looks and cpu_ms > 0 and cpu_ms >= least_ms
        enough = max(WAITING_SLICES_LEAST, WAITING_SLICES_PER_MS * awake_ms)
        self.wants_gil = known and only_looks and slices >= enough
        has_waited = self.wait_ms > 0 and self.wait_ms >= STARVED_WAIT_SHARE * span_ms
        # a wait is added up when it is over: whoever wants a CPU at both looks and got next to none waits still
        still_waits = span_ms > 0 and before.state == after.state == "R"
        got_none = cpu_ms <= STARVED_CPU_SHARE * span_ms and not self.computes
        self.starved = got_none and (has_waited or still_waits)


class _Between:
    """Two samples in a row, as far as the table asks."""

    def __init__(self, before: Sample, after: Sample) -> None:
        self.after = after
        self.span_ms = max(after.at_ms - before.at_ms, 0)
        self.gc_ms = min(max(after.collected_ms - before.collected_ms, 0), self.span_ms)
        self.lane = _Use(self.span_ms, before.lane, after.lane)
        self.watch = _Use(self.span_ms, before.watch, after.watch)
        self.frozen = before.frozen or after.frozen
        self.same = bool(after.entries) and (before.run_id, before.entries) == (after.run_id, after.entries)

    @property
    def mute(self) -> bool:
        beat_ms = self.after.watch_beat_ms
        return bool(beat_ms) and self.after.at_ms - (beat_ms or 0) >= MUTE_MS and self.watch.wants_gil

    @property
    def elsewhere(self) -> bool:
        """Whether a thread other than the lane's keeps the GIL."""
        return self.mute and (not self.same or self.lane.wants_gil)

    @property
    def starved(self) -> bool:
        """Whether the kernel is to blame: not where code computes, or wakes up to ask for the GIL, all the same."""
        return self.lane.starved or (self.watch.starved and not (self.lane.computes or self.mute))


# The first that applies is the verdict: first what excuses, then what accuses.
_TABLE: tuple[tuple[Verdict, Callable[[_Between], bool]], ...] = (
    (Verdict.observer_late, lambda it: it.after.late_ms >= LATE_MS),
    (Verdict.frozen, lambda it: it.frozen),
    (Verdict.stopped, lambda it: it.lane.stopped or it.watch.stopped),
    (Verdict.collecting, lambda it: it.gc_ms > 0 and it.gc_ms >= COLLECTING_SHARE * it.span_ms),
    (Verdict.held_elsewhere, lambda it: it.elsewhere),
    (Verdict.starved, lambda it: it.starved),
    (Verdict.held_on_cpu, lambda it: it.mute and it.lane.computes),
    (Verdict.held_waiting, lambda it: it.mute),
    (Verdict.blocked, lambda it: it.same),
    (Verdict.busy, lambda it: bool(it.after.entries) and it.lane.computes),
)


def classify(before: Sample, after: Sample) -> Verdict:
    """What the worker did between these two looks."""
    between = _Between(before, after)
    return next((verdict for verdict, applies in _TABLE if applies(between)), Verdict.healthy)


def counted_ms(before: Sample, after: Sample) -> float:
    """How much of the time between two looks the code on the lane, or whoever has its GIL, had the chance to run."""
    between = _Between(before, after)
    # of a thread that nobody knows it is not known what it waited for a CPU; the watchdog did so at its side
    wait_ms = max(between.lane.wait_ms, between.watch.wait_ms if between.elsewhere else 0.0)
    return max(between.span_ms - between.gc_ms - wait_ms - max(after.late_ms, 0), 0.0)


def from_beginning(before: Sample, after: Sample) -> Sample:
    """The look before, as if it had been when the code began that has the lane now, if that was after it."""
    if after.entries and after.entries != before.entries and before.at_ms < after.since_ms < after.at_ms:
        return replace(before, at_ms=after.since_ms, run_id=after.run_id, entries=after.entries)
    return before


def gil_holder(span_ms: int, threads: Mapping[int, tuple[ThreadSample, ThreadSample]]) -> int | None:
    """The thread that keeps the GIL of a mute worker: the one that computes. None if that is none, or not one alone."""
    computing = [thread for thread, (before, after) in threads.items() if _Use(span_ms, before, after).computes]
    return computing[0] if len(computing) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneKept:
    """Whose code has the lane, and for how long: until another thread had the GIL last, and since then; ms that count.

    0 entries: nobody's. `still_ms` is for how long the lane has not turned, whoever had the GIL meanwhile.
    """

    run_id: str = ""
    entries: int = 0
    former_ms: float = 0.0
    since_ms: float = 0.0
    still_ms: float = 0.0

    @property
    def for_ms(self) -> float:
        """The one on top of the other, but for code that may have waited for the GIL since."""
        if self.since_ms >= UNSEEN_MS:
            return self.former_ms + self.since_ms
        return max(self.former_ms, self.since_ms)

    def at(self, look: Sample) -> LaneKept:
        """The same if that look found the same code, else that."""
        found = (look.run_id, look.entries or 0)
        return self if found == (self.run_id, self.entries) else LaneKept(run_id=found[0], entries=found[1])

    def stands(self, ms: float) -> LaneKept:
        """It has been there for longer, by whosever doing."""
        return replace(self, still_ms=self.still_ms + ms) if self.entries else self

    def more(self, ms: float) -> LaneKept:
        """It goes on."""
        return replace(self, since_ms=self.since_ms + ms)

    def interrupted(self) -> LaneKept:
        """Another thread has the GIL: what came together before neither grows nor is lost."""
        return replace(self, former_ms=self.for_ms, since_ms=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GilKept:
    """Whose code on a thread other than the lane's has the GIL, and for how long; ms that count.

    0 entries: nobody can tell. `nameless_ms` is for how long it has been so since it could be told last.
    """

    run_id: str = ""
    entries: int = 0
    for_ms: float = 0.0
    nameless_ms: float = 0.0

    @property
    def is_sure(self) -> bool:
        """Whether there is such a thread: one look that cannot name it may be wrong."""
        return bool(self.entries) or self.for_ms >= OTHERS_MS

    def more(self, holder: tuple[str, int] | None, ms: float) -> GilKept:
        """It goes on, by this holder's doing, or by that of one that this look could not name.

        One that was known may have the GIL still, and wait with it; but it is not known to, and when that has been so
        for long, nobody is.
        """
        if holder is not None:
            so_far = self.for_ms if holder == (self.run_id, self.entries) else 0.0
            return GilKept(run_id=holder[0], entries=holder[1], for_ms=so_far + ms)
        if not self.entries:
            return replace(self, for_ms=self.for_ms + ms)
        nameless_ms = self.nameless_ms + ms
        if nameless_ms >= max(NAMELESS_MS, self.for_ms):
            return GilKept(for_ms=nameless_ms)
        return replace(self, nameless_ms=nameless_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """What has kept a worker, and for how long: its lane, and beside that a thread that has the GIL.

    Each has a count of its own; `run_id`, `entries` and `for_ms` are of the longer one, named as the black box does.
    With 0 entries nobody knows whose it is, or nothing is stuck. It is nobody's, too, where both counts begin anew
    again and again, and the lane turns as little as if one of them grew (`is_nobodys`). `held` is the last verdict by
    which somebody held the GIL, and `held_beat_ms` when the watchdog had run last by then.
    """

    verdict: Verdict = Verdict.healthy
    lane: LaneKept = LaneKept()
    gil: GilKept = GilKept()
    held: Verdict | None = None
    held_beat_ms: int | None = None

    @property
    def run_id(self) -> str:
        return "" if self.is_nobodys else self._longer.run_id

    @property
    def entries(self) -> int:
        return 0 if self.is_nobodys else self._longer.entries

    @property
    def for_ms(self) -> float:
        return self.lane.still_ms if self.is_nobodys else self._longer.for_ms

    @property
    def is_nobodys(self) -> bool:
        """Whether the lane has not turned for much longer than anybody can be shown to have kept it, or the GIL."""
        shown_ms = self._longer.for_ms
        return self.lane.still_ms - shown_ms > max(NAMELESS_MS, shown_ms)

    @property
    def mute(self) -> bool:
        """Whether no thread of the worker can speak for it."""
        return self.verdict in MUTE

    @property
    def _longer(self) -> LaneKept | GilKept:
        is_gils = self.gil.for_ms > self.lane.for_ms and (self.gil.is_sure or not self.lane.for_ms)
        return self.gil if is_gils else self.lane

    def then(self, before: Sample, after: Sample, holder: tuple[str, int] | None = None) -> Stuck:
        """What is stuck after one more look. `holder` has the GIL, if that is not the lane and it is known."""
        verdict = self._verdict(before, after)
        if verdict in MOVING:
            return replace(NOT_STUCK, verdict=verdict)
        if verdict not in COUNTING:
            return replace(self, verdict=verdict)
        ms, is_same = counted_ms(before, after), self.lane.at(after) is self.lane
        lane = self.lane.at(after).stands(ms)
        if verdict is Verdict.held_elsewhere or self._has_it_still(after):
            gil = (self.gil if is_same else GilKept()).more(holder, ms)
            lane = lane.interrupted() if gil.is_sure else lane
            return Stuck(verdict=Verdict.held_elsewhere, lane=lane, gil=gil)._hold(after)
        now = Stuck(verdict=verdict, lane=lane.more(ms))
        return now._hold(after) if now.mute else now

    def _verdict(self, before: Sample, after: Sample) -> Verdict:
        """The verdict, given what was known: as long as nothing has moved since, whoever had the GIL has it.

        A short look, or one on a starved host, may not have seen the watchdog ask. But a lane that goes round has it.
        """
        verdict, held = classify(before, after), self.still_held(after)
        rests = verdict is Verdict.healthy and after.entries == 0 and _Between(before, after).lane.only_looks
        return held if held and (rests or verdict is Verdict.blocked) else verdict

    def still_held(self, look: Sample) -> Verdict | None:
        """How the GIL was held, if nothing has happened since that takes it; None: that is not so.

        That is a beat of the watchdog, and code that has come to the lane or left it.
        """
        nothing_moved = look.watch_beat_ms == self.held_beat_ms and self.lane.at(look) is self.lane
        return self.held if nothing_moved else None

    def _has_it_still(self, after: Sample) -> bool:
        """Whether nothing has moved since another thread was what kept the worker: it has the GIL, not the lane."""
        return self.still_held(after) is Verdict.held_elsewhere and self._longer is self.gil

    def _hold(self, after: Sample) -> Stuck:
        return replace(self, held=self.verdict, held_beat_ms=after.watch_beat_ms)


NOT_STUCK = Stuck()
