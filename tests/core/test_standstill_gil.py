"""Lane and GIL, each kept by its own code: whose time adds up, and whose stands still, in series of looks."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from pyrula_runtime.core.standstill import (
    MOVING,
    NAMELESS_MS,
    NOT_STUCK,
    OTHERS_MS,
    UNSEEN_MS,
    GilKept,
    Sample,
    Stuck,
    Verdict,
    counted_ms,
    from_beginning,
)
from tests.core.samples import (
    BEFORE,
    COMPUTES,
    HELD_BY_LANE,
    HELD_ELSEWHERE,
    IDLE,
    MUTE_MS,
    NEXT,
    SPAN_MS,
    WAITS_FOR_GIL,
    WANTS_GIL,
    after,
    held_still,
    looks,
    silent,
    watched,
)


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
    stuck, counted = NOT_STUCK, 0.0
    for before, sample in pairwise(looks(*series)):
        stuck = stuck.then(before, sample, holder)
        assert stuck.lane.for_ms < UNSEEN_MS
        counted += counted_ms(before, sample)
        if counted > NAMELESS_MS + UNSEEN_MS:
            assert (stuck.run_id, stuck.entries, stuck.is_nobodys) == ("", 0, True)
            assert stuck.for_ms == pytest.approx(counted), "but the lane stands still, and that has an end"
    assert OTHERS_MS < 2 * SPAN_MS < UNSEEN_MS


IN_TURNS = [*[after()] * 4, *ASIDE]


def test_a_lane_stands_still_for_nobody_until_it_goes_round() -> None:
    series = looks(*IN_TURNS * 9, after(**NEXT), after(**NEXT))
    stuck = watched(series[:-2])
    assert (stuck.for_ms > 50_000, stuck.is_nobodys) == (True, True)
    moved = stuck.then(series[-3], series[-2])
    assert (moved.for_ms, moved.is_nobodys) == (0, False)
    assert moved.then(series[-2], series[-1]).for_ms == SPAN_MS


def test_a_stop_does_not_count_for_a_lane_that_stands_still_for_nobody() -> None:
    stopped = after(lane=("T", 0, 0, 0), watch=("T", 0, 0, 0), **MUTE_MS)
    before, then = watched(looks(*IN_TURNS * 9)), watched(looks(*IN_TURNS * 9, *[stopped] * 90))
    assert (then.for_ms, then.is_nobodys) == (before.for_ms, True)


def test_code_that_was_seen_to_keep_the_lane_is_named_until_it_is_not_for_as_long_again() -> None:
    stuck, named = watched(looks(*[after()] * 30)), 0
    while stuck.entries:
        for before, sample in pairwise(looks(*IN_TURNS)):
            stuck = stuck.then(before, sample)
        named += len(IN_TURNS)
    assert 34 < named <= 34 + 2 * len(IN_TURNS)
    stuck = watched(looks(*[after()] * 30, *IN_TURNS * 9, *[after()] * 70))
    assert (stuck.run_id, stuck.entries, stuck.is_nobodys) == ("R", 7, False), "no cover for whoever keeps it then"


@pytest.mark.parametrize("holder", BRIEFLY)
def test_an_idle_lane_does_not_stand_still(holder: tuple[str, int] | None) -> None:
    stuck = watched(looks(*[HELD_ELSEWHERE, HELD_ELSEWHERE, after(**IDLE, beat_age_ms=0)] * 90, HELD_ELSEWHERE), holder)
    assert (stuck.for_ms, stuck.is_nobodys) == (995, False)
    stuck = watched(silent(*[HELD_ELSEWHERE] * 90), holder)
    assert (stuck.entries, stuck.is_nobodys) == (holder[1] if holder else 0, False)


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
