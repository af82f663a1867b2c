"""Every verdict from samples as they were recorded, and the time that counts against whoever stands still."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from pyrula_runtime.core.standstill import (
    COUNTING,
    MOVING,
    MUTE,
    NOT_STUCK,
    OTHERS_MS,
    UNSEEN_MS,
    GilKept,
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
    lane: tuple[str, float, float, int] = ("S", 0, 0, 0),
    watch: tuple[str, float, float, int] = ("S", 0.1, 1, 4),
    *,
    beat_age_ms: int = 100,
    **fields: Any,
) -> Sample:
    """The next sample; of a thread its state and how much it used meanwhile."""
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
    stuck = NOT_STUCK
    for before, sample in pairwise(series):
        stuck = stuck.then(before, sample, holder)
    return stuck


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


HELD_ELSEWHERE = after(watch=WANTS_GIL, **IDLE, **MUTE_MS)


def test_a_thread_that_keeps_the_gil_is_named_by_its_own_code() -> None:
    stuck = watched(looks(HELD_ELSEWHERE, HELD_ELSEWHERE), holder=("T", 9))
    assert (stuck.run_id, stuck.entries, stuck.for_ms, stuck.mute) == ("T", 9, 1_990, True)


def test_time_of_an_unknown_holder_counts_against_nobody_else() -> None:
    nobody = watched(looks(HELD_ELSEWHERE, HELD_ELSEWHERE))
    assert (nobody.run_id, nobody.entries, nobody.for_ms, nobody.mute) == ("", 0, 1_990, True)
    first, second = looks(HELD_ELSEWHERE)
    assert nobody.then(first, second, ("T", 9)).for_ms == 995
    later = Stuck(gil=GilKept(run_id="T", entries=9, for_ms=5_000)).then(first, second)
    assert (later.run_id, later.entries, later.for_ms, later.mute) == ("T", 9, 5_000, True)


WAITS_FOR_GIL = after(lane=WANTS_GIL, watch=WANTS_GIL, **MUTE_MS)


@pytest.mark.parametrize("later", [HELD_ELSEWHERE, WAITS_FOR_GIL, after(lane=COMPUTES, watch=WANTS_GIL, **MUTE_MS)])
@pytest.mark.parametrize("known", [("T", 9), ("", 0)])
def test_a_gil_is_not_held_for_ever_because_its_holder_was_known_once(later: Sample, known: tuple[str, int]) -> None:
    """One that has computed may wait with the GIL then; or the lane may have it, and nobody saw it change hands."""
    first = HELD_ELSEWHERE if later is HELD_ELSEWHERE else WAITS_FOR_GIL
    looked = silent(first, *[later] * 200)
    stuck = NOT_STUCK.then(looked[0], looked[1], known if known[1] else None)
    for before, sample in pairwise(looked[1:10]):
        stuck = stuck.then(before, sample)
    assert (stuck.run_id, stuck.entries, stuck.mute) == (*known, True), "it may have it still"
    for before, sample in pairwise(looked[9:]):
        stuck = stuck.then(before, sample)
    assert (stuck.run_id, stuck.entries, stuck.mute) == ("", 0, True), "nobody is accused"
    assert stuck.for_ms >= 90_000


def held_still(stuck: Stuck) -> dict[str, Any]:
    """The watchdog has not run since."""
    return {"watch_beat_ms": stuck.held_beat_ms}


def silent(*changes: Sample) -> list[Sample]:
    """A sample every second, and none of the watchdog running."""
    return [replace(sample, watch_beat_ms=BEFORE.watch_beat_ms) for sample in looks(*changes)]


def test_code_that_waits_for_the_gil_does_not_hide_that_somebody_keeps_it() -> None:
    stuck = watched(looks(after(), WAITS_FOR_GIL, WAITS_FOR_GIL))
    assert (stuck.run_id, stuck.entries, stuck.for_ms) == ("", 0, 1_990), "its own time on the lane is nobody's"
    assert stuck.verdict is Verdict.held_elsewhere


def test_a_watchdog_that_asks_for_the_gil_less_often_has_still_not_got_it() -> None:
    held = watched(looks(WAITS_FOR_GIL, WAITS_FOR_GIL), holder=("T", 9))
    idle = watched(looks(HELD_ELSEWHERE, HELD_ELSEWHERE), holder=("T", 9))
    for known, asked in ((held, after()), (held, after(lane=COMPUTES, watch=WANTS_GIL)), (idle, after(**IDLE))):
        still = known.then(BEFORE, replace(asked, **held_still(known)))
        assert (still.run_id, still.entries, still.for_ms, still.mute) == ("T", 9, known.for_ms, True)
    moved = held.then(BEFORE, after(beat_age_ms=0))
    assert (moved.run_id, moved.entries, moved.for_ms) == ("R", 7, 1_000)
    assert idle.then(BEFORE, replace(after(**IDLE, lane=("R", 80, 0, 9)), **held_still(idle))).verdict in MOVING


HELD_BY_LANE = after(lane=COMPUTES, watch=WANTS_GIL, **MUTE_MS)


def test_who_holds_the_gil_holds_it_until_the_watchdog_has_run() -> None:
    """Where there are hogs, or looks are short, not every look sees it ask."""
    seldom = after(lane=COMPUTES, watch=("R", 0.1, 950, 1))
    starved = after(lane=("R", 0, 1_000, 0), watch=("R", 0, 1_000, 0))
    held = watched(silent(HELD_BY_LANE, seldom, starved, seldom))
    assert (held.run_id, held.verdict, held.for_ms) == ("R", Verdict.held_on_cpu, 3 * 573)
    assert held.then(BEFORE, after(lane=COMPUTES, beat_age_ms=0)).verdict is Verdict.blocked


@pytest.mark.parametrize(("times", "named", "for_ms"), [(1, "R", 2 * 573), (2, "", 1_990 + 573)])
def test_a_block_is_not_over_because_its_code_waits_for_the_gil(times: int, named: str, for_ms: float) -> None:
    """One such look may be wrong; but a thread that nobody can name is not to hide behind a known block for ever."""
    stuck = watched(silent(HELD_BY_LANE, *[WAITS_FOR_GIL] * times, HELD_BY_LANE))
    assert (stuck.run_id, stuck.for_ms, stuck.mute) == (named, for_ms, True)


BRIEFLY = [("T", 9), None]
ASIDE = [WAITS_FOR_GIL] * 2  # longer than OTHERS_MS


@pytest.mark.parametrize("holder", BRIEFLY)
def test_a_block_keeps_its_own_count_beside_threads_that_have_the_gil_for_a_while(
    holder: tuple[str, int] | None,
) -> None:
    """Code that sleeps in a loop has the GIL free, and waits for it when another has it."""
    stuck, for_ms = NOT_STUCK, 0.0
    for before, sample in pairwise(looks(*([after()] * 10 + ASIDE) * 9, *[after()] * 5)):
        stuck = stuck.then(before, sample, holder)
        assert stuck.for_ms >= for_ms, "nothing goes on meanwhile"
        for_ms = stuck.for_ms
        assert (stuck.run_id, stuck.entries) == ("R", 7)
    assert for_ms == 95_000


@pytest.mark.parametrize("holder", BRIEFLY)
def test_a_thread_that_has_the_gil_is_what_keeps_a_blocked_lane_once_it_has_done_so_for_longer(
    holder: tuple[str, int] | None,
) -> None:
    stuck = watched(looks(*[after()] * 10, *[WAITS_FOR_GIL] * 10), holder)
    assert (stuck.run_id, stuck.for_ms, stuck.verdict) == ("R", 10_000, Verdict.held_elsewhere)
    stuck = watched(looks(*[after()] * 10, *[WAITS_FOR_GIL] * 11), holder)
    assert (stuck.run_id, stuck.entries, stuck.for_ms) == (*(holder or ("", 0)), 11 * 995)


@pytest.mark.parametrize("holder", BRIEFLY)
@pytest.mark.parametrize("seed", range(5))
def test_code_that_waits_for_the_gil_again_and_again_has_not_blocked_the_lane(
    seed: int, holder: tuple[str, int] | None
) -> None:
    """Some of the times for which another has it are too short to be seen, or are seen at their end."""
    chance = random.Random(seed)
    series = [sample for _ in range(200) for sample in [after()] * chance.randint(1, 4) + ASIDE]
    stuck = NOT_STUCK
    for before, sample in pairwise(looks(*series)):
        stuck = stuck.then(before, sample, holder)
        assert stuck.lane.for_ms < UNSEEN_MS
    assert OTHERS_MS < 2 * SPAN_MS < UNSEEN_MS


NEXT_HOLDS, NEXT_SLEEPS, NEXT_WAITS = (
    after(run_id="R2", entries=8, lane=lane, watch=WANTS_GIL, **MUTE_MS)
    for lane in (COMPUTES, ("S", 0, 0, 0), WANTS_GIL)
)


@pytest.mark.parametrize("earlier", [[HELD_BY_LANE], [HELD_BY_LANE, WAITS_FOR_GIL], [WAITS_FOR_GIL] * 60])
@pytest.mark.parametrize(("later", "for_ms"), [(NEXT_HOLDS, 573 + 300), (NEXT_SLEEPS, 995 + 300)])
@pytest.mark.parametrize("holder", BRIEFLY)
def test_code_that_has_come_to_the_lane_since_has_had_the_gil(
    earlier: list[Sample], later: Sample, for_ms: float, holder: tuple[str, int] | None
) -> None:
    """The watchdog has not run since; but whoever had the GIL, the lane's former code or another thread, let it go."""
    series = silent(*earlier, later, later)
    begun_ms = series[-2].at_ms - 305
    stuck = NOT_STUCK
    for before, sample in pairwise([*series[:-2], *(replace(each, since_ms=begun_ms) for each in series[-2:])]):
        stuck = stuck.then(from_beginning(before, sample), sample, holder)
    assert (stuck.run_id, stuck.entries) == ("R2", 8)
    assert stuck.for_ms == pytest.approx(for_ms, abs=310)
    assert stuck.mute


@pytest.mark.parametrize("holder", BRIEFLY)
def test_a_lane_that_has_moved_frees_whoever_had_the_gil_before(holder: tuple[str, int] | None) -> None:
    held = watched(silent(*[WAITS_FOR_GIL] * 60), holder)
    assert (held.for_ms, held.verdict) == (60 * 995, Verdict.held_elsewhere)
    assert held.then(BEFORE, replace(after(**IDLE), **held_still(held))) == NOT_STUCK
    first, second = silent(NEXT_WAITS)
    again = held.then(first, second, holder)
    assert (again.entries, again.for_ms) == (holder[1] if holder else 0, 995)


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
