"""Every verdict from samples as they were recorded, and the time that counts against whoever stands still."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyrula_runtime.core.standstill import (
    COUNTING,
    MOVING,
    MUTE,
    NOT_STUCK,
    LaneKept,
    Sample,
    Stuck,
    ThreadSample,
    Verdict,
    classify,
    counted_ms,
    from_beginning,
    gil_holder,
)
from tests.core.samples import (
    BEFORE,
    COMPUTES,
    IDLE,
    MUTE_MS,
    NEXT,
    SPAN_MS,
    WANTS_GIL,
    after,
    looks,
    used,
    watched,
)

RECORDED = {
    "idle": (after(**IDLE), Verdict.healthy),
    "idle after code": (after(**IDLE, lane=("S", 40, 3, 30)), Verdict.healthy),
    "one step after another": (after(**NEXT, lane=("S", 200, 3, 300)), Verdict.healthy),
    "many steps that compute": (after(**NEXT, lane=("R", 900, 90, 70)), Verdict.busy),
    "a record half written": (after(entries=None, lane=("R", 900, 90, 70)), Verdict.healthy),
    "the next run's code with the same number": (after(run_id="R2"), Verdict.healthy),
    "time.sleep": (after(), Verdict.blocked),
    "a loop in Python": (after(lane=("R", 808, 194, 60)), Verdict.blocked),
    "a loop in Python that shares its CPU": (after(lane=("R", 200, 700, 60)), Verdict.blocked),
    "a regular expression": (after(lane=COMPUTES, watch=WANTS_GIL, **MUTE_MS), Verdict.held_on_cpu),
    "a regular expression beside twelve hogs": (
        after(lane=("R", 148, 861, 72), watch=("S", 5.8, 130, 826), **MUTE_MS),
        Verdict.held_on_cpu,
    ),
    "a regular expression whose watchdog waits for a CPU as well": (
        after(lane=("R", 120, 860, 40), watch=("R", 2, 800, 12), **MUTE_MS),
        Verdict.held_on_cpu,
    ),
    "a watchdog that got hardly a CPU beside a loop": (
        after(lane=("R", 120, 860, 40), watch=("R", 0.1, 950, 2), **MUTE_MS),
        Verdict.blocked,
    ),
    "a regular expression, short so far": (after(lane=COMPUTES, watch=WANTS_GIL, beat_age_ms=900), Verdict.blocked),
    "a regular expression whose wait for a CPU is not added up yet": (
        after(lane=("R", 300, 20, 60), watch=WANTS_GIL, **MUTE_MS),
        Verdict.held_waiting,
    ),
    "a C call that sleeps with the GIL": (after(watch=WANTS_GIL, **MUTE_MS), Verdict.held_waiting),
    "a thread with the GIL, the lane idle": (after(watch=WANTS_GIL, **IDLE, **MUTE_MS), Verdict.held_elsewhere),
    "a thread with the GIL, the lane waiting for it": (
        after(lane=WANTS_GIL, watch=WANTS_GIL, **MUTE_MS),
        Verdict.held_elsewhere,
    ),
    "a watchdog that waits for the log": (after(**IDLE, **MUTE_MS), Verdict.healthy),
    "a watchdog that has died": (after(**IDLE, **MUTE_MS, watch=("", 0, 0, 9_999)), Verdict.healthy),
    "no watchdog yet": (after(watch=WANTS_GIL, watch_beat_ms=0), Verdict.blocked),
    "an unknown beat": (after(watch=WANTS_GIL, watch_beat_ms=None), Verdict.blocked),
    "SIGSTOP": (after(lane=("T", 0, 0, 0), watch=("T", 0, 0, 0), **MUTE_MS), Verdict.stopped),
    "a debugger": (after(lane=("t", 0, 0, 0), **MUTE_MS), Verdict.stopped),
    "a stopped idle lane": (after(watch=("T", 0, 0, 0), **IDLE, **MUTE_MS), Verdict.stopped),
    "a freezer": (after(frozen=True, **MUTE_MS), Verdict.frozen),
    "six hogs on its core": (after(lane=("R", 6, 806, 9), **MUTE_MS), Verdict.starved),
    "hogs, the lane asleep": (after(watch=("R", 6, 806, 9), **MUTE_MS), Verdict.starved),
    "24 hogs, a regular expression": (
        after(lane=("R", 62, 940, 66), watch=("R", 0.9, 930, 68), **MUTE_MS),
        Verdict.held_on_cpu,
    ),
    "24 hogs, a regular expression, with waits from before": (
        after(lane=("R", 62, 1_030, 66), watch=("R", 0.9, 1_050, 68), **MUTE_MS),
        Verdict.held_on_cpu,
    ),
    "24 hogs, a C call that sleeps with the GIL": (after(watch=("S", 4.5, 530, 400), **MUTE_MS), Verdict.held_waiting),
    "24 hogs, a thread with the GIL, the lane waiting for it": (
        after(lane=("R", 0.7, 980, 64), watch=("R", 0.6, 970, 62), **MUTE_MS),
        Verdict.held_elsewhere,
    ),
    "24 hogs, a loop in Python": (after(lane=("R", 61, 950, 40), watch=("S", 0.6, 230, 34)), Verdict.blocked),
    "24 hogs, time.sleep": (after(watch=("S", 0.6, 30, 11)), Verdict.blocked),
    "a hundredth of a CPU": (after(lane=("R", 10, 980, 4), watch=("R", 0.5, 960, 5), **MUTE_MS), Verdict.starved),
    "a collection under way": (after(gc_since_ms=10_100, lane=("R", 900, 9, 9)), Verdict.collecting),
    "a collection that is over": (after(gc_total_ms=650, lane=("R", 900, 9, 9)), Verdict.collecting),
    "some collections": (after(gc_total_ms=150), Verdict.blocked),
    "an observer that was away": (after(late_ms=60_000), Verdict.observer_late),
    "nothing known of threads": (
        replace(after(**MUTE_MS), lane=ThreadSample(), watch=ThreadSample()),
        Verdict.blocked,
    ),
}


@pytest.mark.parametrize("case", RECORDED)
def test_what_was_recorded_is_what_it_was(case: str) -> None:
    sample, verdict = RECORDED[case]
    assert classify(BEFORE, sample) is verdict


def test_a_wait_for_a_cpu_that_is_not_over_is_seen_by_the_state_alone() -> None:
    wants = replace(BEFORE, lane=replace(BEFORE.lane, state="R"))
    assert classify(wants, after(lane=("R", 3, 0, 1))) is Verdict.starved
    assert classify(wants, after(lane=("R", 808, 0, 1))) is Verdict.blocked
    assert classify(wants, wants) is Verdict.blocked


def test_every_verdict_is_in_the_table() -> None:
    assert {verdict for _, verdict in RECORDED.values()} == set(Verdict)
    assert not COUNTING & MOVING
    assert MUTE < COUNTING


def test_two_looks_at_one_moment_accuse_nobody_of_computing() -> None:
    assert classify(BEFORE, BEFORE) is Verdict.blocked
    assert counted_ms(BEFORE, BEFORE) == 0


@pytest.mark.parametrize(
    ("sample", "counted"),
    [
        (after(), 1_000),
        (after(lane=("R", 808, 194, 60)), 806),
        (after(gc_total_ms=150), 900),
        (after(gc_since_ms=10_900), 900),
        (after(late_ms=100), 900),
        (after(late_ms=5_000), 0),
        (replace(after(), lane=ThreadSample()), 1_000),
    ],
)
def test_only_time_in_which_it_could_run_counts(sample: Sample, counted: float) -> None:
    assert counted_ms(BEFORE, sample) == counted


def test_time_adds_up_while_the_same_code_has_the_lane() -> None:
    stuck = watched(looks(after(), after(), after()))
    assert (stuck.run_id, stuck.entries, stuck.for_ms, stuck.verdict) == ("R", 7, 3_000, Verdict.blocked)


@pytest.mark.parametrize(("since_ms", "counted"), [(10_400, 600), (9_000, 0), (11_000, 0)])
def test_code_that_began_between_two_looks_counts_from_its_beginning(since_ms: int, counted: int) -> None:
    later = after(entries=8, since_ms=since_ms)
    assert NOT_STUCK.then(from_beginning(BEFORE, later), later).for_ms == counted


def test_code_that_was_there_before_is_looked_at_as_it_was() -> None:
    assert from_beginning(BEFORE, after()) is BEFORE
    assert from_beginning(BEFORE, after(**IDLE)) is BEFORE


def test_a_pause_neither_counts_nor_frees() -> None:
    stopped = after(lane=("T", 0, 0, 0), watch=("T", 0, 0, 0), **MUTE_MS)
    paused = watched(looks(after(), stopped, stopped))
    assert (paused.for_ms, paused.verdict) == (1_000, Verdict.stopped)
    # the span in which it goes on begins with a stop
    assert watched(looks(after(), stopped, after(), after())).for_ms == 2_000


def test_progress_frees() -> None:
    freed = watched(looks(after(), after(**NEXT, lane=("R", 900, 90, 70))))
    assert freed == Stuck(verdict=Verdict.busy)
    assert watched(looks(after(), after(**IDLE))) == NOT_STUCK


def test_the_next_code_starts_from_nothing() -> None:
    stuck = Stuck(lane=LaneKept(run_id="R0", entries=3, since_ms=60_000))
    assert stuck.then(BEFORE, after()) == watched(looks(after()))
    assert stuck.then(BEFORE, after()).for_ms == 1_000


def test_the_time_goes_on_when_the_gil_is_held() -> None:
    held = after(lane=COMPUTES, watch=WANTS_GIL, **MUTE_MS)
    stuck = watched(looks(after(), held))
    assert (stuck.run_id, stuck.for_ms, stuck.mute) == ("R", 1_573, True)
    assert not watched(looks(after())).mute


SLEEPS, WAITS, SPINS = ((BEFORE.lane, used(BEFORE.lane, *use)) for use in (("S", 0, 0, 0), WANTS_GIL, COMPUTES))


@pytest.mark.parametrize(
    ("threads", "holder"),
    [
        ({1: WAITS, 2: SPINS, 3: SLEEPS}, 2),
        ({1: WAITS, 2: SLEEPS, 3: SLEEPS}, None),
        ({1: SPINS, 2: SPINS}, None),
        ({}, None),
    ],
)
def test_the_thread_that_computes_has_the_gil_if_it_is_one_alone(
    threads: dict[int, tuple[ThreadSample, ThreadSample]], holder: int | None
) -> None:
    assert gil_holder(SPAN_MS, threads) == holder
