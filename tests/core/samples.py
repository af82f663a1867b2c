"""Looks at a worker, as they were recorded, and series of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from pyrula_runtime.core.standstill import NOT_STUCK, Sample, Stuck, ThreadSample

# what a thread does between two looks: its state at the end, CPU, wait for one (ms), slices
Use = tuple[str, float, float, int]

SPAN_MS = 1_000
BEFORE = Sample(
    at_ms=10_000,
    watch_beat_ms=9_900,
    run_id="R",
    entries=7,
    since_ms=9_000,
    gc_total_ms=50,
    lane=ThreadSample(state="S", cpu_ms=300, wait_ms=20, slices=90),
    watch=ThreadSample(state="S", cpu_ms=10, wait_ms=5, slices=400),
)


def used(before: ThreadSample, state: str, cpu_ms: float, wait_ms: float, slices: int) -> ThreadSample:
    return ThreadSample(
        state=state,
        cpu_ms=before.cpu_ms + cpu_ms,
        wait_ms=before.wait_ms + wait_ms,
        slices=before.slices + slices,
    )


def after(
    lane: Use = ("S", 0, 0, 0),
    watch: Use = ("S", 0.1, 1, 4),
    *,
    beat_age_ms: int = 100,
    **fields: Any,
) -> Sample:
    """The next sample."""
    at_ms = BEFORE.at_ms + SPAN_MS
    sample = replace(
        BEFORE,
        at_ms=at_ms,
        watch_beat_ms=at_ms - beat_age_ms,
        lane=used(BEFORE.lane, *lane),
        watch=used(BEFORE.watch, *watch),
    )
    return replace(sample, **fields)


IDLE: dict[str, Any] = {"run_id": "", "entries": 0}
NEXT: dict[str, Any] = {"entries": 8, "since_ms": 10_900}
WANTS_GIL = ("S", 7, 5, 880)
COMPUTES = ("R", 589, 427, 60)
MUTE_MS: dict[str, Any] = {"beat_age_ms": 1_100}

# another thread has the GIL, and the lane nothing to do; and so that the lane waits for it; and the lane has it
HELD_ELSEWHERE = after(watch=WANTS_GIL, **IDLE, **MUTE_MS)
WAITS_FOR_GIL = after(lane=WANTS_GIL, watch=WANTS_GIL, **MUTE_MS)
HELD_BY_LANE = after(lane=COMPUTES, watch=WANTS_GIL, **MUTE_MS)


def looks(*changes: Sample) -> list[Sample]:
    """A sample every second: each given one at its turn, its sums added up."""
    series = [BEFORE]
    for change in changes:
        last = series[-1]
        series.append(
            replace(
                change,
                at_ms=last.at_ms + SPAN_MS,
                watch_beat_ms=last.at_ms + SPAN_MS - (change.at_ms - (change.watch_beat_ms or 0)),
                lane=used(last.lane, change.lane.state, *_used(change.lane, BEFORE.lane)),
                watch=used(last.watch, change.watch.state, *_used(change.watch, BEFORE.watch)),
            )
        )
    return series


def _used(later: ThreadSample, earlier: ThreadSample) -> tuple[float, float, int]:
    return later.cpu_ms - earlier.cpu_ms, later.wait_ms - earlier.wait_ms, later.slices - earlier.slices


def watched(series: list[Sample], holder: tuple[str, int] | None = None) -> Stuck:
    """What is stuck after a series; this holder is known whenever the GIL is held elsewhere."""
    stuck = NOT_STUCK
    for before, sample in pairwise(series):
        stuck = stuck.then(before, sample, holder)
    return stuck


def held_still(stuck: Stuck) -> dict[str, Any]:
    """The watchdog has not run since."""
    return {"watch_beat_ms": stuck.held_beat_ms}


def silent(*changes: Sample) -> list[Sample]:
    """A sample every second, and none of the watchdog running."""
    return [replace(sample, watch_beat_ms=BEFORE.watch_beat_ms) for sample in looks(*changes)]
