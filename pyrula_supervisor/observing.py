"""The parent's eye on the lanes of its workers: it samples, core.standstill judges, the reducer hears what is worth it.

A look reads a few records of a worker's black box and what the kernel says of two of its threads; the worker has no
part in that and cannot hinder it. While nothing is stuck nothing is told, and looks are as rare as ticks of a quiet
supervisor. Two things make up for that:

* Code that has kept the lane since before this look, though it was not there at the last one, is taken to have kept it
  from its own beginning on, which the box says.
* A watchdog that has been silent for a while is not judged before it has been silent for long, and then by the whole
  time since it was last seen well: so the look before the silence is kept to compare with.

Which thread keeps the GIL, if it is not the lane's, is asked of the kernel only when somebody does. One that waits with
it looks like any that waits, and one that a step has started is not in the box: then nobody can tell whose it is. The
stack of the only thread in a run's code is looked at all the same, which accuses nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyrula_runtime.blackbox import Executing
from pyrula_runtime.blackbox.layout import box_path
from pyrula_runtime.blackbox.peephole import Glance, Peephole
from pyrula_runtime.core.standstill import (
    MOVING,
    NOT_STUCK,
    LaneKept,
    Sample,
    Stuck,
    ThreadSample,
    Verdict,
    classify,
    from_beginning,
    gil_holder,
)
from pyrula_runtime.looking import Onlooker
from pyrula_supervisor import ladder
from pyrula_supervisor.events import LaneSeen
from pyrula_supervisor.lock_kept import LockKept
from pyrula_supervisor.model import Child
from pyrula_supervisor.options import Policy

# code that has the lane, or the store's lock, or a silence of the watchdog, of this length is looked at closely (ms)
_ODD_MS = 250
_SILENT_MS = 500
# from how long on a standstill, or a lock kept in one, is told to the reducer (ms)
_TOLD_MS = 500
# a look that was planned for a rung comes this much later, so that it is reached (ms)
_MARGIN_MS = 5
# told whenever it begins, though nothing follows from it
_SHOWN = frozenset({Verdict.stopped, Verdict.frozen})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Threads:
    """All threads of a worker at one moment."""

    at_ms: int
    samples: Mapping[int, ThreadSample]


class Observer:
    """Looks at all workers, whenever it is told to."""

    def __init__(self, directory: Path, policy: Policy) -> None:
        self._directory = directory
        self._policy = policy
        self._watched: dict[str, _Watched] = {}

    def look(self, children: Iterable[Child], now_ms: int, late_ms: int) -> Iterator[LaneSeen]:
        """Look at those of these that work; `late_ms` is how much later than planned."""
        before, self._watched = self._watched, {}
        for child in children:
            if child.works and child.pid:
                known = before.pop(child.incarnation, None)
                watched = known or _Watched(child.incarnation, child.pid, self._directory, self._policy)
                self._watched[child.incarnation] = watched
                if event := watched.look(now_ms, late_ms):
                    yield event
        for gone in before.values():
            gone.close()

    @property
    def sees_oddities(self) -> bool:
        """Whether something may be stuck, so that looks have to be frequent."""
        return any(each.is_odd for each in self._watched.values())

    def next_ms(self, most_ms: int) -> int:
        """In how long the next look is due, `most_ms` at most."""
        stuck = (each.stuck for each in self._watched.values() if each.stuck.for_ms)
        ahead = (ladder.next_ms(int(each.for_ms), self._policy) for each in stuck)
        return min(most_ms, *(ms + _MARGIN_MS for ms in ahead if ms is not None), most_ms)

    def close(self) -> None:
        """Look no more."""
        for each in self._watched.values():
            each.close()
        self._watched = {}


class _Watched:
    """One worker under observation."""

    def __init__(self, incarnation: str, pid: int, directory: Path, policy: Policy) -> None:
        self.stuck: Stuck = NOT_STUCK
        self.is_odd = False
        self._incarnation = incarnation
        self._policy = policy
        self._path = box_path(directory, incarnation)
        self._peephole: Peephole | None = None
        self._onlooker = Onlooker(pid)
        self._before: Sample | None = None
        self._threads: _Threads | None = None
        self._lock = LockKept()
        self._silent_ms = 0
        self._whose: Executing | None = None  # of the code that is stuck
        self._is_lanes = False  # the thread that keeps the GIL is the lane's, in code of no run
        self._unknown = False  # nobody can tell whose it is
        self._lane_thread = 0
        self._told: LaneSeen | None = None

    def close(self) -> None:
        if self._peephole is not None:
            self._peephole.close()

    def look(self, now_ms: int, late_ms: int) -> LaneSeen | None:
        """What there is to tell, if anything."""
        self._peephole = self._peephole or Peephole.open(self._path)
        if self._peephole is None:
            return None  # not there yet
        glance = self._peephole.look()
        if glance.lane is None or glance.watch_beat_ms is None:
            return None  # it was being written just now
        sample = self._sample(glance, now_ms, late_ms)
        before = self._before or sample
        if not self._is_undecided(sample):
            self._before = sample
        before = _from_last_beat(from_beginning(before, sample), sample)
        holder = self._holder(before, sample)
        self.stuck = self.stuck.then(before, sample, (holder.run_id, holder.entries) if holder else None)
        wants_ms = glance.store_lock_since_ms or 0
        has_lock = wants_ms != 0 and self._onlooker.keeps_others_out()
        self._lock = self._lock.then(before, sample, self.stuck, since_ms=wants_ms, has_it=has_lock)
        # what was known stays so while it is the same code, though this look could not tell
        known = (each for each in (holder, glance.lane, self._whose) if isinstance(each, Executing))
        self._whose = next((each for each in known if each.entries == self.stuck.entries), None)
        self._note_unknown()
        return self._tell(now_ms)

    def _sample(self, glance: Glance, now_ms: int, late_ms: int) -> Sample:
        run_id, entries, since_ms = _on_lane(glance, self.stuck.lane, now_ms)
        self._silent_ms = now_ms - glance.watch_beat_ms if glance.watch_beat_ms else 0
        silent = self._silent_ms >= _SILENT_MS
        kept = _is_old(since_ms, now_ms, _ODD_MS) or _is_old(glance.store_lock_since_ms, now_ms, _ODD_MS)
        self.is_odd = silent or kept or self._told is not None
        self._lane_thread = lane_thread = glance.lane_thread or 0
        watch_thread = glance.watch_thread or 0
        return Sample(
            at_ms=now_ms,
            late_ms=late_ms,
            watch_beat_ms=glance.watch_beat_ms,
            run_id=run_id,
            entries=entries,
            since_ms=since_ms,
            gc_since_ms=glance.gc_since_ms or 0,
            gc_total_ms=glance.gc_total_ms or 0,
            lane=self._onlooker.thread(lane_thread),
            watch=self._onlooker.thread(watch_thread),
            frozen=self.is_odd and self._onlooker.is_frozen(lane_thread),
        )

    def _is_undecided(self, sample: Sample) -> bool:
        """Whether its watchdog is silent, but not for so long that it means something."""
        silent_ms = sample.at_ms - (sample.watch_beat_ms or sample.at_ms)
        is_well = self._before is not None and self.stuck.verdict in MOVING
        return is_well and silent_ms >= _SILENT_MS and not sample.entries and sample.late_ms == 0 and silent_ms < 2_000

    def _holder(self, before: Sample, sample: Sample) -> Executing | None:
        """Whose thread keeps the GIL that the lane does not have; None: it cannot be told."""
        former = self._threads
        is_silent = _is_old(sample.watch_beat_ms, sample.at_ms, _SILENT_MS)
        self._threads = _Threads(at_ms=sample.at_ms, samples=self._onlooker.threads()) if is_silent else None
        if former is None or self._threads is None or classify(before, sample) is not Verdict.held_elsewhere:
            return None
        now = self._threads.samples
        both = {each: (former.samples[each], now[each]) for each in now.keys() & former.samples.keys()}
        thread_id = gil_holder(sample.at_ms - former.at_ms, both)
        if thread_id is not None:
            self._is_lanes = thread_id == self._lane_thread
        return next((span for span in self._spans() if span.thread == thread_id), None)

    def _spans(self) -> Sequence[Executing]:
        return (self._peephole.threads() if self._peephole else None) or ()

    def _note_unknown(self) -> None:
        """Once nobody could tell who keeps the GIL it is so until somebody can, or something moves.

        Nor can anybody if the lane stands still, and code and threads have had their turns.
        """
        verdict = self.stuck.verdict
        if verdict in MOVING or verdict is Verdict.blocked:
            self._is_lanes = self._unknown = False
        elif verdict is Verdict.held_elsewhere:
            self._unknown = True
        self._unknown = self._unknown and not (self.stuck.entries or self._is_lanes)
        self._unknown = self._unknown or self.stuck.is_nobodys

    def _tell(self, now_ms: int) -> LaneSeen | None:
        stuck_ms = int(self.stuck.for_ms)
        is_stuck, verdict = stuck_ms >= _TOLD_MS, self.stuck.verdict
        told, self._told = self._told, None
        is_silent = self._silent_ms >= self._policy.stand_in_ms and verdict not in _SHOWN
        if not (is_stuck or is_silent or self._lock.for_ms >= _TOLD_MS or verdict in _SHOWN or self.stuck.mute):
            return self._no_more(told, LaneSeen(now_ms=now_ms, incarnation=self._incarnation, verdict=verdict))
        event = LaneSeen(
            now_ms=now_ms,
            incarnation=self._incarnation,
            verdict=verdict,
            stuck_ms=stuck_ms if is_stuck else 0,
            lock_ms=self._lock.for_ms,
            lock_wall_ms=self._lock.wall_ms,
            silent_ms=self._silent_ms if is_silent else 0,
        )
        if is_stuck and (whose := self._whose) is not None:
            event = replace(
                event,
                run_id=whose.run_id,
                workflow=whose.workflow,
                step=whose.step,
                op_id=whose.op_id,
                entries=whose.entries,
                thread_id=whose.thread,
            )
        elif is_stuck and self._unknown:
            threads = {span.thread for span in self._spans()}
            event = replace(event, unknown=True, thread_id=threads.pop() if len(threads) == 1 else 0)
        self._told = event
        return None if told and _same(told, event) else event

    def _no_more(self, told: LaneSeen | None, over: LaneSeen) -> LaneSeen | None:
        """There is nothing to tell, but for that; and again, if it cannot be told from this look who can speak."""
        if told is None:
            return None
        self._told = None if ladder.says(over.verdict) else over
        return None if _same(told, over) else over


def _on_lane(glance: Glance, kept: LaneKept, now_ms: int) -> tuple[str, int, int]:
    """Whose code has the lane, under which number, and since when; 0: nobody's.

    Code of no run is not written down. But where the watchdog is well and the lane has not answered it for a while,
    there is some; the last answer stands for its number. It keeps the lane until the lane answers, however late the
    watchdog comes to ask again.
    """
    if isinstance(glance.lane, Executing):
        return glance.lane.run_id, glance.lane.entries, glance.lane.since_ms
    beat_ms = glance.lane_beat_ms or 0
    was_asked = not _is_old(glance.watch_beat_ms, now_ms, _SILENT_MS) or (kept.run_id, kept.entries) == ("", beat_ms)
    return ("", beat_ms, beat_ms) if was_asked and _is_old(beat_ms, now_ms, _SILENT_MS) else ("", 0, 0)


def _is_old(at_ms: int | None, now_ms: int, age_ms: int) -> bool:
    return bool(at_ms) and now_ms - (at_ms or 0) >= age_ms


def _from_last_beat(before: Sample, after: Sample) -> Sample:
    """The look before, as if it had been at the watchdog's last beat if nobody has the lane: a silence began then."""
    if not after.entries and after.watch_beat_ms:
        return replace(before, at_ms=min(max(before.at_ms, after.watch_beat_ms), after.at_ms))
    return before


def _same(one: LaneSeen, other: LaneSeen) -> bool:
    """Whether nothing is new but the time of the look."""
    return replace(one, now_ms=other.now_ms) == other
