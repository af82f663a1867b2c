"""Schedules, events and places in line from the command line."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.cli.sites import Site


@pytest.fixture
def declared(site: Site) -> Site:
    """A site whose worker has declared what its code says, and has gone."""
    worker = site.serving()
    worker.said("schedule report is as the code of this worker says")
    assert worker.stop() == 0
    return site


def test_a_schedule_is_listed_paused_resumed_and_forgotten(declared: Site) -> None:
    (told,) = declared.document("schedules", "list")
    assert (told["name"], told["cron"], told["timezone"], told["paused"]) == (
        "report",
        "@yearly",
        "Europe/Berlin",
        False,
    )
    assert declared.answer("schedules", "pause", "report") == "report: paused"
    listed = declared.answer("schedules", "list")
    assert "@yearly" in listed
    assert "paused" in listed
    assert declared.answer("schedules", "resume", "report") == "report: fires again"
    assert declared.answer("schedules", "drop", "report") == "report: forgotten"
    done = declared.pyrula("schedules", "list")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "no schedules\n")


def test_the_next_times_are_told_in_the_zone_of_the_schedule(declared: Site) -> None:
    found = declared.answer("schedules", "next", "report", "--count", "2").splitlines()
    assert [line[4:] for line in found] == ["-01-01 00:00:00+01:00"] * 2
    as_json = declared.document("schedules", "next", "report", "--count", "2")
    assert [line.replace(" ", "T") for line in found] == as_json


def test_a_backfill_that_ends_before_it_begins_is_refused(declared: Site) -> None:
    for dry in ((), ("--dry-run",)):
        done = declared.pyrula("schedules", "backfill", "report", "--from", "2022-06-01", "--to", "2020-06-01", *dry)
        assert (done.returncode, done.stdout) == (2, "")
        assert "ends before it begins; give the earlier moment first" in done.stderr


def test_a_store_without_schedules_says_so(declared: Site) -> None:
    declared.answer("schedules", "drop", "report")
    done = declared.pyrula("schedules", "trigger", "report")
    sentence = "no schedule 'report' in this store, nor any other; start a worker whose code declares it"
    assert (done.returncode, done.stderr) == (2, f"pyrula: {sentence}\n")


def test_runs_are_begun_by_hand(declared: Site) -> None:
    run_id = declared.answer("schedules", "trigger", "report")
    shown = declared.answer("runs", "show", run_id)
    assert "schedule  report" in shown
    assert [each["run_id"] for each in declared.document("runs", "list", "--schedule", "report")] == [run_id]
    done = declared.pyrula("schedules", "trigger", "report")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"run {run_id} of schedule 'report' has not ended" in done.stderr
    span = ("--from", "2020-06-01", "--to", "2022-06-01")
    times = declared.answer("schedules", "backfill", "report", *span, "--dry-run").splitlines()
    assert times == ["2021-01-01 00:00:00+01:00", "2022-01-01 00:00:00+01:00"]
    begun = declared.pyrula("schedules", "backfill", "report", *span)
    assert begun.stderr == "pyrula: 2 runs begun\n"
    assert len(begun.stdout.split()) == 2
    again = declared.pyrula("schedules", "backfill", "report", *span)
    assert (again.stdout, again.stderr) == ("", "pyrula: 0 runs begun\n")
    last = begun.stdout.split()[-1]
    assert declared.document("runs", "show", last)["input"] == {"scheduled_at": "2022-01-01T00:00:00+01:00"}


@pytest.mark.parametrize("verb", ["pause", "resume", "trigger", "drop"])
def test_one_that_is_not_there_keeps_no_other_from_it(declared: Site, verb: str) -> None:
    done = declared.pyrula("schedules", verb, "reprot", "report")
    assert done.returncode == 2
    assert "no schedule 'reprot' in this store; the schedules are: report" in done.stderr
    assert len(done.stdout.splitlines()) == 1


def test_an_event_begins_a_run_if_its_filter_admits_it(declared: Site) -> None:
    assert declared.answer("emit", "order.created", '{"total": 10}', "--id", "A-17") == "A-17"
    again = declared.pyrula("emit", "order.created", '{"total": 99}', "--id", "A-17")
    assert (again.returncode, again.stdout) == (0, "A-17\n")
    assert "was told before, and counts once" in again.stderr
    assert declared.document("emit", "order.created", '{"total": 5}', "--id", "A-18") == {
        "event_id": "A-18",
        "is_new": True,
    }
    assert declared.answer("emit", "nobody.wants", "[1, 2]", "--id", "N-1") == "N-1"
    listed = declared.answer("events")
    assert [line.split()[:2] for line in listed.splitlines()[1:]] == [
        ["order.created", "A-17"],
        ["order.created", "A-18"],
        ["nobody.wants", "N-1"],
    ]
    worker = declared.serving()
    worker.said("event A-17 (order.created) began run")
    assert worker.stop() == 0
    (run,) = declared.document("runs", "list", "--workflow", "thanks")
    assert declared.document("runs", "show", run["run_id"])["input"] == {"total": 10}
    (left,) = declared.document("events")
    assert (left["event_id"], left["workflow"], left["payload"]) == ("N-1", None, [1, 2])


def test_no_event_waits(site: Site) -> None:
    done = site.pyrula("events")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "no event waits\n")


def test_a_place_in_line_is_shown(site: Site) -> None:
    run_id = site.answer("submit", "order", "--priority", "7", "--delay", "10min")
    listed = site.answer("runs", "list")
    assert "priority" in listed
    assert "starts in 9 min" in listed
    shown = site.answer("runs", "show", run_id)
    assert "priority  7" in shown
    assert "(in 9 min)" in shown
    assert "it is to begin in 9 min" in site.answer("runs", "why", run_id)
    told = site.document("runs", "show", run_id)
    assert (told["status"], told["priority"]) == ("waiting", 7)


def test_a_start_is_meant_as_this_machine_shows_it(site: Site) -> None:
    run_id = site.answer("submit", "order", "--start-at", "2100-06-01T12:00")
    told = site.document("runs", "show", run_id)
    assert told["start_at_ms"] == 1000 * int(datetime(2100, 6, 1, 12).timestamp())
    soon = (datetime.now().astimezone() + timedelta(seconds=1)).isoformat()
    worker = site.serving()
    done = site.pyrula("submit", "order", "--start-at", soon, "--wait")
    assert (done.returncode, done.stdout) == (0, "4\n")
    assert worker.stop() == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("submit", "order", "--priority", "1001"), "--priority"),
        (("submit", "order", "--delay", "soon"), "'soon' is no length of time"),
        (("submit", "order", "--start-at", "Friday"), "'Friday' is no date; write it like 2026-12-24"),
        (("submit", "order", "--delay", "1h", "--start-at", "2100-01-01"), "give delay= or start_at=, not both"),
        (("schedules", "backfill", "report", "--from", "2026-01-01"), "--to"),
        (("schedules", "next", "report", "--count", "0"), "--count"),
        (("schedules", "next", "report"), "no schedule 'report' in this store, nor any other"),
        (("emit", "order created!"), "event name 'order created!' must be"),
        (("emit", "order.created", "{"), "the input is not JSON"),
        (("schedules", "lst"), "did you mean 'list'?"),
    ],
)
def test_a_wrong_call_is_one_sentence(site: Site, args: tuple[str, ...], said: str) -> None:
    done = site.pyrula(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
