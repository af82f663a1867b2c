"""The inquest: what supervisor, black box and crash file say together, and what none of them can say."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyrula_runtime.blackbox import NOBODY, BoxView, Phase
from pyrula_runtime.core.deaths import Cause, Death, Executing
from pyrula_runtime.duties.inquest import Witnesses, begun_of, death_for, death_of
from pyrula_runtime.stacks import CrashNote
from pyrula_runtime.stores.protocol import CLEAN, Dossier, Holding
from pyrula_runtime.wire import Finding
from tests.duties.boxes import END_MS, ENTRY, box, seen, span, token
from tests.store.samples import SUSPECT

SIGNAL = CrashNote(kind="signal", what="SIGSEGV", stack="the stack", line="app.py:3")
EXIT = CrashNote(kind="exit", what="7", stack="the stack", line="app.py:4")
TIMEOUT = CrashNote(kind="timeout", what="0:00:06", stack="the stack", line="app.py:5")
HELD = (token("me"), token("other"))


def death(of: Witnesses) -> Death:
    return death_of(of, HELD, 5, END_MS)


# why


@pytest.mark.parametrize("cause", list(Cause))
def test_a_supervisor_is_believed(cause: Cause) -> None:
    assert death(seen(box(), Finding(cause=cause.value))).cause is cause


@pytest.mark.parametrize("cause", [Cause.blameless, Cause.killed])
@pytest.mark.parametrize(("note", "proved"), [(SIGNAL, Cause.crashed), (EXIT, Cause.exited)])
def test_what_the_dying_process_wrote_proves_its_own_doing(cause: Cause, note: CrashNote, proved: Cause) -> None:
    # an os._exit with a code of ours, or a crash in the middle of a drain
    assert death(seen(box(), Finding(cause=cause.value), note)).cause is proved


@pytest.mark.parametrize("cause", [Cause.loop_blocked, Cause.out_of_memory, Cause.store_frozen])
def test_a_reason_that_the_supervisor_is_sure_of_stands_beside_a_crash_file(cause: Cause) -> None:
    assert death(seen(box(), Finding(cause=cause.value), SIGNAL)).cause is cause


def test_a_reason_of_a_newer_supervisor_blames_nobody() -> None:
    assert death(seen(box(), Finding(cause="struck_by_lightning"))).cause is Cause.blameless


@pytest.mark.parametrize("finding", [None, Finding(cause="crashed"), Finding(cause="killed")])
def test_a_clean_stop_blames_nobody(finding: Finding | None) -> None:
    assert death(seen(box(phase=Phase.stopped_clean, role="plain"), finding, SIGNAL)).cause is Cause.blameless


@pytest.mark.parametrize(
    ("view", "note", "cause"),
    [
        (box(role="plain"), None, Cause.killed),
        (box(role="plain"), TIMEOUT, Cause.killed),
        (box(role="plain"), SIGNAL, Cause.crashed),
        (box(role="plain"), EXIT, Cause.exited),
        (box(role="plain", phase=Phase.starting), None, Cause.killed),
        (box(role="plain", phase=Phase.draining), None, Cause.blameless),
        (box(role="plain", phase=Phase.stopping), None, Cause.blameless),
        (box(role="plain", phase=Phase.draining), SIGNAL, Cause.crashed),
        *((box(role=role), None, Cause.blameless) for role in ("worker", "surge", "cell")),
        *((box(role=role), SIGNAL, Cause.crashed) for role in ("worker", "surge", "cell")),
        (None, None, Cause.blameless),
    ],
)
def test_whom_nobody_reaped(view: BoxView | None, note: CrashNote | None, cause: Cause) -> None:
    assert death(seen(view, None, note)).cause is cause


@pytest.mark.parametrize(
    ("view", "finding", "cell"),
    [
        (box(role="cell"), None, True),
        (box(role="worker"), Finding(cause="killed", in_cell=True), True),
        (None, Finding(cause="killed", in_cell=True), True),
        (box(role="worker"), Finding(cause="killed"), False),
        (box(role="plain"), None, False),
        (None, None, False),
    ],
)
def test_where(view: BoxView | None, finding: Finding | None, *, cell: bool) -> None:
    assert death(seen(view, finding)).in_cell is cell


@pytest.mark.parametrize(
    ("view", "dossier", "cell"),
    [
        (box(role="plain"), SUSPECT, True),
        (box(role="plain"), CLEAN, False),
        (box(role="plain", in_flight=("me", "other")), SUSPECT, False),
        (box(role="worker"), SUSPECT, False),
        (None, SUSPECT, False),
    ],
)
def test_a_plain_worker_is_the_cell_of_a_suspect_that_it_runs_alone(
    view: BoxView | None, dossier: Dossier, *, cell: bool
) -> None:
    told = seen(view)
    holding = Holding(token=token("me"), workflow="order", dossier=dossier)
    assert death_for(told, holding, death(told)).in_cell is cell


# who


def test_who_executed_on_lane_and_threads_and_for_how_long() -> None:
    told = death(seen(box(span("me"), span("other", "", for_ms=9)), Finding(cause="crashed")))
    assert told.executing == (
        Executing(run_id="me", op_id="pay#1", step="pay", for_ms=40),
        Executing(run_id="other", op_id="", step="", for_ms=9),
    )
    on_thread = death(seen(box(NOBODY, span("other")), Finding(cause="crashed"))).executing
    assert on_thread is not None
    assert [each.run_id for each in on_thread] == ["other"]
    assert death(seen(box(), Finding(cause="crashed"))).executing == ()


@pytest.mark.parametrize("view", [None, box(None), box(None, span("me")), box(span("me"), threads_known=False)])
def test_a_torn_record_makes_unknown_who_executed(view: BoxView | None) -> None:
    assert death(seen(view, Finding(cause="killed"))).executing is None


def test_who_was_found_late_did_not_execute_until_then() -> None:
    told = death_of(seen(box(span("me"), span("other", for_ms=5), role="plain")), HELD, 5, END_MS + 3_600_000)
    assert told.executing is not None
    assert [each.for_ms for each in told.executing] == [30, 1]


def test_in_flight_is_whose_turn_had_begun_as_far_as_the_box_knows() -> None:
    assert death(seen(box(in_flight=("me", "gone")))).in_flight == {"me", "gone"}
    assert death(seen(box(in_flight=("gone",), runs_known=False))).in_flight == {"me", "other", "gone"}
    assert death(seen(None)).in_flight == frozenset()


def test_a_claim_that_came_after_the_death_had_not_begun() -> None:
    again = token("me", fence=2)
    assert begun_of(box(), [token("me"), token("other"), again]) == {token("me")}
    assert begun_of(box(runs_known=False), [token("me"), again]) == {token("me"), again}
    assert begun_of(None, HELD) == frozenset()


# the guilty


def test_the_guilty_is_whom_the_box_still_shows_in_the_very_entry() -> None:
    finding = Finding(cause="loop_blocked", guilty="me", entries=ENTRY, for_ms=90_000, line="app.py:9", stack="s")
    told = death(seen(box(span("me")), finding))
    assert (told.guilty, told.evidence.for_ms, told.evidence.line, told.evidence.stack) == (
        "me",
        90_000,
        "app.py:9",
        "s",
    )
    on_thread = death(seen(box(NOBODY, span("me", "long", for_ms=50), span("me", "it")), finding))
    assert on_thread.guilty == "me"
    assert on_thread.executing == (Executing(run_id="me", op_id="it#1", step="it", for_ms=40),)


@pytest.mark.parametrize(
    "view",
    [
        box(span("me", later_ns=1)),  # it went on
        box(span("other")),
        box(),
        box(None),
        None,
    ],
)
def test_nobody_is_guilty_whom_the_box_does_not_show(view: BoxView | None) -> None:
    told = death(seen(view, Finding(cause="loop_blocked", guilty="me", entries=ENTRY)))
    assert (told.cause, told.guilty) == (Cause.loop_blocked, "")


def test_code_of_no_run_makes_nobody_guilty() -> None:
    assert death(seen(box(span("me")), Finding(cause="crashed", guilty="me", entries=ENTRY))).guilty == ""


def test_a_gil_that_nobody_knows_who_kept_is_told_from_a_lane_that_went_on() -> None:
    told = death(seen(box(span("me")), Finding(cause="loop_blocked", for_ms=90_000)))
    assert (told.cause, told.guilty) == (Cause.loop_blocked, None)
    assert [each.run_id for each in told.executing or ()] == ["me"]


# the evidence


def test_the_evidence_is_the_findings_filled_up_from_the_others() -> None:
    finding = Finding(cause="crashed", worker="w-3", pid=9, exit="was killed by SIGSEGV", rss_bytes=1, limit_bytes=2)
    told = death(seen(box(), finding, SIGNAL)).evidence
    assert (told.at_ms, told.cause, told.worker, told.pid, told.exit) == (5, Cause.crashed, "w-3", 9, finding.exit)
    assert (told.rss_bytes, told.limit_bytes, told.line, told.stack) == (1, 2, "app.py:3", "the stack")


@pytest.mark.parametrize(
    ("note", "words"),
    [(SIGNAL, "died of SIGSEGV"), (EXIT, "left by os._exit(7)"), (TIMEOUT, "ended itself"), (None, "")],
)
def test_without_a_finding_the_box_says_who_it_was_and_the_file_how_it_went(note: CrashNote | None, words: str) -> None:
    told = death(seen(box(role="plain"), None, note)).evidence
    assert (told.worker, told.pid) == ("host-1", 42)
    assert words in told.exit


def test_without_a_box_the_incarnation_is_all_that_is_known() -> None:
    told = death(seen(None, Finding(cause="killed"))).evidence
    assert (told.worker, told.pid) == ("inc", 0)


def test_a_line_that_was_seen_from_outside_gets_its_source(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def slow():\n    wait()\n")
    for bare, told in {
        f"{tmp_path}/app.py:2 in slow": f"{tmp_path}/app.py:2 in slow: wait()",
        f"{tmp_path}/gone.py:2 in slow": f"{tmp_path}/gone.py:2 in slow",
        "app.py:2 in slow: wait(1)": "app.py:2 in slow: wait(1)",
    }.items():
        finding = Finding(cause="loop_blocked", guilty="me", entries=ENTRY, line=bare)
        assert death(seen(box(span("me")), finding)).evidence.line == told
