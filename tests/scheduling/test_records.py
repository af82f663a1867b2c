"""Schedules as bytes and back, the runs they begin, and time zones by name."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.scheduling import ScheduleState
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.scheduling.records import dump_state, input_at, load_state, new_run, timing_of
from pyrula_runtime.scheduling.zones import local_text, zone_named
from pyrula_runtime.workflows.starting import Schedule

WEEKLY = Schedule(cron="0 9 * * MON", timezone="Europe/Berlin", overlap="buffer_one", catch_up=60, jitter=5)
DECLARED = WEEKLY.declared("report", "2", takes_time=True)
STATE = ScheduleState(
    schedule_id="report",
    declared=DECLARED,
    by="w-1",
    after_ms=5,
    replaced=("abc", "nothing"),
    paused=True,
    buffered_ms=3,
    fired_ms=2,
    passed_over=7,
)


@pytest.mark.parametrize(
    "state",
    [
        STATE,
        replace(STATE, declared=None),
        ScheduleState(schedule_id="report", declared=DECLARED, by="", after_ms=0),
        replace(STATE, declared=Schedule(every=60).declared("report", None, takes_time=False)),
    ],
)
def test_a_schedule_comes_back_from_its_bytes(state: ScheduleState) -> None:
    assert load_state("report", dump_state(state)) == state


def test_fields_of_later_versions_are_passed_over() -> None:
    tree = json.loads(dump_state(STATE))
    assert load_state("report", json.dumps(tree | {"colour": "red"}).encode()) == STATE


@pytest.mark.parametrize("change", [{"overlap": "explode"}, {"timezone": None, "cron": None}])
def test_what_a_later_version_means_is_no_guess(change: dict[str, object]) -> None:
    tree = json.loads(dump_state(STATE))
    tree["declared"] |= change
    if "overlap" in change:
        with pytest.raises(ValueError, match="explode"):
            load_state("report", json.dumps(tree).encode())
    else:
        del tree["declared"]["timezone"]
        with pytest.raises(KeyError):
            load_state("report", json.dumps(tree).encode())


def test_a_run_is_pinned_and_told_its_time_where_it_takes_it() -> None:
    run = new_run(STATE, DECLARED, 1_774_746_000_000, "run-1")
    assert (run.run_id, run.workflow, run.version, run.schedule_id) == ("run-1", "report", "2", "report")
    assert run.status is RunStatus.queued
    assert json.loads(run.input) == {"scheduled_at": "2026-03-29T03:00:00+02:00"}
    assert input_at(replace(DECLARED, takes_time=False), 0) == {}


def test_a_declaration_says_when_it_comes() -> None:
    assert timing_of(DECLARED).next_ms(0) == 1000 * (4 * 86_400 + 8 * 3_600)  # Monday 1970-01-05, nine in Berlin
    assert timing_of(Schedule(every=60).declared("report", None, takes_time=False)).next_ms(0) == 60_000


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../etc/passwd", "/etc/passwd", "Europe", "Europe/Berlin\0"])
def test_no_such_zone(name: str) -> None:
    with pytest.raises(UsageError, match="there is no time zone"):
        zone_named(name)


def test_a_zone_knows_what_its_clocks_show() -> None:
    assert zone_named("Asia/Kathmandu").offset_s(0) == 19_800  # until 1986
    assert zone_named("America/New_York").offset_s(0) == -18_000
    assert zone_named("UTC").name == "UTC"
    assert local_text(0, "Asia/Kathmandu") == "1970-01-01T05:30:00+05:30"
