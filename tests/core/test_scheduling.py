"""What becomes of a schedule's times, and who may change a schedule."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrula_runtime.core.calendar import Timing
from pyrula_runtime.core.cron import Cron
from pyrula_runtime.core.scheduling import (
    Declaration,
    Overlap,
    ScheduleState,
    Witness,
    decide,
    declare,
    pause,
    resume,
    times_between,
)
from pyrula_runtime.scheduling.zones import zone_named
from tests.core.patience import patient

EVERY_MS = 10_000
TIMING = Timing(every_ms=EVERY_MS, zone=zone_named("UTC"))
DECLARED = Declaration(
    workflow="report",
    version="1",
    cron=None,
    every_ms=EVERY_MS,
    timezone="UTC",
    overlap=Overlap.skip,
    catch_up_ms=60_000,
    jitter_ms=0,
    takes_time=False,
)
STATE = ScheduleState(schedule_id="report", declared=DECLARED, by="w-1", after_ms=100_000)


def state(
    overlap: Overlap = Overlap.allow, buffered_ms: int | None = None, *, catch_up_ms: int = 60_000, jitter_ms: int = 0
) -> ScheduleState:
    declared = replace(DECLARED, overlap=overlap, catch_up_ms=catch_up_ms, jitter_ms=jitter_ms)
    return replace(STATE, declared=declared, buffered_ms=buffered_ms)


# times


def test_nothing_comes_before_its_time() -> None:
    decision = decide(STATE, TIMING, 109_999, is_busy=False)
    assert (decision.state, decision.begins, decision.next_ms) == (STATE, (), 110_000)
    assert STATE.next_due_ms(TIMING) == 110_000


def test_a_time_that_has_come_is_passed_on_with_its_run() -> None:
    decision = decide(STATE, TIMING, 110_000, is_busy=False)
    assert (decision.begins, decision.next_ms, decision.missed) == ((110_000,), 120_000, False)
    assert decision.state == replace(STATE, after_ms=110_000, fired_ms=110_000)
    again = decide(decision.state, TIMING, 110_000, is_busy=False)
    assert (again.state, again.begins) == (decision.state, ())


@pytest.mark.parametrize(
    ("overlap", "is_busy", "expected"),
    [
        (Overlap.allow, False, ((110_000, 120_000, 130_000), None, 0, False)),
        (Overlap.allow, True, ((110_000, 120_000, 130_000), None, 0, False)),
        (Overlap.skip, False, ((130_000,), None, 2, False)),
        (Overlap.skip, True, ((), None, 3, False)),
        (Overlap.buffer_one, False, ((110_000,), 120_000, 1, False)),
        (Overlap.buffer_one, True, ((), 110_000, 2, False)),
        (Overlap.cancel_other, False, ((130_000,), None, 2, False)),
        (Overlap.cancel_other, True, ((130_000,), None, 2, True)),
    ],
)
def test_three_times_at_once(overlap: Overlap, is_busy: object, expected: object) -> None:
    decision = decide(state(overlap), TIMING, 135_000, is_busy=bool(is_busy))
    told = (decision.begins, decision.state.buffered_ms, decision.state.passed_over, decision.cancels_others)
    assert told == expected
    assert (decision.state.after_ms, decision.next_ms) == (130_000, 140_000)


def test_one_that_was_buffered_begins_when_the_other_has_ended() -> None:
    buffered = state(Overlap.buffer_one, buffered_ms=90_000)
    assert decide(buffered, TIMING, 105_000, is_busy=True).state == buffered
    begun = decide(buffered, TIMING, 105_000, is_busy=False)
    assert (begun.begins, begun.state.buffered_ms, begun.state.passed_over) == ((90_000,), None, 0)
    # the next time comes in the same moment: it waits in its place
    both = decide(buffered, TIMING, 110_000, is_busy=False)
    assert (both.begins, both.state.buffered_ms) == ((90_000,), 110_000)
    passed = decide(buffered, TIMING, 110_000, is_busy=True)
    assert (passed.begins, passed.state.buffered_ms, passed.state.passed_over) == ((), 90_000, 1)


def test_what_came_longer_ago_than_catch_up_is_passed_over() -> None:
    decision = decide(state(catch_up_ms=20_000), TIMING, 155_000, is_busy=False)
    assert decision.begins == (140_000, 150_000)
    assert decision.missed
    assert decision.state.after_ms == 150_000


def test_a_time_counts_as_missed_from_when_it_was_due() -> None:
    late = state(jitter_ms=5_000, catch_up_ms=20_000)
    due_ms = late.due_ms(110_000)
    assert decide(late, TIMING, due_ms + 20_000, is_busy=False).begins[0] == 110_000
    missed = decide(late, TIMING, due_ms + 20_001, is_busy=False)
    assert (missed.begins[0], missed.missed) == (120_000, True)


def test_an_outage_of_years_is_not_gone_through_time_by_time() -> None:
    years_ms = 10 * 365 * 86_400_000
    decision = decide(state(catch_up_ms=20_000), TIMING, years_ms + 5_000, is_busy=False)
    assert decision.begins == (years_ms - 10_000, years_ms)
    assert decision.missed


def test_a_rare_schedule_that_was_asleep_has_missed_nothing() -> None:
    yearly = Timing(cron=Cron.parse("@yearly"), zone=zone_named("UTC"))
    decision = decide(state(catch_up_ms=20_000), yearly, 90 * 86_400_000, is_busy=False)
    assert (decision.begins, decision.missed, decision.next_ms) == ((), False, 365 * 86_400_000)


def test_many_times_are_decided_a_hundred_at_a_time() -> None:
    first = decide(state(catch_up_ms=10_000_000), TIMING, 100_000 + 150 * EVERY_MS, is_busy=False)
    assert len(first.begins) == 100
    second = decide(first.state, TIMING, 100_000 + 150 * EVERY_MS, is_busy=False)
    assert len(second.begins) == 50
    assert first.next_ms == second.begins[0]


@patient
@given(st.lists(st.integers(1, 200_000), max_size=20), st.sampled_from(Overlap), st.integers(0, 30_000))
def test_each_time_is_decided_once_however_often_one_looks(
    pauses_ms: list[int], overlap: Overlap, jitter_ms: int
) -> None:
    at_ms, current, begun = 100_000, state(overlap, jitter_ms=jitter_ms, catch_up_ms=10**9), list[int]()
    for pause_ms in pauses_ms:
        at_ms += pause_ms
        decision = decide(current, TIMING, at_ms, is_busy=pause_ms % 2 == 0)
        begun += decision.begins
        assert all(current.due_ms(nominal_ms) <= at_ms for nominal_ms in decision.begins)
        assert decision.next_ms is not None
        current = decision.state
    held = [] if current.buffered_ms is None else [current.buffered_ms]
    assert begun == sorted(set(begun))
    decided = times_between(TIMING, 100_001, current.after_ms + 1, 1000)
    assert set(begun) <= set(decided)
    assert len(decided) == len(begun) + len(held) + current.passed_over


def test_jitter_is_a_delay_that_everybody_computes_alike() -> None:
    late = state(jitter_ms=5_000)
    due = [late.due_ms(nominal_ms) - nominal_ms for nominal_ms in range(0, 10**6, EVERY_MS)]
    assert due == [late.due_ms(nominal_ms) - nominal_ms for nominal_ms in range(0, 10**6, EVERY_MS)]
    assert 0 <= min(due) < 500 < 4_500 < max(due) <= 5_000
    other = replace(late, schedule_id="other")
    assert due != [other.due_ms(nominal_ms) - nominal_ms for nominal_ms in range(0, 10**6, EVERY_MS)]
    due_ms = late.due_ms(110_000)
    assert decide(late, TIMING, due_ms - 1, is_busy=False).begins == ()
    assert decide(late, TIMING, due_ms, is_busy=False).begins == (110_000,)


def test_a_run_has_the_id_of_its_schedule_and_time() -> None:
    assert STATE.entropy(110_000) == STATE.entropy(110_000)
    other = replace(STATE, schedule_id="other")
    assert len({STATE.entropy(110_000), STATE.entropy(120_000), other.entropy(110_000)}) == 3
    assert len(STATE.entropy(110_000)) == 10


# people


def test_a_paused_schedule_fires_nothing_and_goes_on_from_now() -> None:
    rest = pause(replace(STATE, buffered_ms=90_000))
    assert rest is not None
    assert rest.buffered_ms is None
    assert pause(rest) is None
    assert rest.next_due_ms(TIMING) is None
    assert rest.due_ms(110_000) == 110_000
    decision = decide(rest, TIMING, 500_000, is_busy=False)
    assert (decision.state, decision.next_ms) == (rest, None)
    on = resume(rest, 500_000)
    assert on is not None
    assert (on.after_ms, resume(on, 500_000)) == (500_000, None)


def test_times_between_two_moments() -> None:
    assert times_between(TIMING, 110_000, 140_000, 10) == (110_000, 120_000, 130_000)
    assert times_between(TIMING, 110_000, 140_000, 2) == (110_000, 120_000)


# code


def witness(me: str = "w-2", *live: str, is_abandoned: bool = False) -> Witness:
    return Witness(me=me, live={me, *live}, now_ms=200_000, is_abandoned=is_abandoned)


def test_a_worker_declares_what_is_new() -> None:
    assert declare(None, "report", None, witness()) is None
    made = declare(None, "report", DECLARED, witness())
    assert made == replace(STATE, by="w-2", after_ms=200_000)


def test_a_fellow_only_speaks_up_when_nobody_does() -> None:
    assert declare(STATE, "report", DECLARED, witness("w-2", "w-1")) is None
    assert declare(STATE, "report", DECLARED, witness()) == replace(STATE, by="w-2")


def test_new_code_changes_a_schedule_and_old_code_does_not_change_it_back() -> None:
    hourly = replace(DECLARED, every_ms=3_600_000)
    changed = declare(replace(STATE, buffered_ms=90_000), "report", hourly, witness("new", "w-1"))
    assert changed is not None
    assert (changed.declared, changed.by, changed.after_ms, changed.buffered_ms) == (hourly, "new", 200_000, None)
    assert declare(changed, "report", DECLARED, witness("old", "new")) is None
    assert declare(changed, "report", DECLARED, witness("old")) is None  # it may be seconds until a fellow speaks up
    back = declare(changed, "report", DECLARED, witness("old", is_abandoned=True))
    assert back is not None
    assert (back.declared, back.by) == (DECLARED, "old")
    assert declare(back, "report", hourly, witness("new", "old")) is None
    # a third declaration is new
    assert declare(back, "report", replace(DECLARED, every_ms=5), witness("newer", "old")) is not None


def test_a_schedule_with_other_rules_goes_on_where_it_was() -> None:
    other = replace(DECLARED, overlap=Overlap.buffer_one)
    changed = declare(replace(STATE, buffered_ms=90_000), "report", other, witness())
    assert changed is not None
    assert (changed.after_ms, changed.buffered_ms) == (100_000, 90_000)
    assert not other.has_times_of(None)


def test_a_schedule_that_code_has_no_more_is_kept_as_one_that_declares_nothing() -> None:
    gone = declare(STATE, "report", None, witness("new", "w-1"))
    assert gone is not None
    assert (gone.declared, gone.is_live, gone.next_due_ms(TIMING)) == (None, False, None)
    assert gone.due_ms(110_000) == 110_000
    assert declare(gone, "report", None, witness("new")) is None
    assert declare(gone, "report", DECLARED, witness("old", "new")) is None
    assert declare(gone, "report", DECLARED, witness("old", is_abandoned=True)) is not None


def test_a_pause_outlives_a_deploy() -> None:
    rest = pause(STATE)
    changed = declare(rest, "report", replace(DECLARED, every_ms=5_000), witness())
    assert changed is not None
    assert changed.paused
