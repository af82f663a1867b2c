"""For how long the store's lock counts against whom: looks at workers that have it, a quarter of a second apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pyrula_runtime.core.standstill import NOT_STUCK, Sample, ThreadSample, Verdict
from pyrula_supervisor.ladder import LOCK_MS, STARVED_FACTOR
from pyrula_supervisor.lock_kept import LockKept
from tests.core.samples import Use, used

T, SPAN_MS = 10_000, 250
FIRST = Sample(
    at_ms=T,
    watch_beat_ms=T - 1_000,
    run_id="R",
    entries=7,
    lane=ThreadSample(state="R"),
    watch=ThreadSample(state="R"),
)

# what lane and watchdog do between two looks
SPINS: Use = ("R", 240, 5, 10)
ASKS: Use = ("S", 1.5, 2, 220)
HAS_NO_CPU: Use = ("R", 0, 250, 0)
SLEEPS: Use = ("S", 0, 0, 1)
STOPPED: Use = ("T", 0, 0, 0)

HELD, STARVED, SLOW, STANDS = (SPINS, ASKS), (HAS_NO_CPU, HAS_NO_CPU), (SPINS, SLEEPS), (STOPPED, STOPPED)


class Eye:
    """Looks at a worker that has had the lock since the first look."""

    def __init__(self) -> None:
        self.lock = LockKept()
        self.stuck = NOT_STUCK
        self.before = FIRST
        self.has_it = True
        self.since_ms = T

    def look(self, *uses: tuple[Use, Use], beats: bool = False, late_ms: int = 0) -> LockKept:
        """As long as these do that, one look each; the watchdog has run in each, or in none."""
        for lane, watch in uses:
            before = self.before
            at_ms = before.at_ms + SPAN_MS + late_ms
            after = replace(
                before,
                at_ms=at_ms,
                late_ms=late_ms,
                watch_beat_ms=at_ms - 10 if beats else before.watch_beat_ms,
                lane=used(before.lane, *lane),
                watch=used(before.watch, *watch),
            )
            self.stuck = self.stuck.then(before, after)
            self.lock = self.lock.then(before, after, self.stuck, since_ms=self.since_ms, has_it=self.has_it)
            self.before = after
        return self.lock


@pytest.mark.parametrize(("does", "verdict"), [(HELD, Verdict.held_on_cpu), (STANDS, Verdict.stopped)])
def test_a_standstill_with_the_lock_counts(does: tuple[Use, Use], verdict: Verdict) -> None:
    eye = Eye()
    lock = eye.look(*[does] * 8)
    assert eye.stuck.verdict is verdict
    assert lock.wall_ms == 2_000
    assert lock.for_ms == pytest.approx(2_000, abs=50)


def test_nobody_escapes_with_lock_and_gil_because_he_is_starved() -> None:
    """Hogs leave the watchdog few looks at which it asks for the GIL."""
    eye = Eye()
    looks = 0
    while eye.lock.for_ms < LOCK_MS:
        eye.look(HELD if looks % 20 == 0 else STARVED)
        looks += 1
    assert looks * SPAN_MS <= STARVED_FACTOR * LOCK_MS
    assert eye.lock.wall_ms == looks * SPAN_MS, "what people are told"


def test_whoever_is_starved_and_was_not_seen_to_have_the_gil_is_only_slow() -> None:
    eye = Eye()
    assert eye.look(*[STARVED] * 100).for_ms == 0
    assert eye.stuck.verdict is Verdict.starved


@pytest.mark.parametrize("stops", [[STANDS], [STANDS] * 3])
def test_a_stop_between_does_not_let_off_who_has_the_gil(stops: list[tuple[Use, Use]]) -> None:
    eye = Eye()
    eye.look(HELD, HELD, *stops)
    while eye.lock.for_ms < LOCK_MS:
        former = eye.lock
        eye.look(STARVED)
        assert eye.lock.for_ms > former.for_ms
    assert eye.stuck.verdict is Verdict.starved


def test_a_slow_writer_keeps_the_lock_by_right() -> None:
    assert Eye().look(*[SLOW] * 40, beats=True).for_ms == 0


def test_once_the_watchdog_has_run_starvation_is_only_that_again() -> None:
    eye = Eye()
    assert eye.look(HELD, STARVED).wall_ms == 500
    eye.look(STARVED, beats=True)
    assert eye.look(*[STARVED] * 100).wall_ms == 0


def test_what_was_before_the_worker_moved_is_not_held_against_it() -> None:
    """Twice it had the GIL for less than is too long, and let it go between."""
    eye = Eye()
    assert LOCK_MS > eye.look(*[HELD] * 7).for_ms > 1_700
    eye.look(STARVED, beats=True)
    eye.look(*[STARVED] * 100)
    assert eye.look(HELD, HELD).for_ms < 600


@pytest.mark.parametrize("next_code", [{"run_id": "R2"}, {"entries": 8}, {"run_id": "", "entries": 0}])
@pytest.mark.parametrize("does", [HELD, STANDS])
def test_other_code_on_the_lane_begins_anew(does: tuple[Use, Use], next_code: dict[str, Any]) -> None:
    """The watchdog has not run since, but the lane has."""
    eye = Eye()
    assert eye.look(*[does] * 7).wall_ms == 7 * SPAN_MS
    eye.before = replace(eye.before, **next_code)
    assert eye.look(does, does).wall_ms == 2 * SPAN_MS


def test_a_number_that_the_idle_lane_of_a_stopped_worker_seems_to_get_is_no_sign_of_life() -> None:
    eye = Eye()
    eye.before = replace(FIRST, run_id="", entries=0)
    assert eye.look(*[STANDS] * 4).wall_ms == 4 * SPAN_MS
    eye.before = replace(eye.before, entries=T - 1_000)
    assert eye.look(STANDS).wall_ms == 5 * SPAN_MS


def test_a_worker_that_moves_on_begins_anew() -> None:
    eye = Eye()
    assert eye.look(HELD, HELD).wall_ms == 500
    assert eye.look(SLOW, beats=True).wall_ms == 0
    assert eye.look(STANDS).wall_ms == SPAN_MS


def test_the_next_tenure_begins_anew() -> None:
    eye = Eye()
    assert eye.look(STANDS, STANDS).wall_ms == 500
    eye.since_ms = eye.before.at_ms + 50
    assert eye.look(STANDS).wall_ms == 200


def test_whoever_only_wants_the_lock_keeps_nobody_out() -> None:
    eye = Eye()
    eye.has_it = False
    assert eye.look(*[HELD] * 8).wall_ms == 0
    eye.has_it = True
    assert eye.look(HELD).wall_ms == SPAN_MS
    eye.since_ms = 0
    assert (eye.look(HELD).wall_ms, eye.lock.since_ms) == (0, 0)


def test_time_before_the_first_look_was_seen_by_nobody() -> None:
    """By its box the worker may have wanted the lock long before it had it."""
    eye = Eye()
    eye.since_ms = T - 60_000
    assert eye.look(STANDS).wall_ms == SPAN_MS


def test_what_the_observer_missed_does_not_count() -> None:
    eye = Eye()
    eye.look(STANDS)
    assert eye.look(STANDS, late_ms=250).wall_ms == 2 * SPAN_MS
    assert eye.look(STANDS, late_ms=60_000).wall_ms == 2 * SPAN_MS, "who was stopped it does not know"
